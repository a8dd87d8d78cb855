"""Models in WebAssembly, in Node: Tenon's folder for the web against onnxruntime-web, in turn in one process; two threads
against one; the share of the speed that the same processor has as x86-64-v2, whose vectors are as long; bytes of code.

onnxruntime-web comes from the npm registry, into build/web-bench.
"""
import gzip
import json
import pathlib
import subprocess

from measure import BUILD, ROOT, TENON, Bench, geomean, quiet

PEER = "onnxruntime-web@1.30.0"
RATIO, THREADS, SHARE, CODE_KB = (1.5, 2), (1.6, 1.9), (0.8, 0.95), (40, 25)


def peers() -> pathlib.Path:
    folder = BUILD / "web-bench"
    stamp = folder / "node_modules" / ".peer"
    if not stamp.exists() or stamp.read_text() != PEER:
        folder.mkdir(parents=True, exist_ok=True)
        quiet("npm", "install", "--no-audit", "--no-fund", "--prefix", folder, PEER)
        stamp.write_text(PEER)
    return folder


def row(b: Bench, model: pathlib.Path, library: pathlib.Path) -> dict | None:
    web, data = b.folder / f"{model.stem}-web", b.data_of(model)
    quiet(TENON, "compile", model, "--emit", "wasm", "-o", web)
    so = b.folder / f"{model.stem}-v2.so"
    quiet(TENON, "compile", model, "--target", "x86-64-v2", "-o", so)
    asked = {"folder": str(web), "onnx": str(model), "data": str(data), "peers": str(library), "rounds": b.rounds, "seconds": b.seconds}
    done = subprocess.run(["node", ROOT / "bench/web.mjs", json.dumps(asked)], capture_output=True, text=True, preexec_fn=b.pin_to(2))
    if done.returncode:
        b.table.fail(model.stem, done.stderr)
        return None
    times = json.loads(done.stdout.splitlines()[-1])
    if not times["error"] < 1e-3:
        b.table.fail(model.stem, f"outputs are {times['error']:.2g} apart")
        return None
    native = b.tenon(so, data, 1)["median_ms"]
    code = len(gzip.compress((web / "model.wasm").read_bytes(), 9)) / 1000
    return times | {"native": native, "code": code, "weights": (web / "model.weights").stat().st_size}


def web(b: Bench, models: list[pathlib.Path]) -> None:
    library, rows = peers(), []
    b.table.head("in Node, one thread", "Tenon", "onnxruntime-web", "ratio", "two threads", "of x86-64-v2", "code, gzip", "memory")
    for model in models:
        r = row(b, model, library)
        if not r:
            continue
        rows.append(r)
        cells = [f"{r['one']:.2f} ms", f"{r['peer']:.2f} ms", f"{r['peer'] / r['one']:.2f}", f"{r['one'] / r['two']:.2f}",
                 f"{r['native'] / r['one']:.2f}", f"{r['code']:.0f} KB", f"{r['memory'] / 1e6:.0f} MB"]
        b.table.add(model.stem, cells, r)
    if not rows:
        return
    for what, values, (floor, aim), most in (
            ("onnxruntime-web over Tenon", [r["peer"] / r["one"] for r in rows], RATIO, False),
            ("two threads over one", [r["one"] / r["two"] for r in rows], THREADS, False),
            ("share of x86-64-v2", [r["native"] / r["one"] for r in rows], SHARE, False)):
        mean = geomean(values)
        b.table.add(what, [f"{mean:.2f}"], {"mean": mean}, mean, floor, aim, most)
    largest = max(r["code"] for r in rows)
    b.table.add("largest code, gzip [KB]", [f"{largest:.0f}"], {"code": largest}, largest, *CODE_KB, most=True, show="{:.0f}")
