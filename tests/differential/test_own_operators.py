"""Operators of the user: nests in a file, called by nodes of their names, at several sizes from one compilation."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
NESTS = """
# b and n are names of sizes here; the model has the same names for others.
nest "my.Blend"(x: f32[n, b], y: f32[n, b], s: f32[]) -> (o: f32[n, b]) { o[i, j] = x[i, j] + s[] * (y[i, j] - x[i, j]) }
nest "my.Blend"(x: f64[n, b], y: f64[n, b], s: f64[]) -> (o: f64[n, b]) { o[i, j] = x[i, j] }
nest Pairs(x: f32[n, b]) -> (o: f32[n, n]) { o[i, j] = sum k: x[i, k] * x[j, k] }
nest Ends(x: f32[n, b]) -> (least: f32[n], most: f32[n]) {
  least[i] = min k: x[i, k]
  most[i] = max k: x[i, k]
}
nest "my.Lost"(x: f32[2*n]) -> (o: f32[n]) { o[i] = x[2*i] }
""".replace("#", ";")


def model(folder, nodes, inputs, outputs):
    infos = [helper.make_tensor_value_info(name, t, dims) for name, t, dims in inputs]
    graph = helper.make_graph(nodes, "own", infos, [helper.make_empty_tensor_value_info(o) for o in outputs])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22), helper.make_opsetid("my", 1)], ir_version=10), folder / "m.onnx")
    (folder / "own.nests").write_text(NESTS)


def tenon(folder, *args):
    return subprocess.run([TENON, *args], cwd=folder, capture_output=True, text=True, timeout=120)


def compiled(folder, *more):
    return tenon(folder, "compile", "m.onnx", "-o", "m.so", "--nests", "own.nests", *more)


F = TensorProto.FLOAT


def test_they_compute_and_fuse(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Blend", ["r", "y", "s"], ["z"], domain="my"),
             helper.make_node("Pairs", ["z"], ["p"], domain="my"), helper.make_node("Ends", ["z"], ["l", "m"], domain="my"), helper.make_node("Neg", ["z"], ["v"])]
    model(tmp_path, nodes, [("x", F, ["b", "n"]), ("y", F, ["b", "k"]), ("s", F, [])], ["v", "p", "l", "m"])
    done = compiled(tmp_path)
    assert done.returncode == 0, done.stderr
    r = np.random.default_rng(1)
    for b, n in ((1, 1), (3, 17), (8, 5), (0, 4)):
        x, y, s = r.standard_normal((b, n)).astype("f4"), r.standard_normal((b, n)).astype("f4"), np.float32(0.3)
        for name, v in (("x", x), ("y", y), ("s", s)):
            np.save(tmp_path / f"{name}.npy", v)
        done = tenon(tmp_path, "run", "m.so", *(a for i in "xys" for a in ("--input", f"{i}=@{i}.npy")), "--output-dir", "out")
        assert done.returncode == 0, done.stderr
        z = np.maximum(x, 0) + s * (y - np.maximum(x, 0))
        for name, want in (("v", -z), ("p", z @ z.T), ("l", z.min(1, initial=np.inf)), ("m", z.max(1, initial=-np.inf))):
            np.testing.assert_allclose(np.load(tmp_path / "out" / f"{name}.npy"), want, rtol=1e-5, atol=1e-5)
    done = tenon(tmp_path, "verify", "m.onnx", "--nests", "own.nests")
    assert done.returncode == 0, done.stderr
    dump = compiled(tmp_path, "--dump=fuse", "--stop-after=fuse").stdout
    assert "%r: computed where " in dump, dump


FOUR = """nest "my.Four"(q: u8[k, h], s: f32[k // 32, 2*h]) -> (o: f32[k, 2*h]) {
  o[i, j] = let b = i32(q[i, j // 2]) in (f32(and(j % 2 == 0 ? b : shr(b, 4), 15)) - 8) * s[i // 32, j]
}
"""


def test_weights_of_four_bits_are_unpacked_in_the_product(tmp_path):
    """The user's own quantisation: constants stay as they are, and what they mean is never in memory."""
    r, k, n = np.random.default_rng(2), 256, 96
    q, s = r.integers(0, 256, (k, n // 2), np.uint8), r.random((k // 32, n), np.float32)
    nodes = [helper.make_node("Four", ["q", "s"], ["w"], domain="my"), helper.make_node("MatMul", ["x", "w"], ["y"])]
    model(tmp_path, nodes, [("x", F, ["b", k])], ["y"])
    m = onnx.load(tmp_path / "m.onnx")
    m.graph.initializer.extend([onnx.numpy_helper.from_array(q, "q"), onnx.numpy_helper.from_array(s, "s")])
    onnx.save(m, tmp_path / "m.onnx")
    (tmp_path / "own.nests").write_text(FOUR)
    done = compiled(tmp_path)
    assert re.search(r", 1 kernel\b.* 15\.0 KB weights, arena 0 B", done.stdout), done.stdout + done.stderr
    w = (np.stack([q & 15, q >> 4], 2).reshape(k, n).astype("f4") - 8) * s.repeat(32, 0)
    for rows in (1, 7, 64):
        x = r.standard_normal((rows, k)).astype("f4")
        np.save(tmp_path / "x.npy", x)
        done = tenon(tmp_path, "run", "m.so", "--input", "x=@x.npy", "--output-dir", "out")
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), x @ w, rtol=1e-4, atol=1e-3)


def test_its_sizes_are_checked_as_it_runs(tmp_path):
    model(tmp_path, [helper.make_node("Blend", ["x", "y", "s"], ["z"], domain="my")], [("x", F, ["b", "n"]), ("y", F, ["b", "k"]), ("s", F, [])], ["z"])
    assert compiled(tmp_path).returncode == 0
    for name, v in (("x", np.ones((2, 3), "f4")), ("y", np.ones((2, 4), "f4")), ("s", np.float32(1))):
        np.save(tmp_path / f"{name}.npy", v)
    done = tenon(tmp_path, "run", "m.so", *(a for i in "xys" for a in ("--input", f"{i}=@{i}.npy")))
    assert done.returncode != 0 and "axis 1 of input 1" in done.stderr and "3" in done.stderr and "4" in done.stderr, done.stderr


@pytest.mark.parametrize("op, inputs, says", [
    ("Blend", [("x", F, ["b", "n"]), ("y", TensorProto.INT32, ["b", "n"]), ("s", F, [])], "no nest my.Blend of the file of nests takes f32[b, n], i32[b, n], f32[]"),
    ("Blend", [("x", F, [2, 3]), ("y", F, [2, 4]), ("s", F, [])], "axis 1 of input 1, and what the nest my.Blend declares, differ: 4 and 3"),
    ("Lost", [("x", F, ["n"])], "stands alone in no dimension of an input"),
    ("Nobody", [("x", F, ["n"])], "Nobody"),
])
def test_what_does_not_fit_is_refused(tmp_path, op, inputs, says):
    model(tmp_path, [helper.make_node(op, [i[0] for i in inputs], ["z"], "one", domain="my")], inputs, ["z"])
    done = compiled(tmp_path)
    assert done.returncode in (3, 4) and says in done.stderr and f"node 0 {op} \"one\"" in done.stderr, done.stderr


def test_a_file_that_is_wrong(tmp_path):
    model(tmp_path, [helper.make_node("Relu", ["x"], ["z"])], [("x", F, ["n"])], ["z"])
    assert tenon(tmp_path, "compile", "m.onnx", "--nests", "none.nests").returncode != 0
    (tmp_path / "bad.nests").write_text("nest a(x: f32[n]) -> (o: f32[n]) { o[i] = x[i] + }\n")
    done = tenon(tmp_path, "compile", "m.onnx", "--nests", "bad.nests")
    assert done.returncode == 3 and "bad.nests:1:" in done.stderr, done.stderr
