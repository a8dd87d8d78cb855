#!/usr/bin/env python3
"""Operators in shapes that leave the cache, each as an ONNX model of its own.

    ops.py FOLDER [NAME…]      writes FOLDER/NAME.onnx for all, or those named

A row of CASES says what an operator moves where moving is all it does: "move" and "map" are held to the bandwidth
of copying, "thin" (products that read a matrix once) to that of reading. The rest is compared with peers alone.
"""
import pathlib
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, load, numpy_helper, save

from fill import filled

F32, F16, I64, U8, I8, I32 = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32)


class Model:
    """One graph being made: inputs, constants, nodes in order."""

    def __init__(self):
        self.nodes, self.inputs, self.constants, self.n = [], [], [], 0

    def input(self, name, *dims, dtype=F32, most=None):
        info = helper.make_tensor_value_info(name, dtype, dims)
        if most:
            info.doc_string = f"below {most}"
        self.inputs.append(info)
        return name

    def weight(self, *dims, dtype=np.float32):
        draw = np.random.default_rng(len(self.constants)).standard_normal(dims, dtype=np.float32)
        return self.constant((draw / np.sqrt(max(1, np.prod(dims[1:])))).astype(dtype))

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def __call__(self, op, *inputs, outputs=1, **attributes):
        self.n += 1
        names = [f"{op.lower()}_{self.n}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"{op}_{self.n}", **attributes))
        return names[0] if outputs == 1 else names

    def save(self, path: pathlib.Path, *outputs, dtype=F32):
        made = [helper.make_tensor_value_info(o, dtype, None) for o in outputs]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, made, self.constants)
        opset = 23 if any(n.op_type == "Attention" for n in self.nodes) else 20
        own = [helper.make_opsetid(domain, 1) for domain in {n.domain for n in self.nodes} - {""}]
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *own], ir_version=10), path)


