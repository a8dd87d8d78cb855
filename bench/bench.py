#!/usr/bin/env python3
"""Tenon and ONNX Runtime in one run, in turn, on one core; and what Tenon's compiler costs.

    bench.py [--quick] [--json FILE] [MODEL…]      MODEL: names of bench/models; default: those with a floor

Speed: rounds of Tenon, then its peer, on the same core and the same inputs, one thread each; the median
of the rounds' medians. A ratio is Tenon's speed over the peer's: above 1 Tenon is faster. Every number
is printed, met or missed.

This process stays small (no NumPy, no model in memory), so that what the kernel tells of its children's
memory is theirs.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
TENON = str(BUILD / "tenon")
MODELS = BUILD / "models"
FLOORS = {"mobilenet_v1": 0.4, "resnet50": 0.4, "bert_base": 0.4}
PRODUCT, PRODUCT_FLOOR = 1024, 0.60
COLD_SECONDS, WARM_SECONDS, LOAD_MS, RESIDENT, COMPILE_MEMORY = 20, 1, 50, 1.3, 3
MB = 1e6

MAKE_INPUTS = """
import sys, numpy as np, onnx
model, folder = onnx.load(sys.argv[1], load_external_data=False), sys.argv[2]
weights = {w.name for w in model.graph.initializer}
sizes = {"batch": 1, "seq": 128}
for x in model.graph.input:
    if x.name in weights: continue
    t = x.type.tensor_type
    dims = [d.dim_value or sizes[d.dim_param] for d in t.shape.dim]
    rng = np.random.default_rng(1)
    if t.elem_type == onnx.TensorProto.FLOAT: value = rng.standard_normal(dims, dtype=np.float32)
    elif x.name == "mask": value = np.ones(dims, np.int64)
    else: value = rng.integers(0, 30000, dims, dtype=np.int64)
    np.save(f"{folder}/{x.name}.npy", value)
"""

MAKE_PRODUCT = """
import sys
from onnx import TensorProto, helper, save
n = int(sys.argv[2])
info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [n, n])
graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"], "product")], "product", [info("a"), info("b")], [info("c")])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
"""


def python(code: str, *args) -> None:
    subprocess.run([sys.executable, "-c", code, *map(str, args)], check=True)


def quiet(*args, **how) -> str:
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True, **how)
    if done.returncode:
        sys.exit(f"bench: {' '.join(map(str, args))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Table:
    """Rows printed as they are measured, and kept for --json."""

    def __init__(self):
        self.rows, self.missed = [], 0

    def head(self, *titles: str) -> None:
        print("\n{:<28}{:>14}{:>16}{:>10}{:>12}   {}".format(*titles))

    def add(self, what: str, tenon: str, other: str, ratio: str, floor: str, met: bool | None, numbers: dict) -> None:
        verdict = {True: "met", False: "MISSED", None: ""}[met]
        self.missed += met is False
        self.rows.append({"what": what.strip(), "met": met} | numbers)
        print(f"{what:<28}{tenon:>14}{other:>16}{ratio:>10}{floor:>12}   {verdict}", flush=True)


# ---- speed -------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, core: int, quick: bool, folder: pathlib.Path):
        self.core, self.folder = core, folder
        self.rounds, self.seconds = (2, 0.7) if quick else (5, 2.0)

    def pin(self) -> None:
        os.sched_setaffinity(0, {self.core})

    def peak(self) -> float:
        """GFLOP/s of this core, from a program of independent multiply-adds."""
        program = self.folder / "peak"
        if not program.exists():
            quiet("cc", "-O2", "-march=native", ROOT / "bench/peak.c", "-o", program)
        return float(quiet(program, preexec_fn=self.pin))

    def tenon(self, so: pathlib.Path, inputs: list[str], warmup: int) -> float:
        out = self.folder / "tenon.json"
        quiet(TENON, "bench", so, "--threads", 1, "--warmup", warmup, "--duration", self.seconds, "--json", out, *inputs, preexec_fn=self.pin)
        return json.loads(out.read_text())["median_ms"]

    def pair(self, model: pathlib.Path, peak: bool = False) -> tuple[list[float], list[float], list[float]]:
        """Medians of each round: Tenon's, ONNX Runtime's, and the core's peak if asked for."""
        data, so = self.folder / model.stem, self.folder / f"{model.stem}.so"
        data.mkdir()
        python(MAKE_INPUTS, model, data)
        quiet(TENON, "compile", model, "-o", so)
        inputs = [word for f in sorted(data.glob("*.npy")) for word in ("--input", f"{f.stem}=@{f}")]
        peer = subprocess.Popen([sys.executable, ROOT / "bench/peer.py", model, data], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True, preexec_fn=self.pin)
        if peer.stdout.readline() != "ready\n":
            sys.exit("bench: ONNX Runtime did not start")
        ours, theirs, peaks = [], [], []
        for _ in range(self.rounds):
            if peak:
                peaks.append(self.peak())
            ours.append(self.tenon(so, inputs, 3))
            peer.stdin.write(f"3 {self.seconds}\n")
            peer.stdin.flush()
            theirs.append(statistics.median(json.loads(peer.stdout.readline())))
        peer.stdin.close()
        peer.wait()
        so.unlink()
        return ours, theirs, peaks


def filled(name: str) -> pathlib.Path:
    quiet(sys.executable, ROOT / "bench/fill.py", MODELS, name)
    return MODELS / f"{name}.onnx"


