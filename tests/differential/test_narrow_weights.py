"""Weights that a model stores in fewer bits than it computes with stay so in what is compiled, and give what the model means.
Those of four bits lie two in a byte where a sum reads them, else one in each.

Each kind of weight, by each way to read it: as a product's factor, turned, in a convolution, row by row; by two readers, or in
a sum, which is computed while compiling.
"""
import json
import os
import pathlib
import re
import subprocess

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
BITS = {"bfloat16": 16, "float16": 16, "int8": 8, "uint8": 8, "int4": 4, "uint4": 4}
READERS = ["matmul", "turned", "gemm", "conv", "strided conv", "rows", "tied", "sum"]


def stored(r, kind, shape, reader):
    """The nodes that make the weight w of f32, and the constants, the bytes of which are given."""
    if kind in ("bfloat16", "float16"):
        x = r.standard_normal(shape).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else np.float16)
        return [helper.make_node("Cast", ["stored"], ["w"], to=T.FLOAT)], [numpy_helper.from_array(x, "stored")], x.size * 2
    low, high = {"int8": (-127, 128), "uint8": (0, 256), "int4": (-8, 8), "uint4": (0, 16)}[kind]
    x, block = r.integers(low, high, shape), 32 if BITS[kind] == 4 else 0
    scale = (r.random((shape[0] // block, *shape[1:]) if block else shape[0]) / 50 + 0.01).astype("f4")
    constants = [numpy_helper.from_array(x.astype(getattr(ml_dtypes, kind) if block else kind), "stored"), numpy_helper.from_array(scale, "scale")]
    if kind == "uint8":
        constants.append(numpy_helper.from_array(np.full(shape[0], 128, "u1"), "zero"))
    elif kind == "uint4":
        constants.append(numpy_helper.from_array(r.integers(0, 16, scale.shape).astype(ml_dtypes.uint4), "zero"))
    node = helper.make_node("DequantizeLinear", [c.name for c in constants], ["w"], axis=0, **({"block_size": block} if block else {}))
    return [node], constants, (x.size // (1 if reader in ("rows", "tied") else 2) if block else x.size) + scale.nbytes


def model(r, kind, reader):
    shape = (96, 64, 3, 3) if "conv" in reader else (320, 192)
    nodes, constants, size = stored(r, kind, shape, reader)
    x, integer = ("n", {"turned": 192, "gemm": 192}.get(reader, 320)), reader in ("rows", "tied")
    if reader in ("matmul", "sum"):
        nodes.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
    elif reader == "turned":
        nodes += [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    elif reader == "gemm":
        nodes.append(helper.make_node("Gemm", ["x", "w"], ["y"], transB=1))
    elif "conv" in reader:
        x = ("n", 64, 9, 10)
        nodes.append(helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4, strides=[1 + (reader == "strided conv")] * 2))
    else:
        x = ("n",)
        nodes.append(helper.make_node("Gather", ["w", "x"], ["y"]))
    if reader == "tied":
        nodes += [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["y", "t"], ["z"])]
    elif reader == "sum":
        nodes += [helper.make_node("ReduceSum", ["w"], ["s"], keepdims=0), helper.make_node("Add", ["y", "s"], ["z"])]
    graph = helper.make_graph(nodes, "narrow", [helper.make_tensor_value_info("x", T.INT64 if integer else T.FLOAT, x)],
                              [helper.make_empty_tensor_value_info(nodes[-1].output[0])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), x, size


def weight_bytes(told):
    number, unit = re.search(r"([0-9.]+) ([KM]?B) weights", json.loads(told)["summary"]).groups()
    return float(number) * {"B": 1, "KB": 1 << 10, "MB": 1 << 20}[unit]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", BITS)
def test_weights(kind, reader, tmp_path):
    r = np.random.default_rng([list(BITS).index(kind), READERS.index(reader)])
    made, dims, size = model(r, kind, reader)
    onnx.save(made, tmp_path / "m.onnx")
    # Convolutions as they are written: a transformed filter is wider by its nature.
    told = subprocess.run([TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--json", "--exact", "--quick", "--cache-dir", BUILD / "conformance" / "cache"],
                          capture_output=True, text=True, check=True).stdout
    assert weight_bytes(told) < (2.3 if reader == "tied" else 1.3) * size + 4096      # for two readers it may lie in two orders
    for n in (1, 2, 7, 40):
        shape = [n if d == "n" else d for d in dims]
        x = r.integers(0, 320, shape) if reader in ("rows", "tied") else r.standard_normal(shape).astype("f4")
        np.save(tmp_path / "x.npy", x)
        subprocess.run([TENON, "run", tmp_path / "m.so", "--input", f"x=@{tmp_path / 'x.npy'}", "--output-dir", tmp_path], capture_output=True, check=True)
        [want] = ReferenceEvaluator(made).run(None, {"x": x})
        got = np.load(tmp_path / f"{made.graph.output[0].name}.npy")
        assert got.shape == want.shape and got.dtype == want.dtype
        loose = 1e-4 if reader == "sum" else 1e-5        # 61,440 numbers of f32 one after the other, and in pairs
        assert np.abs(got - want).max() <= loose * np.abs(want).max()


def test_transformed(tmp_path):
    """In a transform domain, as far as all weights together take no more than twice their bytes."""
    r = np.random.default_rng(3)
    nodes, constants, x = [], [], "x"
    for k in range(5):
        w = (r.standard_normal((128, 128, 3, 3)) / 34).astype(ml_dtypes.bfloat16)
        constants.append(numpy_helper.from_array(w, f"w{k}"))
        nodes += [helper.make_node("Cast", [f"w{k}"], [f"f{k}"], to=T.FLOAT), helper.make_node("Conv", [x, f"f{k}"], [f"y{k}"], pads=[1] * 4)]
        x = f"y{k}"
    graph = helper.make_graph(nodes, "convs", [helper.make_tensor_value_info("x", T.FLOAT, (1, 128, 28, 28))], [helper.make_empty_tensor_value_info(x)], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(made, tmp_path / "m.onnx")
    arguments = [TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target", "x86-64-v3", "--cache-dir", BUILD / "conformance" / "cache"]
    told = subprocess.run([*arguments, "--json"], capture_output=True, text=True, check=True).stdout
    dump = subprocess.run([*arguments, "--dump=layout", "--stop-after=layout"], capture_output=True, text=True, check=True).stdout
    assert ": F(" in dump and "which --weights-growth does not allow" in dump, dump[:2000]
    assert weight_bytes(told) <= 2 * 5 * 2 * 128 * 128 * 9 + 4096
    x = r.standard_normal((1, 128, 28, 28)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    subprocess.run([TENON, "run", tmp_path / "m.so", "--input", f"x=@{tmp_path / 'x.npy'}", "--output-dir", tmp_path], capture_output=True, check=True)
    [want] = ReferenceEvaluator(made).run(None, {"x": x})
    assert np.abs(np.load(tmp_path / "y4.npy") - want).max() <= 1e-4 * np.abs(want).max()


# Sums that blocks divide and others, the last of which ends inside of a word; columns that fill vectors and others.
@pytest.mark.parametrize("k, n, block", [(512, 512, 32), (500, 99, 16), (1000, 130, 64), (520, 200, 128), (301, 72, 32)])
@pytest.mark.parametrize("rows, target", [(1, "x86-64-v3"), (1, "native"), (3, "native"), (40, "native")])
@pytest.mark.parametrize("zeros", [False, True])
def test_product_by_blocks_of_four_bits(tmp_path, zeros, rows, target, k, n, block):
    """Rows times MatMulNBits' weights: their bits are widened in lanes, zero points have a byte each, scales of one row multiply sums of blocks."""
    r, blocks = np.random.default_rng(4), -(-k // block)
    weights, scales = r.integers(0, 256, (n, blocks, block // 2), dtype="u1"), (r.random((n, blocks)) / 50 + 0.01).astype("f4")
    points = r.integers(0, 256, (n, (blocks + 1) // 2), dtype="u1") if zeros else np.full((n, (blocks + 1) // 2), 0x88, "u1")
    constants = [numpy_helper.from_array(c, name) for c, name in ((weights, "w"), (scales, "s"), *([(points, "z")] if zeros else []))]
    node = helper.make_node("MatMulNBits", ["x", *(c.name for c in constants)], ["y"], domain="com.microsoft", K=k, N=n, bits=4, block_size=block)
    graph = helper.make_graph([node], "blocks", [helper.make_tensor_value_info("x", T.FLOAT, (rows, k))], [helper.make_tensor_value_info("y", T.FLOAT, (rows, n))], constants)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), tmp_path / "m.onnx")
    arguments = [TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target", target, "--cache-dir", BUILD / "conformance" / "cache"]
    told = subprocess.run([*arguments, "--json"], capture_output=True, text=True, check=True).stdout
    if (k, n) == (512, 512):                         # behind the last column a block of a tile's may be filled up
        assert weight_bytes(told) <= (weights.nbytes + scales.nbytes) * (n + 64) / n + zeros * 2 * points.nbytes + 4096
    if (k, n, rows, target) == (512, 512, 1, "x86-64-v3"):
        tree = subprocess.run([*arguments, "--dump=schedule"], capture_output=True, text=True, check=True).stdout
        assert "acc reg factored" in tree and "f32(and(shr(load8 w[" in tree, tree
    apart = lambda b: np.stack([b & 15, b >> 4], -1).reshape(n, -1).astype("f4")
    dense = ((apart(weights.reshape(n, -1)) - np.repeat(apart(points)[:, :blocks], block, 1)) * np.repeat(scales, block, 1))[:, :k]
    x = r.standard_normal((rows, k)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    subprocess.run([TENON, "run", tmp_path / "m.so", "--input", f"x=@{tmp_path / 'x.npy'}", "--output-dir", tmp_path], capture_output=True, check=True)
    want = x @ dense.T
    assert np.abs(np.load(tmp_path / "y.npy") - want).max() <= 1e-5 * np.abs(want).max()


def test_dequantized_blocks_are_summed_by_words(tmp_path):
    """Weights that DequantizeLinear widens have programs for one row as MatMulNBits' have."""
    w = helper.make_tensor("w", T.INT4, (256, 96), np.random.default_rng(5).integers(0, 256, 256 * 48, dtype="u1").tobytes(), raw=True)
    scales = numpy_helper.from_array(np.full((8, 96), 0.05, "f4"), "s")
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=32), helper.make_node("MatMul", ["x", "d"], ["y"])]
    graph = helper.make_graph(nodes, "blocks", [helper.make_tensor_value_info("x", T.FLOAT, (1, 256))], [helper.make_tensor_value_info("y", T.FLOAT, (1, 96))], [w, scales])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    chosen = subprocess.run([TENON, "compile", tmp_path / "m.onnx", "--target", "x86-64-v3", "--dump=choose", "--stop-after=choose"], capture_output=True, text=True, check=True).stdout
    assert "acc reg factored" in chosen, chosen
