"""Where runtimes disagree, the specification decides, as onnx's own reference evaluator reads it.

Resize with align_corners at scales whose resized length is no whole number: that length is not rounded.
Pools whose window exceeds the padded input: no elements by less than a stride, an error by more.
Attention of f16: onnx's evaluator rounds to f16 after every step, Tenon where it stores, so they differ by a step of f16 in
places (test_attention_4d_causal_fp16), and Tenon's is the nearer to what is exact.
"""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))


def model(node, rank, size, weights=()):
    dims = [1] * (rank - 1) + [size]
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "decided", *info, list(weights))
    x = np.arange(1, size + 1, dtype=np.float32).reshape(dims)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), x


def run(folder, m, x):
    onnx.save(m, folder / "m.onnx")
    np.save(folder / "x.npy", x)
    return subprocess.run([TENON, "run", folder / "m.onnx", "--plain", "--input", f"x=@{folder}/x.npy", "--output-dir", folder],
                          capture_output=True, text=True, timeout=120)


def agrees(folder, m, x):
    done = run(folder, m, x)
    assert done.returncode == 0, done.stderr
    want = ReferenceEvaluator(m).run(None, {"x": x})[0]
    got = np.load(folder / "y.npy")
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("mode, nearest", [("nearest", "round_prefer_floor"), ("nearest", "round_prefer_ceil"), ("nearest", "floor"),
                                           ("nearest", "ceil"), ("linear", "floor")])
def test_align_corners(tmp_path, mode, nearest):
    for size, scale in ((7, 1.3), (4, 2.7), (3, 0.4)):
        node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, nearest_mode=nearest,
                                coordinate_transformation_mode="align_corners")
        agrees(tmp_path, *model(node, 4, size, [numpy_helper.from_array(np.array([1, 1, 1, scale], np.float32), "s")]))


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
def test_window_beyond_its_input(tmp_path, op):
    for kernel, pads, size, stride, ceil in ((3, 1, 2, 4, 0), (7, 2, 2, 2, 0), (6, 1, 3, 4, 0), (6, 1, 3, 4, 1), (7, 2, 2, 2, 1)):
        node = helper.make_node(op, ["x"], ["y"], kernel_shape=[kernel], pads=[pads, pads], strides=[stride], ceil_mode=ceil)
        agrees(tmp_path, *model(node, 3, size))
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=[5])
    done = run(tmp_path, *model(node, 3, 3))
    assert done.returncode == 3 and "the window reaches over 5 elements of axis 2, which has 3 with padding" in done.stderr


def test_attention_of_f16_is_nearer_to_what_is_exact(tmp_path):
    r = np.random.default_rng(0)
    q, k, v = (r.random((2, 3, n, 8)).astype(np.float16) for n in (4, 6, 6))
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, x.shape) for name, x in (("q", q), ("k", k), ("v", v))]
    m = helper.make_model(helper.make_graph([node], "attention", info, [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)]),
                          opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    onnx.save(m, tmp_path / "m.onnx")
    given = {"q": q, "k": k, "v": v}
    for name, x in given.items():
        np.save(tmp_path / f"{name}.npy", x)
    done = subprocess.run([TENON, "run", tmp_path / "m.onnx", *(f"--input={name}=@{tmp_path}/{name}.npy" for name in given), "--output-dir", tmp_path],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    score = q.astype("f8") @ k.astype("f8").swapaxes(2, 3) / 8 ** 0.5
    score = np.where(np.tril(np.ones((4, 6), bool)), score, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    exact = weight / weight.sum(-1, keepdims=True) @ v.astype("f8")
    ours, theirs = np.load(tmp_path / "y.npy").astype("f8"), ReferenceEvaluator(m).run(None, given)[0].astype("f8")
    np.testing.assert_allclose(ours, exact, rtol=2 ** -10)             # a step of f16
    assert np.abs(ours - exact).max() < np.abs(theirs - exact).max()
