"""What the benches share: processes that are pinned and take turns, facts of the machine, and a table.

Rounds of Tenon, then of each peer, on the same cores and the same inputs; of each the median of the rounds' medians. A
ratio is Tenon's speed over a peer's: above 1 Tenon is faster.

A bench's own process stays small (no NumPy, no model in memory), so that what the kernel tells of its children's
memory is theirs, and leaves the cores to those that it measures.
"""
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
TENON = str(BUILD / "tenon")
MODELS = BUILD / "models"
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
NAMES = PEERS | {"flexattention": "FlexAttention"}

MAKE_INPUTS = """
import sys, numpy as np, onnx
model, folder = onnx.load(sys.argv[1], load_external_data=False), sys.argv[2]
weights = {w.name for w in model.graph.initializer}
sizes = {"batch": 1, "seq": 128}
for x in model.graph.input:
    if x.name in weights: continue
    t = x.type.tensor_type
    dims = [d.dim_value or sizes[d.dim_param] for d in t.shape.dim]
    kind = onnx.helper.tensor_dtype_to_np_dtype(t.elem_type)
    rng = np.random.default_rng(1)
    most = [int(w) for w in x.doc_string.split() if w.isdigit()]
    if np.issubdtype(kind, np.floating): value = rng.standard_normal(dims, dtype=np.float32).astype(kind)
    elif x.name == "mask" or x.name == "attention_mask": value = np.ones(dims, kind)
    elif kind == np.uint8 or kind == np.int8: value = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, dims, dtype=kind, endpoint=True)
    else: value = rng.integers(0, most[0] if most else 30000, dims, dtype=kind)
    np.save(f"{folder}/{x.name}.npy", value)
"""


