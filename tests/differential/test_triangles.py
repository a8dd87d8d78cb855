"""Matrix multiplications of which a factor is partly 0 by its place or its length (trmm, vgemm):
the sum leaves out what is 0, and has the values of the whole one."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
rng = np.random.default_rng(5)


def tenon(*words):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def skips(model, *words):
    text = tenon("compile", model, "--dump=choose", "--stop-after=choose", *words)
    return re.findall(r"skip (\S+) at (\S+)", text)


def triangle(path, n, side, upper, offset):
    """y = Trilu(a) b, or a Trilu(b)."""
    cut, which = ("a", ["t", "b"]) if side == "left" else ("b", ["a", "t"])
    nodes = [helper.make_node("Trilu", [cut, "k"], ["t"], upper=upper),
             helper.make_node("MatMul", which, ["y"])]
    square = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [n, n]) for x in "aby"]
    k = numpy_helper.from_array(np.array(offset, np.int64), "k")
    graph = helper.make_graph(nodes, "triangle", square[:2], square[2:], [k])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def run(so, folder, **inputs):
    words = []
    for name, x in inputs.items():
        np.save(folder / f"{name}.npy", x)
        words += ["--input", f"{name}={folder / name}.npy"]
    tenon("run", so, *words, "--output-dir", folder)
    return np.load(folder / "y.npy")


@pytest.mark.parametrize("offset", [0, 3, -5])
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("side", ["left", "right"])
def test_triangular_matmul(side, upper, offset, tmp_path):
    model = triangle(tmp_path / "m.onnx", "n", side, upper, offset)
    tenon("compile", model, "-o", tmp_path / "m.so", "--dim-hint", "n=512")
    for n in (0, 1, 17, 130):
        a, b = rng.normal(size=(2, n, n)).astype("f4")
        cut = (np.triu if upper else np.tril)(a if side == "left" else b, offset)
        left, right = (cut, b) if side == "left" else (a, cut)
        want = left.astype("f8") @ right.astype("f8")
        got = run(tmp_path / "m.so", tmp_path, a=a, b=b)
        assert np.abs(got - want).max(initial=0) <= 1e-5 * max(1, np.abs(want).max(initial=0))


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_0_is_left_out(side, target, tmp_path):
    model = triangle(tmp_path / "m.onnx", 512, side, 0, 0)
    assert skips(model, "--target", target)
    assert not skips(model, "--target", target, "--exact")


LENGTHS = """
graph @g(%a: f32[b, m, 96], %w: f32[b, 96, 64], %len: i64[b]) -> (%y) {
  %y: f32[b, m, 64] = call(%a, %w, %len)
    nest t(a: f32[b, m, 96], w: f32[b, 96, 64], len: i64[b]) -> (y: f32[b, m, 64]) {
      y[s, i, j] = sum k: (k < len[s] ? a[s, i, k] : 0) * w[s, k, j]
    }
}
"""


def test_matmuls_of_varied_lengths(tmp_path):
    """What lies beyond a length is not read into the sum: a NaN there changes nothing."""
    (tmp_path / "m.tn").write_text(LENGTHS)
    hints = ["--dim-hint", "b=8", "--dim-hint", "m=64"]
    assert skips(tmp_path / "m.tn", *hints)
    tenon("compile", tmp_path / "m.tn", "-o", tmp_path / "m.so", *hints)
    lengths = np.array([0, 1, 96, 33, 64, 95, 2])
    a, w = rng.normal(size=(7, 5, 96)).astype("f4"), rng.normal(size=(7, 96, 64)).astype("f4")
    want = np.stack([x[:, :n].astype("f8") @ y[:n] for x, y, n in zip(a, w, lengths)])
    a[np.arange(96) >= lengths[:, None, None].repeat(5, 1)] = np.nan
    got = run(tmp_path / "m.so", tmp_path, a=a, w=w, len=lengths)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


ROWS = """
graph @g(%a: f32[b, m, 96], %w: f32[b, 96, 64], %len: i64[b]) -> (%y) {
  %y: f32[b, m, 64] = call(%a, %w, %len)
    nest t(a: f32[b, m, 96], w: f32[b, 96, 64], len: i64[b]) -> (y: f32[b, m, 64]) {
      y[s, i<len[s]>, j] = sum k: a[s, i, k] * w[s, k, j]
    }
}
"""


def test_rows_beyond_a_length(tmp_path):
    """Tiles of rows all beyond a length store 0 and sum nothing."""
    (tmp_path / "m.tn").write_text(ROWS)
    hints = ["--dim-hint", "b=8", "--dim-hint", "m=512"]
    assert skips(tmp_path / "m.tn", *hints)
    assert not skips(tmp_path / "m.tn", *hints, "--exact")
    tenon("compile", tmp_path / "m.tn", "-o", tmp_path / "m.so", *hints)
    lengths = np.array([0, 1, 700, 33, 64, 699, -3, 2**62])
    a, w = rng.normal(size=(8, 700, 96)).astype("f4"), rng.normal(size=(8, 96, 64)).astype("f4")
    want = (a.astype("f8") @ w) * (np.arange(700) < lengths[:, None])[:, :, None]
    got = run(tmp_path / "m.so", tmp_path, a=a, w=w, len=lengths)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("upper, offset", [(0, 0), (1, 0), (0, -70), (1, 3)])
def test_triangle_of_a_product(upper, offset, tmp_path):
    nodes = [helper.make_node("MatMul", ["a", "b"], ["t"]),
             helper.make_node("Trilu", ["t", "k"], ["y"], upper=upper)]
    square = [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", "n"]) for x in "aby"]
    k = numpy_helper.from_array(np.array(offset, np.int64), "k")
    graph = helper.make_graph(nodes, "triangle", square[:2], square[2:], [k])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    assert skips(model, "--dim-hint", "n=512")
    tenon("compile", model, "-o", tmp_path / "m.so", "--dim-hint", "n=512")
    for n in (0, 1, 17, 300):
        a, b = rng.normal(size=(2, n, n)).astype("f4")
        want = (np.triu if upper else np.tril)(a.astype("f8") @ b, offset)
        got = run(tmp_path / "m.so", tmp_path, a=a, b=b)
        assert np.abs(got - want).max(initial=0) <= 1e-5 * max(1, np.abs(want).max(initial=0))
