"""The models of bench/zoo: compiled once each, run at every set of sizes, compared with ONNX Runtime.

    zoo.py [--all] [--update] [--junit FILE] [PATTERN…]

prints for every model what compiling took and, for each set of sizes, its error: the largest difference over the
largest value of the same output, taken over all outputs. Integers that are no quantised numbers, truth values and
strings have to be equal, and NaN has to stand where it stands in the reference.

A model that does not compile, does not run or is too far off is expected to: expected_failures.txt names it with the
reason. One that fails and is not listed, or is listed and agrees, fails this command; --update writes the list. Models
of more than a thousand nodes, which take most of the time, are tried with --all or TENON_ALL=1.
"""
import argparse
import gc
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]
import junit  # noqa: E402
from targets import stand_in  # noqa: E402

stand_in()
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
LIST = pathlib.Path(__file__).with_name("expected_failures.txt")
from draw import drawn  # noqa: E402
from fill import ZOO, filled, names, nested  # noqa: E402

SMALL = 1000                     # nodes, those of branches and loops included
TIMEOUT = 600                    # seconds for one compilation, or for one run
PLAIN = 1e-4                     # what is allowed: sums in another order
STEPS = 3e-2                     # 8-bit numbers: a sum in another order may round to the neighbouring step
NARROW = 3e-3                    # 16-bit numbers: ONNX Runtime computes with more than it stores, here or there
BOXES = 2e-4                     # scores of boxes at whose place in the image sums differ: ONNX Runtime without its optimisations is 9.2e-5 from itself
ALLOWED = {"bert_2layer_dynamic_int8": STEPS, "mobilenet_v2_int8_qdq": STEPS, "resnet18_int8_qdq": STEPS, "resnet18_int8_qoperator": STEPS,
           "tflite_mobilenet_v2_int8": STEPS, "resnet18_fp16": NARROW, "encoder_bf16": STEPS, "fasterrcnn_mobilenet_v3_320": BOXES}
PLAINLY = {"llama_small_int4_qdq",       # by ONNX Runtime without its optimisations: fused, it rounds what 4-bit weights are multiplied with,
           "tflite_mobilenet_v2_int8"}   # and does not load this one if its sums are to be right
BY_SCORE = {"fasterrcnn_mobilenet_v3_320", "ssd300_vgg16", "ssdlite320_mobilenet_v3"}     # rows sorted by "scores"; equal ones in any order
NOT_IN_ORT = {"encoder_bf16"}        # no bf16 MatMul on its CPU; onnx's evaluator knows it


class Failed(Exception):
    pass


@dataclass
class Row:
    name: str
    seconds: float = 0
    errors: list = field(default_factory=list)
    why: str = ""


# ---- the two sides -------------------------------------------------------------------------------------