def quiet(*args, **how) -> str:
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True, **how)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, args))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def python(code: str, *args) -> None:
    quiet(sys.executable, "-c", code, *args)


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def geomean(values) -> float:
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def ranks(values: list[float]) -> list[float]:
    """From 1; equal values share the mean of their places."""
    order, out = sorted(range(len(values)), key=values.__getitem__), [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for i in range(at, end + 1):
            out[order[i]] = (at + end) / 2 + 1
        at = end + 1
    return out


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's: the correlation of places."""
    x, y = ranks(a), ranks(b)
    mx, my = statistics.mean(x), statistics.mean(y)
    norm = (sum((i - mx) ** 2 for i in x) * sum((j - my) ** 2 for j in y)) ** 0.5
    return sum((i - mx) * (j - my) for i, j in zip(x, y)) / norm if norm else float("nan")


class Table:
    """Rows printed as they are measured, each beside its floor and its aim, and kept for --json
    and --record."""

    def __init__(self):
        self.rows, self.tables, self.missed, self.failed = [], [], 0, 0

    def say(self, line: str) -> None:
        print(line, flush=True)

    def head(self, title: str, *columns: str) -> None:
        self.tables.append({"title": title, "columns": columns, "rows": []})
        self.say(f"\n{title:<30}" + "".join(f"{c:>17}" for c in columns) + f"{'floor':>10}{'aim':>8}")

    def add(self, what: str, cells: list[str], numbers: dict, value: float | None = None, floor: float | None = None,
            aim: float | None = None, most: bool = False, show: str = "{:.2f}") -> None:
        """value is what floor and aim are about; with `most` they are limits from above."""
        better = (lambda a, b: a <= b) if most else (lambda a, b: a >= b)
        met = None if value is None or floor is None else bool(better(value, floor))
        verdict = "" if met is None else "MISSED" if not met else "aim met" if aim is not None and better(value, aim) else "met"
        limits = [show.format(x) if x is not None else "" for x in (floor, aim)]
        self.missed += met is False
        self.rows.append({"what": what.strip(), "met": met, "floor": floor, "aim": aim} | numbers)
        self.keep(what, cells, *limits, verdict)
        self.say(f"{what:<30}" + "".join(f"{c:>17}" for c in cells) + f"{limits[0]:>10}{limits[1]:>8}   {verdict}".rstrip())

    def keep(self, what: str, cells: list[str], floor: str, aim: str, verdict: str) -> None:
        """A row that is about the one before begins with blanks, and is named after it."""
        if not self.tables:
            return
        rows = self.tables[-1]["rows"]
        if what.startswith(" ") and rows:
            what = f"{rows[-1]['what'].split(': ')[0]}: {what.strip()}"
        rows.append({"what": what, "cells": cells, "floor": floor, "aim": aim, "verdict": verdict})

    def fail(self, what: str, why: str) -> None:
        self.failed += 1
        self.rows.append({"what": what.strip(), "met": False, "error": why})
        self.keep(what, ["failed"], "", "", "")
        self.say(f"{what:<30}  FAILED: {why.strip().splitlines()[-1] if why.strip() else 'no reason given'}")


class Peer:
    """A peer at work, or not: an engine that cannot run a model takes no part (`why` says why)."""

    def __init__(self, engine: str, model: pathlib.Path, data: pathlib.Path, threads: int, pin):
        self.why = None
        self.process = subprocess.Popen([sys.executable, ROOT / "bench/peer.py", engine, model, data, str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=pin)
        if self.process.stdout.readline() != "ready\n":
            said = self.process.stderr.read().strip()[-400:]
            self.why = f"{NAMES[engine]} cannot run {model.name}: {said}"
            self.end()

    def ask(self, line: str) -> str:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"a peer stopped: {self.process.stderr.read().strip()[-400:]}")
        return answer

    def times(self, warmup: int, seconds: float) -> list[float]:
        return json.loads(self.ask(f"{warmup} {seconds}"))

    def end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        self.process.wait()


class Bench:
    def __init__(self, options):
        self.cores = sorted(os.sched_getaffinity(0))
        self.rounds, self.seconds = (options.rounds or 5), (options.seconds or 2.0)
        self.quick = options.quick
        if options.quick:
            self.rounds, self.seconds = options.rounds or 2, options.seconds or 0.5
        BUILD.mkdir(exist_ok=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=BUILD))
        self.table = Table()
        self.machine_file = pathlib.Path(options.machine) if options.machine else None
        self.facts_read = None

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def pin_to(self, threads: int):
        """The last cores: the first is where a system does its own work."""
        cores = set(self.cores[-threads:])
        return lambda: os.sched_setaffinity(0, cores)

    # ---- the machine

    def facts(self) -> dict[str, float]:
        """What `tenon machine` measured, in this run unless a file was given."""
        if self.facts_read is None:
            if self.machine_file is None:
                self.machine_file = self.folder / "here.machine"
                quiet(TENON, "machine", "-o", self.machine_file)
            lines = [line.split(";")[0].split(None, 1) for line in self.machine_file.read_text().splitlines()]
            self.facts_read = {w[0]: float(w[1]) for w in lines if len(w) == 2 and w[0] not in ("target", "processor")}
        return self.facts_read

    def yardstick(self, what: str, threads: int) -> float:
        """What the cores give now: GFLOP/s (f32) of "peak", GB/s of memory of "read" or "copy"."""
        return float(quiet(BUILD / "bench_yardstick", what, threads, self.seconds / 2, preexec_fn=self.pin_to(threads)))

    # ---- running

    def script(self, name: str, *args, threads: int = 1, python=sys.executable):
        """What a script of bench/ prints as JSON, alone on its cores, with the package that the
        build made."""
        paths = filter(None, (os.environ.get("PYTHONPATH"), str(BUILD / "python")))
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        return json.loads(quiet(python, ROOT / "bench" / name, *args, env=env, preexec_fn=self.pin_to(threads)))

    def data_of(self, model: pathlib.Path) -> pathlib.Path:
        """The folder of the model's inputs."""
        data = self.folder / model.stem
        if not data.exists():
            data.mkdir()
            python(MAKE_INPUTS, model, data)
        return data

    def prepare(self, model: pathlib.Path, *options: str) -> tuple[pathlib.Path, pathlib.Path]:
        """The compiled model, for the facts of this machine, and the folder of its inputs."""
        data, so = self.data_of(model), self.folder / f"{model.stem}{''.join(options)}.so"
        if not so.exists():
            self.facts()
            quiet(TENON, "compile", model, *options, "--machine", self.machine_file, "-o", so)
        return so, data

    def inputs(self, data: pathlib.Path) -> list[str]:
        return [word for f in sorted(data.glob("*.npy")) if not f.stem.startswith("expect-") for word in ("--input", f"{f.stem}=@{f}")]

    def tenon(self, so: pathlib.Path, data: pathlib.Path, threads: int, *how: str) -> dict:
        """What `tenon bench` says; how: instead of a turn's seconds after a warm-up."""
        out = self.folder / "tenon.json"
        quiet(TENON, "bench", so, "--threads", threads, *(how or ("--warmup", 3, "--duration", self.seconds)), "--json", out,
              *self.inputs(data), preexec_fn=self.pin_to(threads))
        return json.loads(out.read_text())

    def agrees(self, so: pathlib.Path, data: pathlib.Path, peer: Peer) -> str | None:
        """None if Tenon computes what the peer does, to 1e-3 of the largest value; else what it said."""
        peer.ask("save")
        outputs = json.loads(quiet(TENON, "inspect", so, "--json"))["outputs"]
        expect = [w for i, o in enumerate(outputs) for w in ("--expect", f"{o['name']}=@{data / f'expect-{i}.npy'}")]
        done = subprocess.run([TENON, "run", so, "--rtol", "1e-3", *self.inputs(data), *expect], capture_output=True, text=True)
        return None if done.returncode == 0 else done.stdout + done.stderr

    def race(self, model: pathlib.Path, threads: int, engines: list[str], check: bool = False, yard: str | None = None) -> dict:
        """Medians of each round [ms]: {"tenon": [...], engine: [...]}, and "why" for engines that took no part. With `yard`
        also Tenon's fastest run "least" [ms], and "most" [1e9/s] of the yardstick: what disturbs the one may not disturb the other."""
        so, data = self.prepare(model)
        peers = {e: Peer(e, model, data, threads, self.pin_to(threads)) for e in engines}
        why = {e: p.why for e, p in peers.items() if p.why}
        peers = {e: p for e, p in peers.items() if not p.why}
        if not peers:
            raise RuntimeError(" ".join(why.values()))
        try:
            for e, p in peers.items():
                if check and (wrong := self.agrees(so, data, p)):
                    raise RuntimeError(f"outputs differ from {NAMES[e]}'s: {wrong}")
            times, least, most = {"tenon": []} | {e: [] for e in peers}, math.inf, 0.0
            # what takes longer than a turn runs three times in it
            long = self.tenon(so, data, threads, "--warmup", 0, "--iterations", 1)["median_ms"] > 300 * self.seconds
            for _ in range(self.rounds):
                ours = self.tenon(so, data, threads, *(("--warmup", 1, "--iterations", 3) if long else ()))
                times["tenon"].append(ours["median_ms"])
                least = min(least, ours["min_ms"])
                if yard:
                    most = max(most, self.yardstick(yard, threads))
                for e, p in peers.items():
                    times[e].append(statistics.median(p.times(1 if long else 3, self.seconds)))
        finally:
            for p in peers.values():
                p.end()
        return times | {"why": why, "least": least, "most": most}

    def forget(self, model: pathlib.Path) -> None:
        """Artefacts of large models fill disks."""
        for path in self.folder.glob(f"{model.stem}*.so"):
            path.unlink()
        shutil.rmtree(self.folder / model.stem, ignore_errors=True)
