"""A model for the web in headless Chromium, with and without what lets a page have threads. The page itself says how it went."""
import http.server
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import threading

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = str(pathlib.Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DIGITS = ROOT / "examples/digits/digits.onnx"
IMAGES = np.random.default_rng(1).random((2, 1, 8, 8), np.float32)
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
PAGE = """<!doctype html><title>test</title><script type="module">
const said = [], told = console.info, answer = {};
console.info = (text) => { said.push(text); told(text); };
try {
    const { load } = await import("./web/model.mjs");
    const model = await load(), again = await load();    // the second finds its weights in the cache
    const y = await model.run({ image: new Float32Array(IMAGES) });
    Object.assign(answer, { threads: model.threads, module: model.module, dims: y.probability.dims, y: [...y.probability], said });
    answer.same = String((await again.run({ image: new Float32Array(IMAGES) })).probability) === String(y.probability);
} catch (e) {
    answer.error = e.message;
}
await fetch("/answer", { method: "POST", body: JSON.stringify(answer) });
</script>"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([TENON, "compile", DIGITS, "--emit", "wasm", "-o", folder / "web"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "index.html").write_text(PAGE.replace("IMAGES", json.dumps(IMAGES.flatten().tolist())))
    return folder


def opened(folder, profile, headers, cut=None):
    """What the page answers, and the paths that it fetched. cut: of the weights that many bytes are sent, then the connection ends."""
    answers, asked = queue.Queue(), []

    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".wasm": "application/wasm"}

        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def end_headers(self):
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

        def do_GET(self):
            asked.append(self.path)
            if cut is None or not self.path.endswith(".weights"):
                return super().do_GET()
            data = (folder / "web/model.weights").read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:cut])
            self.close_connection = True

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            answers.put(json.loads(body))

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = subprocess.Popen([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                                f"http://127.0.0.1:{server.server_port}/index.html"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        return answers.get(timeout=120), asked
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("headers", [{}, ISOLATED], ids=["plain", "isolated"])
def test_a_page(tmp_path, folder, headers):
    answer, asked = opened(folder, tmp_path / "profile", headers)
    assert "error" not in answer, answer
    isolated = bool(headers) and os.cpu_count() > 1
    assert (answer["threads"] > 1) == isolated
    assert answer["module"].endswith("-threads.wasm") == isolated
    assert len(answer["said"]) == (0 if headers else 1) and all("Cross-Origin-Opener-Policy" in s for s in answer["said"])
    assert asked.count("/web/model.weights") == 1
    assert answer["same"]
    done = subprocess.run([TENON, "run", DIGITS, "-i", f"image=@{save(tmp_path)}", "--output-dir", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.array(answer["y"]).reshape(answer["dims"]), np.load(tmp_path / "out/probability.npy"), rtol=1e-4, atol=1e-5)


def save(tmp_path):
    np.save(tmp_path / "image.npy", IMAGES)
    return tmp_path / "image.npy"


def test_a_fetch_that_breaks_off(tmp_path, folder):
    answer, _ = opened(folder, tmp_path / "profile", {}, cut=5000)
    assert "the weights broke off after" in answer["error"] and "load the model again" in answer["error"]


DRAW = """<script type="module">
const of = (id) => document.getElementById(id), canvas = of("canvas");
const until = async (f) => { while (!f()) await new Promise((next) => setTimeout(next, 50)); };
const point = (what, x, y) => canvas[what](Object.assign(new Event(what), { offsetX: x, offsetY: y, buttons: 1 }));
await until(() => canvas.onpointermove && of("write").onclick);
point("onpointerdown", 128, 24);
for (let y = 24; y < 232; y += 8)
    point("onpointermove", 128, y);
await until(() => of("digit").textContent);
of("write").click();
await until(() => of("text").textContent.length > 200 && !of("write").disabled);
await fetch("/answer", { method: "POST", body: JSON.stringify({ digit: of("digit").textContent, text: of("text").textContent }) });
</script>"""


def test_the_example(tmp_path, folder):
    site = tmp_path / "site"
    shutil.copytree(ROOT / "examples/page", site)
    shutil.copytree(folder / "web", site / "models/digits")
    shutil.copy(ROOT / "examples/generate/tokens.txt", site / "models")
    done = subprocess.run([TENON, "compile", ROOT / "examples/generate/austen.onnx", "--state", "past_key_values.*=present.*", "--emit", "wasm", "-o",
                           site / "models/austen"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (site / "index.html").write_text((site / "index.html").read_text() + DRAW)
    answer, _ = opened(site, tmp_path / "profile", ISOLATED)
    assert answer["digit"] == "1"
    assert answer["text"].startswith("It is a truth universally") and answer["text"].count(" ") > 20


MAIN = """import { load } from "digits";
const model = await load(), { probability } = await model.run({ image: new Float32Array(64).fill(3) });
const answer = JSON.stringify({ threads: model.threads, p: [...probability] });
if (globalThis.document) await fetch("/answer", { method: "POST", body: answer });
else console.log(answer);
"""


@pytest.mark.skipif(not os.environ.get("TENON_NIGHTLY"), reason="fetches Vite from the npm registry: at night")
def test_a_package_that_node_and_vite_take(tmp_path, folder):
    if not shutil.which("npm"):
        pytest.skip("npm is not there: the package of a model was not tried")

    def npm(*command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    npm("npm", "pack", folder / "web")
    (tmp_path / "package.json").write_text('{ "name": "user", "private": true, "type": "module" }')
    npm("npm", "install", "--no-audit", "--no-fund", *tmp_path.glob("*.tgz"), "vite")
    (tmp_path / "main.js").write_text(MAIN)
    (tmp_path / "index.html").write_text('<script type="module" src="/main.js"></script>')
    in_node = json.loads(npm("node", "main.js"))
    npm("npx", "vite", "build", "--target", "esnext")
    answer, asked = opened(tmp_path / "dist", tmp_path / "profile", ISOLATED)
    np.testing.assert_allclose(answer["p"], in_node["p"], rtol=1e-4, atol=1e-6)
    assert answer["threads"] == in_node["threads"]
    assert sum(".weights" in path for path in asked) == 1