def conv(channels, out, size, kernel, batch=1, **attributes):
    def build(m):
        group = attributes.get("group", 1)
        x = m.input("x", batch, channels, size, size)
        attributes.setdefault("pads", [kernel // 2] * 4)
        return m("Conv", x, m.weight(out, channels // group, kernel, kernel), m.weight(out), **attributes)
    return build


def deconv(channels, out, size, kernel, **attributes):
    def build(m):
        return m("ConvTranspose", m.input("x", 1, channels, size, size), m.weight(channels, out // attributes.get("group", 1), kernel, kernel),
                 strides=[2, 2], **attributes)
    return build


def pool(op, channels, size, batch=1, **attributes):
    return lambda m: m(op, m.input("x", batch, channels, size, size), **attributes)


def map1(op, *dims):
    return lambda m: m(op, m.input("x", *dims))


def reduce(op, *dims, axes=None, **attributes):
    return lambda m: m(op, m.input("x", *dims), *([m.constant(np.array(axes, np.int64))] if axes else []), **attributes)


def transpose(perm, *dims):
    return lambda m: m("Transpose", m.input("x", *dims), perm=perm)


def resize(mode):
    def build(m):
        extra = dict(coordinate_transformation_mode="asymmetric", nearest_mode="floor") if mode == "nearest" else {}
        return m("Resize", m.input("x", 1, 64, 128, 128), "", m.constant(np.array([1, 1, 2, 2], np.float32)), mode=mode, **extra)
    return build


def thin(rows, depth=4096, columns=4096):
    return lambda m: m("MatMul", m.input("x", rows, depth), m.weight(depth, columns))


def product(n):
    return lambda m: m("MatMul", m.input("x", n, n), m.input("w", n, n))


def f16_product(m):
    return m("MatMul", m.input("x", 512, 1024, dtype=F16), m.weight(1024, 1024, dtype=np.float16))


def i8_product(m):
    """Weights of 7 bits: with 8, engines that add pairs in 16 bits saturate, and give other results."""
    weight = np.random.default_rng(0).integers(-64, 63, (1024, 1024), dtype=np.int8, endpoint=True)
    return m("MatMulInteger", m.input("x", 512, 1024, dtype=U8), m.constant(weight))


def gather(m):
    return m("Gather", m.weight(30522, 768), m.input("ids", 8192, dtype=I64, most=30522))


def scatter_add(m):
    return m("ScatterND", m.input("x", 20000, 256), m.input("at", 40000, 1, dtype=I64, most=20000), m.input("u", 40000, 256), reduction="add")


def gelu(m):
    x = m.input("x", 4096, 3072)
    half = m("Mul", x, m.constant(np.float32(0.5)))
    return m("Mul", half, m("Add", m("Erf", m("Div", x, m.constant(np.float32(np.sqrt(2))))), m.constant(np.float32(1))))


def mish(m):
    x = m.input("x", 4096, 3072)
    return m("Mul", x, m("Tanh", m("Softplus", x)))


def layer_norm(rows, columns):
    return lambda m: m("LayerNormalization", m.input("x", rows, columns), m.weight(columns), m.weight(columns), axis=-1)


def norm_over_channels(m):
    x = m("Transpose", m.input("x", 4, 192, 56, 56), perm=[0, 2, 3, 1])
    return m("Transpose", m("LayerNormalization", x, m.weight(192), m.weight(192), axis=-1), perm=[0, 3, 1, 2])


def add(m):
    return m("Add", m.input("x", 4096, 3072), m.input("y", 4096, 3072))


def concat(m):
    return m("Concat", *[m.input(f"x{i}", 8, 64, 112, 112) for i in range(4)], axis=1)


def slice_(m):
    ints = lambda *v: m.constant(np.array(v, np.int64))
    return m("Slice", m.input("x", 16, 64, 112, 112), ints(8, 8), ints(104, 104), ints(2, 3))


def pad(m):
    return m("Pad", m.input("x", 16, 64, 112, 112), m.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)))


def recurrent(op, gates, hidden, steps, batch=1, directions=1):
    def build(m):
        extra = {"direction": "bidirectional"} if directions == 2 else {}
        return m(op, m.input("x", steps, batch, hidden), m.weight(directions, gates * hidden, hidden), m.weight(directions, gates * hidden, hidden),
                 m.weight(directions, 2 * gates * hidden), outputs=3 if op == "LSTM" else 2, hidden_size=hidden, **extra)[0]
    return build


def top_k(k, *dims):
    return lambda m: m("TopK", m.input("x", *dims), m.constant(np.array([k])), outputs=2)[0]


def boxes(n, classes):
    """Boxes of detectors: most overlap some other, and one in twenty has a score worth looking at."""
    def build(m):
        r = np.random.default_rng(0)
        middle, size = r.random((1, n, 2)) * 640, r.random((1, n, 2)) * 80 + 8
        at = m.constant(np.concatenate([middle - size / 2, middle + size / 2], -1).astype(np.float32))
        return m("NonMaxSuppression", at, m.input("scores", 1, classes, n), m.constant(np.array([100])), m.constant(np.array([0.5], np.float32)),
                 m.constant(np.array([1.65], np.float32)))
    return build


def small_weights(*dims):
    """Of 7 bits, as above."""
    return np.random.default_rng(1).integers(-64, 63, dims, dtype=np.int8, endpoint=True)


def i8_conv(channels, out, size, kernel, group=1):
    def build(m):
        scale, zero = m.constant(np.float32(0.02)), m.constant(np.uint8(128))
        return m("QLinearConv", m.input("x", 1, channels, size, size, dtype=U8), scale, zero, m.constant(small_weights(out, channels // group, kernel, kernel)),
                 m.constant(np.full(out, 0.01, np.float32)), m.constant(np.zeros(out, np.int8)), m.constant(np.float32(1)), zero,
                 pads=[kernel // 2] * 4, group=group)
    return build


def i8_dynamic(rows, depth, columns):
    def build(m):
        x, scale, zero = m("DynamicQuantizeLinear", m.input("x", rows, depth), outputs=3)
        sums = m("Cast", m("MatMulInteger", x, m.constant(small_weights(depth, columns)), zero), to=F32)
        return m("Mul", sums, m("Mul", scale, m.constant(np.float32(0.01))))
    return build


def i4_product(rows, depth=4096, columns=4096, block=32):
    def build(m):
        weights = np.random.default_rng(0).integers(0, 256, (columns, depth // block, block // 2), dtype=np.uint8)
        scales = np.full(columns * depth // block, 0.01, np.float32)
        return m("MatMulNBits", m.input("x", rows, depth), m.constant(weights), m.constant(scales), K=depth, N=columns, bits=4, block_size=block, domain="com.microsoft")
    return build


def quantize(m):
    return m("QuantizeLinear", m.input("x", 4096, 3072), m.constant(np.float32(0.02)), m.constant(np.uint8(128)))


def dequantize(m):
    return m("DequantizeLinear", m.input("x", 4096, 3072, dtype=U8), m.constant(np.float32(0.02)), m.constant(np.uint8(128)))


def grid_sample(m):
    grid = np.random.default_rng(0).random((4, 96, 96, 2), dtype=np.float32) * 2.2 - 1.1
    return m("GridSample", m.input("x", 4, 64, 96, 96), m.constant(grid), mode="linear", padding_mode="zeros", align_corners=0)


def roi_align(m):
    corner, size = np.random.default_rng(0).random((2, 300, 2), dtype=np.float32) * 100
    at = m.constant(np.concatenate([corner, corner + size + 8], -1).astype(np.float32))
    return m("RoiAlign", m.input("x", 1, 256, 50, 68), at, m.constant(np.zeros(300, np.int64)), output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.25)


def attention(queries, keys, heads=12, size=64, **attributes):
    return lambda m: m("Attention", m.input("q", 1, heads, queries, size), m.input("k", 1, heads, keys, size), m.input("v", 1, heads, keys, size), **attributes)


def forest(rows, trees, depth=6, features=20):
    """Full trees: node i of a tree has the children 2*i + 1 and 2*i + 2, the last level are leaves."""
    def build(m):
        r, inner, all_ = np.random.default_rng(0), 2 ** depth - 1, 2 ** (depth + 1) - 1
        node = np.tile(np.arange(all_), trees)
        tree = np.repeat(np.arange(trees), all_)
        branch = node < inner
        leaves = ~branch
        return m("TreeEnsembleRegressor", m.input("x", rows, features), domain="ai.onnx.ml", n_targets=1, nodes_treeids=tree, nodes_nodeids=node,
                 nodes_featureids=np.where(branch, r.integers(0, features, node.size), 0), nodes_values=r.standard_normal(node.size).astype(np.float32),
                 nodes_modes=["BRANCH_LEQ" if b else "LEAF" for b in branch], nodes_truenodeids=np.where(branch, 2 * node + 1, 0),
                 nodes_falsenodeids=np.where(branch, 2 * node + 2, 0), target_treeids=tree[leaves], target_nodeids=node[leaves],
                 target_ids=np.zeros(leaves.sum(), int), target_weights=r.standard_normal(int(leaves.sum())).astype(np.float32))
    return build


def instance_norm(m):
    return m("InstanceNormalization", m.input("x", 4, 128, 96, 96), m.weight(128), m.weight(128))


def gather_elements(m):
    at = np.random.default_rng(0).integers(0, 4096, (4096, 1024))
    return m("GatherElements", m.input("x", 4096, 4096), m.constant(at), axis=1)


def whole(name):
    """A model of bench/zoo, its weights of 7 bits as above."""
    def make(path):
        with tempfile.TemporaryDirectory() as folder:
            model = load(filled(name, pathlib.Path(folder)))
        for w in model.graph.initializer:
            if w.data_type == I8 and len(w.dims) > 1:
                w.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(w) // 2, w.name))
        save(model, path)
    return make


# name: (how to build it, what it is held to beside its peer, dtype of the output)
CASES = {
    "conv_grouped_32x4":     (conv(128, 128, 56, 3, batch=8, group=32), None, F32),
    "conv_grouped_32x8_s2":  (conv(256, 256, 56, 3, batch=8, group=32, strides=[2, 2]), None, F32),
    "conv_transposed_4_s2":  (deconv(128, 64, 64, 4, pads=[1, 1, 1, 1]), None, F32),
    "conv_transposed_2_s2":  (deconv(256, 128, 64, 2), None, F32),
    "conv_transposed_3_s2":  (deconv(64, 64, 112, 3, pads=[1, 1, 1, 1], output_padding=[1, 1]), None, F32),
    "depthwise_3_112":       (conv(64, 64, 112, 3, batch=8, group=64), None, F32),
    "depthwise_3_28":        (conv(256, 256, 28, 3, batch=8, group=256), None, F32),
    "depthwise_3_7":         (conv(960, 960, 7, 3, batch=16, group=960), None, F32),
    "depthwise_5_112":       (conv(64, 64, 112, 5, batch=8, group=64), None, F32),
    "depthwise_5_28":        (conv(256, 256, 28, 5, batch=8, group=256), None, F32),
    "depthwise_5_7":         (conv(960, 960, 7, 5, batch=16, group=960), None, F32),
    "depthwise_3_112_s2":    (conv(96, 96, 112, 3, batch=8, group=96, strides=[2, 2]), None, F32),
    "conv_dilated_3":        (conv(128, 128, 64, 3, dilations=[2, 2], pads=[2, 2, 2, 2]), None, F32),
    "max_pool_3_s2":         (pool("MaxPool", 64, 112, batch=8, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), None, F32),
    "max_pool_2_s2":         (pool("MaxPool", 64, 224, batch=4, kernel_shape=[2, 2], strides=[2, 2]), None, F32),
    "average_pool_3":        (pool("AveragePool", 192, 56, batch=8, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), None, F32),
    "global_average_pool":   (pool("GlobalAveragePool", 512, 56, batch=8), None, F32),
    "resize_nearest":        (resize("nearest"), "move", F32),
    "resize_linear":         (resize("linear"), None, F32),
    "sum_columns":           (reduce("ReduceSum", 4096, 4096, axes=[0], keepdims=0), None, F32),
    "sum_all":               (reduce("ReduceSum", 4096, 4096, keepdims=0), None, F32),
    "argmax_rows":           (reduce("ArgMax", 4096, 4096, axis=-1, keepdims=0), None, I64),
    "argmax_channels":       (reduce("ArgMax", 1, 64, 512, 512, axis=1, keepdims=0), None, I64),
    "cumulative_sum":        (lambda m: m("CumSum", m.input("x", 4096, 4096), m.constant(np.int64(1))), None, F32),
    "softmax_long":          (map1("Softmax", 4096, 4096), None, F32),
    "softmax_128":           (map1("Softmax", 98304, 128), None, F32),
    "layer_norm_768":        (layer_norm(16384, 768), None, F32),
    "norm_over_channels":    (norm_over_channels, None, F32),
    "transpose_matrix":      (transpose([1, 0], 4096, 4096), "move", F32),
    "transpose_heads":       (transpose([0, 2, 1, 3], 32, 512, 12, 64), "move", F32),
    "transpose_to_channels_last": (transpose([0, 2, 3, 1], 16, 64, 112, 112), "move", F32),
    "gather_rows":           (gather, "move", F32),
    "scatter_add":           (scatter_add, None, F32),
    "concat_channels":       (concat, "move", F32),
    "slice_strided":         (slice_, None, F32),
    "pad":                   (pad, "move", F32),
    "add":                   (add, "map", F32),
    "gelu":                  (gelu, "map", F32),
    "erf":                   (map1("Erf", 4096, 3072), "map", F32),
    "mish":                  (mish, "map", F32),
    "tanh":                  (map1("Tanh", 4096, 3072), "map", F32),
    "f16_product":           (f16_product, None, F16),
    "i8_product":            (i8_product, None, I32),
    "lstm_128_steps":        (recurrent("LSTM", 4, 256, 128), None, F32),
    "lstm_both_ways_16":     (recurrent("LSTM", 4, 256, 128, batch=16, directions=2), None, F32),
    "gru_128_steps":         (recurrent("GRU", 3, 256, 128), None, F32),
    "top_1000_of_100k":      (top_k(1000, 1, 100000), None, F32),
    "top_10_of_rows":        (top_k(10, 4096, 1000), None, F32),
    "boxes_8400":            (boxes(8400, 80), None, I64),
    "i8_conv_3_56":          (i8_conv(64, 64, 56, 3), None, U8),
    "i8_conv_1_28":          (i8_conv(256, 256, 28, 1), None, U8),
    "i8_depthwise_3_56":     (i8_conv(144, 144, 56, 3, group=144), None, U8),
    "i8_dynamic_product":    (i8_dynamic(128, 768, 3072), None, F32),
    "i4_product_1":          (i4_product(1), None, F32),
    "i4_product_64":         (i4_product(64), None, F32),
    "quantize":              (quantize, None, U8),
    "dequantize":            (dequantize, None, F32),
    "grid_sample":           (grid_sample, None, F32),
    "roi_align":             (roi_align, None, F32),
    "attention_512":         (attention(512, 512), None, F32),
    "attention_causal":      (attention(512, 512, is_causal=1), None, F32),
    "attention_decode":      (attention(1, 2048), None, F32),
    "instance_norm":         (instance_norm, None, F32),
    "forest_500_trees":      (forest(1000, 500), None, F32),
    "gather_elements":       (gather_elements, None, F32),
}
WHOLE = {
    "resnet18_int8":         (whole("resnet18_int8_qdq"), None, F32),
    "mobilenet_v2_int8":     (whole("mobilenet_v2_int8_qdq"), None, F32),
}
THIN = {
    "thin_product_1":        (thin(1), "thin", F32),
    "thin_product_4":        (thin(4), "thin", F32),
}
PRODUCTS = {f"product_{n}": (product(n), None, F32) for n in (256, 512, 1024, 2048)}
ALL = CASES | WHOLE | THIN | PRODUCTS


def build(name: str, folder: pathlib.Path) -> pathlib.Path:
    make, _, dtype = ALL[name]
    m, path = Model(), folder / f"{name}.onnx"
    if name in WHOLE:
        make(path)
        return path
    m.save(path, make(m), dtype=dtype)
    return path


def command(usage: str, names, make) -> None:
    """What the scripts of this folder do when run: a folder, then names, or all there are."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    for name in sys.argv[2:] or names:
        print(make(name, pathlib.Path(sys.argv[1])))


if __name__ == "__main__":
    command(__doc__, ALL, build)
