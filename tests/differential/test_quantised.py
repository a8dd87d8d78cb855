"""Products between DequantizeLinear and QuantizeLinear, as quantisers of exporters write them: they run in integers.

What they mean is what ONNX's evaluator computes in floats; a sum that lies between two steps may fall to either side.
That the products are of integers, and their weights as narrow as in the model, is seen in what the import made.
"""
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from worker import BUILD

SIZES = [(1, 5), (2, 8), (3, 17), (7, 9)]
PRODUCTS = ["Conv", "MatMul", "Gemm", "Gemm transposed", "MatMul and Add"]
BETWEEN = ["", "Relu", "Clip"]


class Graph:
    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, x):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(x), name))
        return name

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [x if isinstance(x, str) else self.constant(x) for x in inputs], [name], **attributes))
        return name


def weights(g, r, shape, axis, kind, each):
    """Dequantised weights and the scale of each output's."""
    n = shape[axis]
    scale = (r.random(n if each else 1) / 50 + 0.01).astype("f4")
    zero = np.zeros(n if each else 1, kind) if kind == "int8" else r.integers(100, 150, n if each else 1).astype(kind)
    low, high = (-127, 128) if kind == "int8" else (0, 256)
    x = r.integers(low, high, shape).astype(kind)
    return g.node("DequantizeLinear", x, scale if each else scale[0], zero if each else zero[0], axis=axis), scale


def model(r, product, between):
    g, kind, result = Graph(), r.choice(["uint8", "int8"]), r.choice(["uint8", "int8"])
    zero, out_zero = (np.array(r.integers(0, 9), k) for k in (kind, result))
    x_scale, y_scale = np.float32(0.02), np.float32(0.9)
    conv, outputs = product == "Conv", int(r.integers(1, 20))
    q = g.node("QuantizeLinear", "x", x_scale, zero)
    x = g.node("DequantizeLinear", q, x_scale, zero)
    shape, axis = ((outputs, 3, 3, 3), 0) if conv else ((outputs, 40), 0) if product == "Gemm transposed" else ((40, outputs), 1)
    w, scale = weights(g, r, shape, axis, r.choice(["int8", "uint8"]), r.random() < 0.5)
    bias = []
    if r.random() < 0.7 and product != "MatMul" or product == "MatMul and Add":
        scale = np.broadcast_to(x_scale * scale, outputs)
        bias = [g.node("DequantizeLinear", r.integers(-2000, 2000, outputs).astype("i4"), scale, np.zeros(outputs, "i4"), axis=0)]
    if conv:
        y = g.node("Conv", x, w, *bias, pads=[1, 0, 1, 1], strides=[int(r.integers(1, 3)), 1])
    elif "Gemm" in product:
        y = g.node("Gemm", x, w, *bias, transB=int(product == "Gemm transposed"))
    else:
        y = g.node("MatMul", x, w)
        y = g.node("Add", *([y, *bias] if r.random() < 0.5 else [*bias, y])) if bias else y
    if between:
        y = g.node(between, y, *([np.float32(-1.5), np.float32(20)] if between == "Clip" else []))
    g.node("QuantizeLinear", y, y_scale, out_zero)
    dims = ("n", 3, "m", 6) if conv else ("n", 40)
    graph = helper.make_graph(g.nodes, "q", [helper.make_tensor_value_info("x", 1, dims)], [helper.make_empty_tensor_value_info(g.nodes[-1].output[0])], g.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), dims


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("seed", range(3))
def test_product(product, between, seed, worker, tmp_path):
    r = np.random.default_rng([PRODUCTS.index(product), BETWEEN.index(between), seed])
    made, dims = model(r, product, between)
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    dump = subprocess.run([BUILD / "tenon", "compile", path, "--stop-after=dce", "--dump=dce"], capture_output=True, text=True, check=True).stdout
    assert ("conv_integer" if product == "Conv" else "matmul_integer") in dump and "dequantize" not in dump, dump
    for k, (n, m) in enumerate(SIZES):
        x = r.standard_normal([{"n": n, "m": m}.get(d, d) for d in dims]).astype("f4")
        (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
        status, got = worker.run("=" if k else path, tmp_path / "made", [tmp_path / "x.pb"])
        assert status == "0", got
        [want] = ReferenceEvaluator(made).run(None, {"x": x})
        assert got[0].dtype == want.dtype and got[0].shape == want.shape
        apart = np.abs(got[0].astype(int) - want.astype(int))
        assert apart.max(initial=0) <= 1 and (apart > 0).mean() < 0.02