def speed(bench: Bench, table: Table, names: list[str]) -> None:
    table.head("one thread, one core", "Tenon", "ONNX Runtime", "ratio", "floor", "")
    for name in names:
        ours, theirs, _ = bench.pair(filled(name))
        t, p = statistics.median(ours), statistics.median(theirs)
        floor = FLOORS.get(name)
        table.add(name + (" 1x128" if name in ("bert_base", "gpt2", "smollm_135m") else ""), f"{t:.2f} ms", f"{p:.2f} ms", f"{p / t:.2f}",
                  f">= {floor:.2f}" if floor else "", p / t >= floor if floor else None,
                  dict(tenon_ms=t, peer_ms=p, ratio=p / t, rounds_tenon_ms=ours, rounds_peer_ms=theirs))


def product(bench: Bench, table: Table) -> None:
    model = bench.folder / "product.onnx"
    python(MAKE_PRODUCT, model, PRODUCT)
    ours, theirs, peaks = bench.pair(model, peak=True)
    peak = max(peaks)
    rate = lambda ms: 2 * PRODUCT**3 / ms * 1e-6
    t, p = rate(statistics.median(ours)), rate(statistics.median(theirs))
    table.add(f"product of {PRODUCT} x {PRODUCT}", f"{t:.1f} GFLOP/s", f"{p:.1f} GFLOP/s", f"{t / p:.2f}", "", None, dict(tenon_gflops=t, peer_gflops=p))
    table.add("  of the core's peak", f"{100 * t / peak:.0f} %", f"{100 * p / peak:.0f} %", "", f">= {100 * PRODUCT_FLOOR:.0f} %",
              t / peak >= PRODUCT_FLOOR, dict(peak_gflops=peak, share=t / peak))


# ---- compiling, loading, memory ------------------------------------------------------------------------


def compile_once(model: pathlib.Path, so: pathlib.Path, cache: pathlib.Path) -> tuple[float, int]:
    """Seconds, and the memory of the largest process in it: Tenon's or a C compiler's."""
    start = time.perf_counter()
    child = subprocess.Popen([TENON, "compile", str(model), "-o", str(so), "--cache-dir", str(cache)], stdout=subprocess.DEVNULL)
    _, status, use = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"bench: compiling {model.name} failed")
    return time.perf_counter() - start, use.ru_maxrss * 1024


def compiling(bench: Bench, table: Table) -> None:
    table.head("compiler, all cores", "Tenon", "", "", "limit", "")
    model, so, cache = filled("resnet50"), bench.folder / "resnet50.so", bench.folder / "cache"
    cold, memory = compile_once(model, so, cache)
    warm = statistics.median(compile_once(model, so, cache)[0] for _ in range(3))
    table.add("resnet50, empty cache", f"{cold:.1f} s", "", "", f"< {COLD_SECONDS} s", cold < COLD_SECONDS, dict(seconds=cold))
    table.add("resnet50, warm cache", f"{warm:.2f} s", "", "", f"< {WARM_SECONDS} s", warm < WARM_SECONDS, dict(seconds=warm))
    memory_row(table, "resnet50", memory, model)


def memory_row(table: Table, name: str, memory: int, model: pathlib.Path) -> None:
    size = model.stat().st_size
    table.add(f"{name}, peak memory", f"{memory / MB:.0f} MB", f"model {size / MB:.0f} MB", f"{memory / size:.2f}", f"< {COMPILE_MEMORY:.2f}",
              memory < COMPILE_MEMORY * size, dict(bytes=memory, model_bytes=size))


def loading(bench: Bench, table: Table) -> None:
    model, so, data = filled("vgg16"), bench.folder / "vgg16.so", bench.folder / "vgg16-data"
    data.mkdir()
    python(MAKE_INPUTS, model, data)
    _, memory = compile_once(model, so, bench.folder / "cache")
    memory_row(table, "vgg16", memory, model)
    table.head("artefact of vgg16", "Tenon", "", "", "limit", "")
    runs = [json.loads(quiet(BUILD / "bench_load", so, data / "input.npy", preexec_fn=bench.pin)) for _ in range(3)]
    load = statistics.median(r["load_ms"] for r in runs)
    used, needed = max(r["peak_bytes"] for r in runs), model.stat().st_size + runs[0]["arena_bytes"]
    table.add("loading", f"{load:.2f} ms", "", "", f"< {LOAD_MS} ms", load < LOAD_MS, dict(ms=load))
    table.add("resident while running", f"{used / MB:.0f} MB", f"needs {needed / MB:.0f} MB", f"{used / needed:.2f}", f"< {RESIDENT:.2f}",
              used < RESIDENT * needed, dict(bytes=used, weights_and_arena_bytes=needed))


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    options.add_argument("--json", metavar="FILE", help="write every number to FILE")
    options.add_argument("models", nargs="*", metavar="MODEL", help="speed of these only; 'product' is the matrix product")
    o = options.parse_args()
    core = max(os.sched_getaffinity(0))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=BUILD))
    table = Table()
    try:
        bench = Bench(core, o.quick, folder)
        print(f"{processor()}, core {core}, peak {bench.peak():.1f} GFLOP/s (f32)")
        busy = os.getloadavg()[0]
        if busy > 0.8:
            print(f"this machine is busy (load {busy:.1f}): the numbers below are worth less")
        speed(bench, table, [m for m in o.models if m != "product"] if o.models else list(FLOORS))
        if not o.models or "product" in o.models:
            product(bench, table)
        if not o.models:
            compiling(bench, table)
            loading(bench, table)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{table.missed} missed" if table.missed else "\nevery floor met")
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps({"processor": processor(), "core": core, "rows": table.rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