def tenon(*args) -> None:
    try:
        done = subprocess.run([TENON, *map(str, args)], capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Failed(f"{args[0]}: no end in {TIMEOUT} s") from None
    if done.returncode or ": error: " in done.stderr:      # what succeeds tells of no error
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
        raise Failed(f"{args[0]}: {said.split(' error: ')[-1] if 'node' not in said else said[said.index('node'):]}")


def written(inputs: dict, folder: pathlib.Path) -> list[str]:
    """The arguments that give the inputs to tenon run."""
    arguments = []
    for k, (name, x) in enumerate(inputs.items()):
        path = folder / f"{k}.pb"
        path.write_bytes(numpy_helper.from_array(x).SerializeToString())
        arguments += ["--input", f"{name}=@{path}"]
    return arguments


def run(so: pathlib.Path, inputs: dict, outputs: list[str], folder: pathlib.Path) -> list[np.ndarray]:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    tenon("run", so, *written(inputs, folder), "--output-dir", out)
    return [np.load(out / f"{re.sub('[^A-Za-z0-9_.-]', '_', name)}.npy") for name in outputs]


def references(name: str, path: pathlib.Path, sets: list[dict]) -> tuple[list[str], list[list]]:
    """The names of the outputs, and what they are for each set."""
    if name in NOT_IN_ORT:
        evaluator = ReferenceEvaluator(onnx.load(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluator.output_names, [evaluator.run(None, one) for one in sets]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Without this, on processors without VNNI, its sums of 8-bit products saturate at 16 bits: 17 % off in mobilenet_v2_int8_qdq.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if name in PLAINLY:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return apart([o.name for o in session.get_outputs()], [session.run(None, one) for one in sets])


def apart(names: list[str], wanted: list[list]) -> tuple[list[str], list[list]]:
    """Of a list of maps, as ZipMap makes it, Tenon gives the values as a table and the keys of its columns."""
    maps = {i for i, x in enumerate(wanted[0]) if isinstance(x, list) and x and isinstance(x[0], dict)}

    def parts(i, x):
        return [np.array([list(one.values()) for one in x], np.float32), np.array(list(x[0]))] if i in maps else [x]
    return ([part for i, n in enumerate(names) for part in ([f"{n}.values", f"{n}.keys"] if i in maps else [n])],
            [[part for i, x in enumerate(one) for part in parts(i, x)] for one in wanted])


# ---- how far they are apart ----------------------------------------------------------------------------


def difference(name: str, got: np.ndarray, want: np.ndarray, quantised: bool) -> float:
    want = np.asarray(want)
    if want.dtype == object:                # strings
        want = want.astype(str)
    if got.dtype.kind == want.dtype.kind == "U":
        got, want = got.astype(object), want.astype(object)
    if got.dtype != want.dtype or got.shape != want.shape:
        raise Failed(f"output {name} is {got.dtype}{list(got.shape)}, and {want.dtype}{list(want.shape)} in the reference")
    real = np.issubdtype(got.dtype, np.inexact) or quantised and got.dtype.itemsize == 1 and got.dtype != bool
    if not real:
        if not np.array_equal(got, want):
            raise Failed(f"output {name}: {np.count_nonzero(got != want)} of {want.size} elements are not equal")
        return 0.0
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        raise Failed(f"output {name} is not finite where the reference is, or is where it is not")
    finite = np.isfinite(want)
    if not finite.any():
        return 0.0
    return float(np.abs(got - want)[finite].max() / max(np.abs(want[finite]).max(), np.finfo(np.float32).tiny))


def in_order(outputs: list[str], got: list, want: list, allowed: float) -> list:
    """Rows of `got`, sorted by scores, in the reference's order: those whose scores are as equal as is allowed may be exchanged."""
    at = outputs.index("scores")
    scores, wanted = got[at], want[at]
    if any(g.shape != w.shape for g, w in zip(got, want, strict=True)) or not len(scores):
        return got
    left, order, close = list(range(len(scores))), [], 2 * allowed * np.abs(wanted).max()
    for i in range(len(wanted)):
        near = [j for j in left if abs(scores[j] - wanted[i]) <= close] or left[:1]
        order.append(min(near, key=lambda j: sum(float(np.abs(g[j].astype(np.float64) - w[i]).sum()) for g, w in zip(got, want, strict=True))))
        left.remove(order[-1])
    return [g[order] for g in got]



def error_of(name: str, outputs: list[str], got: list, want: list, allowed: float) -> float:
    if name in BY_SCORE:
        got = in_order(outputs, got, want, allowed)
    return max(difference(n, g, w, allowed == STEPS) for n, g, w in zip(outputs, got, want, strict=True))


def compare(row: Row, folder: pathlib.Path) -> None:
    path, sets, allowed = filled(row.name, BUILD / "zoo"), drawn(ZOO / f"{row.name}.inputs.json"), ALLOWED.get(row.name, PLAIN)
    so = folder / f"{row.name}.so"
    start = time.monotonic()
    tenon("compile", path, "-o", so)
    row.seconds = time.monotonic() - start
    outputs, wanted = references(row.name, path, sets)
    for one, want in zip(sets, wanted, strict=True):
        got = run(so, one, outputs, folder)
        row.errors.append(error_of(row.name, outputs, got, want, allowed))
        if row.errors[-1] > allowed:
            raise Failed(f"wrong result: {row.errors[-1]:.1e} off, {allowed:.0e} is allowed")


def tried(name: str) -> Row:
    row, folder = Row(name), BUILD / "zoo" / f"{name}.run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        compare(row, folder)
    except Failed as e:
        row.why = str(e)
    shutil.rmtree(folder)
    gc.collect()                 # a model and its reference may have a gigabyte
    return row


def is_large(name: str) -> bool:
    graph = onnx.load(ZOO / f"{name}.graph.onnx").graph
    return sum(len(g.node) for g in (graph, *nested(graph))) > SMALL


# ---- telling -------------------------------------------------------------------------------------------


def read_list() -> dict[str, str]:
    lines = [line.split(maxsplit=1) for line in LIST.read_text().splitlines() if line and line[0] != "#"] if LIST.exists() else []
    return {name: reason for name, reason in lines}


def write_list(expected: dict[str, str]) -> None:
    head = ["# Models of bench/zoo that fail, and why. Written by: ./dev test zoo --update", ""]
    LIST.write_text("\n".join(head + [f"{name} {reason}" for name, reason in sorted(expected.items())]) + "\n")


def line_of(row: Row) -> str:
    seconds = f"{row.seconds:8.1f} s" if row.seconds else f"{'-':>10}"
    return f"{row.name:30}{seconds}   " + ("  ".join([*(f"{e:.1e}" for e in row.errors), *([row.why] if row.why else [])]))


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--all", action="store_true", default=bool(os.environ.get("TENON_ALL")), help="the large ones too")
    parser.add_argument("--junit", help="write what agrees and what does not to this file")
    parser.add_argument("pattern", nargs="*")
    o = parser.parse_args()
    chosen = [n for n in names(ZOO) if (not o.pattern or any(p in n for p in o.pattern)) and (o.all or o.update or o.pattern or not is_large(n))]
    expected, rows, bad = read_list(), [], []

    print(f"{'model':30}{'compiled in':>10}   error at each set of sizes", flush=True)
    for name in chosen:
        rows.append(tried(name))
        print(line_of(rows[-1]), flush=True)
    if o.update:
        expected = {n: r for n, r in expected.items() if n not in chosen} | {r.name: r.why for r in rows if r.why}
        write_list(expected)
    for row in rows:
        if row.why and row.name not in expected:
            bad.append(f"{row.name} failed: {row.why}")
        elif not row.why and row.name in expected:
            bad.append(f"{row.name} agrees now: take it off the list (./dev test zoo --update)")
    for line in bad:
        print(line)
    agree = sum(not row.why for row in rows)
    print(f"{agree} of {len(rows)} models agree, {len(rows) - agree - sum('failed:' in b for b in bad)} expected failures, {len(bad)} unexpected")
    if o.junit:
        junit.write(o.junit, "zoo", [(r.name, r.seconds or 0, None) for r in rows if not r.why] + [(line.split()[0], 0, line) for line in bad])
    print(f"{agree} passed, {len(bad)} failed")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
