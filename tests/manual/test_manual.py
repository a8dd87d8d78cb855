"""The manual: every command and every program in it runs, every link leads somewhere, and the site builds."""
import functools
import http.server
import os
import pathlib
import queue
import re
import shutil
import subprocess
import threading
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "doc/manual/docs"
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PYTHON = os.environ.get("TENON_WHEEL_PYTHON", str(ROOT / "build/wheel/venv/bin/python"))


def blocks(page, language):
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path):
    for name in ("digits.onnx", "held_out.npz"):
        shutil.copy(ROOT / "examples/digits" / name, tmp_path)
    return tmp_path


def run(args, folder, caches, **env):
    env = os.environ | {"PATH": f"{ROOT / 'build'}:{ROOT / 'build/venv/bin'}:{os.environ['PATH']}", "TENON_CACHE_DIR": str(caches)} | env
    done = subprocess.run(args, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (args, done.stdout[-1500:], done.stderr[-1500:])
    return done.stdout


def test_no_block_is_left_out():
    """HTML is what tests/reach/test_browser.py has a page of its own for."""
    kinds = {kind for page in PAGES for kind, _ in BLOCK.findall(page.read_text())}
    assert kinds <= {"sh", "python", "c", "html"}, "a block of another language is not run by anything"
    assert sum(len(blocks(p, "sh")) for p in PAGES) >= 12


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "sh")], ids=lambda p: p.stem)
def test_commands(page, folder, caches):
    run(["bash", "-euo", "pipefail", "-c", "\n".join(blocks(page, "sh"))], folder, caches)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.stem)
def test_python(page, folder, caches):
    for program in blocks(page, "python"):
        (folder / "program.py").write_text(program)
        run([PYTHON, "program.py"], folder, caches)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "c")], ids=lambda p: p.stem)
def test_c(page, folder, caches):
    for program in blocks(page, "c"):
        (folder / "program.c").write_text(program)
        run(["cc", "-Wall", "-Werror", f"-I{ROOT / 'include'}", "program.c", ROOT / "build/libtenon.a", "-lm", "-lpthread", "-ldl", "-o", "program"], folder, caches)
        assert "kernels" in run(["./program"], folder, caches)


def test_options_named_in_the_manual_exist():
    said = "".join(subprocess.run([ROOT / "build/tenon", "help", verb], capture_output=True, text=True).stdout
                   for verb in ("compile", "explain", "run", "bench", "inspect", "verify", "machine", "cache"))
    said += subprocess.run([ROOT / "build/tenon-serve", "--help"], capture_output=True, text=True).stdout + " --install"
    for page in PAGES:
        text = re.sub(r"pkg-config --cflags --libs|\bcmake [^`|]*|\bpip install\S* [^`]*", "", page.read_text())
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)):
            assert option in said, (page.name, option)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([ROOT / "build/venv-manual/bin/python", "-m", "mkdocs", "build", "--strict", "-q", "-f", ROOT / "doc/manual/mkdocs.yml", "-d", folder],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_needs_no_network(site):
    for page in PAGES:
        text = (site / f"{page.stem}.html").read_text()
        assert not re.search(r'(src|href)="https?://(?!squidfunk)', re.sub(r"<footer.*", "", text, flags=re.S)), page


ASK = """<iframe src="/index.html?q=%s" style="width:1200px;height:800px"></iframe><script>
setInterval(() => {
    const page = document.querySelector("iframe").contentDocument, said = page?.querySelector(".md-search-result__meta")?.textContent ?? "";
    if (/matching/.test(said)) fetch("/told?" + [...page.querySelectorAll(".md-search-result__link")].map((a) => a.pathname).join(" "));
}, 200);</script>"""


@pytest.mark.parametrize("words,page", [("quantize", "quantising"), ("--weights", "quantising"), ("InferenceSession", "onnxruntime"), ("pip install", "installing"),
                                        ("--target armv8-a", "platforms"), ("made for AArch64", "troubleshooting")])
def test_the_search_finds(site, tmp_path, words, page):
    """Asked as a reader asks, in a browser."""
    told = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/told?"):
                told.put(urllib.parse.unquote(self.path[6:]))
            if not self.path.startswith("/ask"):
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write((ASK % urllib.parse.quote(words)).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(Handler, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--remote-debugging-port=0",
                                    f"http://localhost:{server.server_port}/ask"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert f"/{page}.html" in told.get(timeout=60).split()
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
