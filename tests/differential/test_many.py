"""What grows with a model: time and memory of compiling; many results joined, each as long as data make it; more kinds of kernels
than one function of the host program tells the work of."""
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
PARTS = 40
NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")


def tenon(*args):
    done = subprocess.run([TENON, *map(str, args)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def save(path, nodes, inputs, outputs):
    infos = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "many", *infos)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)


def cost_of(folder, family, size):
    """Seconds of processors and peak bytes of compiling a chain with an empty cache, C compilers included."""
    model, cache = folder / f"{size}.onnx", folder / f"cache{size}"
    subprocess.run([sys.executable, ROOT / "bench" / "growth.py", "--make", family, str(size), model], check=True, timeout=300)
    program = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); u = resource.getrusage(resource.RUSAGE_CHILDREN); " \
              "print(u.ru_utime + u.ru_stime, u.ru_maxrss * 1024)"
    done = subprocess.run([sys.executable, "-c", program, TENON, "compile", model, "-o", folder / "m.so", "--cache-dir", cache],
                          capture_output=True, text=True, check=True, timeout=300)
    return map(float, done.stdout.split()[-2:])


@pytest.mark.parametrize("family, size", [("elementwise", 500), ("products", 500), ("decoder", 16)])
def test_compiling_grows_with_the_model(family, size, tmp_path):
    """Eight times the nodes take about eight times as long, not sixty-four; and 10,000 no more than the floors of doc/growth.md."""
    (few, _), (many, memory) = (cost_of(tmp_path, family, n) for n in (size, 8 * size))
    assert many < 12 * few and memory < 250e6, (few, many, memory)
    if NIGHTLY and family != "decoder":
        seconds, memory = cost_of(tmp_path, family, 10000)
        assert seconds < 2 * 15 and memory < 500e6, (seconds, memory)


def test_many_parts_of_sizes_from_data(tmp_path):
    """The positive elements of each column, joined: forty sizes that only the run knows, and sums of all of them."""
    nodes = [helper.make_node("Split", ["x"], [f"c{i}" for i in range(PARTS)], axis=1, num_outputs=PARTS)]
    for i in range(PARTS):
        nodes += [helper.make_node("Greater", [f"c{i}", "zero"], [f"m{i}"]), helper.make_node("Compress", [f"c{i}", f"f{i}"], [f"p{i}"]),
                  helper.make_node("Reshape", [f"m{i}", "flat"], [f"f{i}"])]
    nodes += [helper.make_node("Concat", [f"p{i}" for i in range(PARTS)], ["all"], axis=0), helper.make_node("Mul", ["all", "all"], ["y"])]
    save(tmp_path / "m.onnx", nodes, [("x", ["n", PARTS])], [("y", None)])
    model = onnx.load(tmp_path / "m.onnx")
    model.graph.initializer.extend([onnx.numpy_helper.from_array(np.float32(0), "zero"), onnx.numpy_helper.from_array(np.array([-1]), "flat")])
    onnx.save(model, tmp_path / "m.onnx")
    start = time.monotonic()
    tenon("compile", tmp_path / "m.onnx", "--stop-after=emit", "--plain")
    assert time.monotonic() - start < 60, "it took minutes once"
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--plain")
    for n in (0, 1, 5, 33):
        x = np.random.default_rng(n).standard_normal((n, PARTS)).astype("f4")
        np.save(tmp_path / "x.npy", x)
        tenon("run", tmp_path / "m.so", "--input", f"x=@{tmp_path}/x.npy", "--output-dir", tmp_path)
        parts = [c[c > 0] for c in x.T]
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.concatenate(parts) ** 2, rtol=1e-6)


def test_many_kinds_of_kernels(tmp_path):
    """Each kernel has a size of its own; the file of C has to be whole."""
    n = range(300)
    save(tmp_path / "m.onnx", [helper.make_node("Sigmoid", [f"x{i}"], [f"y{i}"]) for i in n], [(f"x{i}", [f"n{i}"]) for i in n], [(f"y{i}", None) for i in n])
    tenon("compile", tmp_path / "m.onnx", "--emit", "c", "-o", tmp_path / "m.c", "--plain")
    done = subprocess.run(["cc", "-w", "-fsyntax-only", tmp_path / "m.c"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:500]


def test_concatenation_of_many(tmp_path):
    """Seventy pieces of sizes of their own, as many as one kernel puts together, some empty: a piece more is a branch more, not a masked read in
    every vector."""
    n = range(70)
    save(tmp_path / "m.onnx", [helper.make_node("Concat", [f"x{i}" for i in n], ["y"], axis=0)], [(f"x{i}", [f"n{i}"]) for i in n], [("y", ["m"])])
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    tenon("compile", tmp_path / "m.onnx", "--emit", "c", "-o", tmp_path / "m.c")
    assert "tn_load_if" not in (tmp_path / "m.c").read_text().split("---- kernel 1 of 1")[1]
    rng = np.random.default_rng(0)
    pieces = [rng.standard_normal(int(k)).astype("f4") for k in rng.integers(0, 40, len(n))]
    np.savez(tmp_path / "x.npz", **{f"x{i}": p for i, p in enumerate(pieces)})
    tenon("run", tmp_path / "m.so", *[a for i in n for a in ("--input", f"x{i}=@{tmp_path}/x.npz:x{i}")], "--output-dir", tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.concatenate(pieces))


def test_equal_work_of_other_sizes_is_one_function(tmp_path):
    """Where a size has another name in each of forty places, one kernel serves them all."""
    n = range(40)
    save(tmp_path / "m.onnx", [helper.make_node("Softmax", [f"x{i}"], [f"y{i}"], axis=-1) for i in n], [(f"x{i}", [f"n{i}", f"m{i}"]) for i in n],
         [(f"y{i}", None) for i in n])
    report = tenon("compile", tmp_path / "m.onnx", "--emit", "c", "-o", tmp_path / "m.c")
    assert "---- kernel 1 of 1, the same code for" in (tmp_path / "m.c").read_text(), report
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    rng = np.random.default_rng(1)
    x = {f"x{i}": rng.standard_normal((1 + i % 3, i + 1)).astype("f4") for i in n}
    np.savez(tmp_path / "x.npz", **x)
    tenon("run", tmp_path / "m.so", *[a for i in n for a in ("--input", f"x{i}=@{tmp_path}/x.npz:x{i}")], "--output-dir", tmp_path)
    for i in n:
        e = np.exp(x[f"x{i}"] - x[f"x{i}"].max(-1, keepdims=True))
        np.testing.assert_allclose(np.load(tmp_path / f"y{i}.npy"), e / e.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("kind", ["Concat", "ConcatFromSequence", "Sum", "Max", "Mean"])
def test_many_operands(kind, tmp_path):
    """More operands than one nest has: computed in several, as the interpreter does; and kernels of like operands share their code, whatever their number."""
    for n in (90, 700):
        names, width = [f"x{i}" for i in range(n)], 2 * n if kind.startswith("Concat") else 2
        nodes = [helper.make_node(kind, names, ["y"], **({"axis": 1} if kind == "Concat" else {}))]
        if kind == "ConcatFromSequence":
            nodes = [helper.make_node("SequenceConstruct", names, ["s"]), helper.make_node(kind, ["s"], ["y"], axis=1)]
        save(tmp_path / "m.onnx", nodes, [(name, [3, 2]) for name in names], [("y", [3, width])])
        feeds = {name: np.random.default_rng(i).standard_normal((3, 2)).astype("f4") for i, name in enumerate(names)}
        np.savez(tmp_path / "x.npz", **feeds)
        said = tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
        counts = re.search(r"(\d+) kernels?(?: \((\d+) functions?\))?", said)
        assert int(counts[2] or counts[1]) <= 6, said
        tenon("run", tmp_path / "m.so", *[a for name in names for a in ("--input", f"{name}=@{tmp_path}/x.npz:{name}")], "--output-dir", tmp_path)
        want = {"Sum": sum, "Max": lambda x: np.max(x, axis=0), "Mean": lambda x: sum(x) / n}.get(kind, lambda x: np.concatenate(x, axis=1))(list(feeds.values()))
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-5, atol=1e-4)
