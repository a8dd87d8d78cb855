"""Random models: seeded, small, valid, and run by ONNX Runtime and by Tenon.

A graph grows node by node. Each new node is run by ONNX Runtime alone, at two sizes of the symbolic
dimensions B and S; what it refuses, and what gives large values, is dropped, so the graphs that are
left are valid and well behaved. A dimension is a pair, its extents at the two sizes: two that agree
in both are the same dimension, and one whose extents are equal is known.

Comparisons and conversions to integers read exact values only (inputs and what moves them), since
a rounding error may not decide. Several graphs stand side by side in one model, because starting a
C compiler costs more than the work.

    python random_models.py FIRST COUNT [--graphs N] [--keep FOLDER] [-- options of tenon compile]
"""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
DIRTY = os.environ | {"MALLOC_PERTURB_": "171"}         # memory that nobody wrote holds no zeros
OPSET = 17
PROBES = [(2, 5), (3, 7)]            # sizes of B and S a graph grows at
SIZES = [(2, 5), (1, 1), (0, 3), (3, 0), (1, 17), (5, 40)]
OPTIONS = [[], [], [], ["--plain"], ["--fuse", "none"], ["--fuse", "dp"], ["--formats", "none"], ["--formats", "nhwc"], ["--formats", "nhwc", "--cc", "clang"], ["--target", "x86-64-v2"], ["--target", "x86-64-v3"], ["--cc", "clang"]]
LARGE = 60.0                         # values above are dropped: their differences lose what is compared
MOST = 20000                         # elements
ALLOWED = 1e-4


class Value:
    def __init__(self, name, probes, exact):
        self.name, self.probes, self.exact = name, probes, exact
        self.dtype = probes[0].dtype
        self.dims = tuple(zip(*(x.shape for x in probes)))
        self.rank = len(self.dims)

    def known(self, axis):
        return self.dims[axis][0] == self.dims[axis][1]

    def extent(self, axis):
        return self.dims[axis][0]


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def info(name, dtype, dims):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims)


def model_of(nodes, inputs, outputs, constants):
    graph = helper.make_graph(nodes, "random", inputs, outputs, [numpy_helper.from_array(x, name) for name, x in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


class Graph:
    """A random graph; its names begin with `prefix`."""

    def __init__(self, seed, prefix=""):
        self.rng = np.random.default_rng(seed)
        self.prefix, self.count = prefix, 0
        self.nodes, self.values, self.constants, self.inputs = [], [], {}, {}
        for _ in range(self.rng.integers(1, 4)):
            self.input()
        wanted = len(self.nodes) + self.rng.integers(5, 16)
        for _ in range(80):
            if len(self.nodes) >= wanted:
                break
            MAKERS[self.rng.integers(len(MAKERS))](self)
        self.choose_outputs()
        try:                         # two symbolic sizes may agree at the probes alone
            session(join([self]))
        except Exception:
            self.outputs = []

    def name(self, what):
        self.count += 1
        return f"{self.prefix}{what}{self.count}"

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    def array(self, dtype, shape):
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return self.rng.standard_normal(shape).astype(dtype)
        return self.rng.integers(0, 2, shape).astype(dtype) if dtype == bool else self.rng.integers(-9, 9, shape).astype(dtype)

    def input(self):
        rank = self.pick([1, 2, 2, 3, 3, 3, 4, 4, 4, 5])
        dims = [(d, d) for d in self.rng.choice([1, 2, 3, 4, 5, 6, 8, 9, 16, 17, 19, 32] if rank < 4 else [1, 2, 3, 4, 6, 8, 9, 12], rank).tolist()]
        if self.chance(0.6):
            dims[0] = tuple(p[0] for p in PROBES)
        if rank in (2, 3) and self.chance(0.4):
            dims[-1 if self.chance(0.3) else 1] = tuple(p[1] for p in PROBES)
        return self.add_input(self.pick(["float32"] * 7 + ["float64", "int64", "bool"]), dims)

    def add_input(self, dtype, dims):
        probes = [self.array(dtype, tuple(d[k] for d in dims)) for k in range(len(PROBES))]
        value = Value(self.name("x"), probes, True)
        symbols = {tuple(p[0] for p in PROBES): "B", tuple(p[1] for p in PROBES): "S"}
        self.inputs[value.name] = (value.dtype, [symbols.get(d, d[0]) for d in dims])
        self.values.append(value)
        return value

    def constant(self, x):
        name = self.name("c")
        self.constants[name] = np.asarray(x)
        return name

    def value(self, rank=None, kind="f", exact=False):
        """A value of that kind of element; the later, the likelier."""
        fit = [v for v in self.values if (rank is None or v.rank in rank) and v.dtype.kind in kind and (v.exact or not exact)]
        return fit[-1 - min(int(self.rng.exponential(2.5)), len(fit) - 1)] if fit else None

    def add(self, op, names, exact=False, outputs=1, **attributes):
        """The node's values, or None where ONNX Runtime refuses it or makes nothing good of it."""
        node = helper.make_node(op, names, [self.name("v") for _ in range(outputs)], **attributes)
        by_name = {v.name: v for v in self.values}
        read = {n: by_name[n] for n in names if n in by_name}
        try:
            model = model_of([node], [info(n, v.dtype, [None] * v.rank) for n, v in read.items()],
                             [helper.make_empty_tensor_value_info(o) for o in node.output],
                             {n: self.constants[n] for n in names if n in self.constants})
            one = session(model)
            made = [one.run(None, {n: v.probes[k] for n, v in read.items()}) for k in range(len(PROBES))]
        except Exception:
            return None
        for x in made[0] + made[1]:
            if x.size == 0 or x.size > MOST or x.ndim > 6 or (x.dtype.kind == "f" and not np.abs(x).max() < LARGE):
                return None
        self.nodes.append(node)
        values = [Value(o, [made[k][i] for k in range(len(PROBES))], exact) for i, o in enumerate(node.output)]
        self.values += values
        return values

    def choose_outputs(self):
        read = {n for node in self.nodes for n in node.input}
        made = [v for v in self.values if v.name not in self.inputs]
        self.outputs = [v for v in made if v.name not in read or self.chance(0.15)]

    def feeds(self, batch, seq, seed):
        rng = np.random.default_rng(seed)
        found = {}
        for name, (dtype, dims) in self.inputs.items():
            shape = [{"B": batch, "S": seq}.get(d, d) for d in dims]
            found[name] = (rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2 if dtype == bool else 9, shape)).astype(dtype)
        return found

    def parts(self):
        inputs = [info(n, t, dims) for n, (t, dims) in self.inputs.items()]
        outputs = [info(v.name, v.dtype, [v.extent(a) if v.known(a) else None for a in range(v.rank)]) for v in self.outputs]
        used = {n for node in self.nodes for n in node.input}
        return self.nodes, inputs, outputs, {n: x for n, x in self.constants.items() if n in used}


# ---- nodes -----------------------------------------------------------------------------------------


def unary(g):
    x = g.value()
    op = g.pick(["Relu", "Sigmoid", "Tanh", "Neg", "Abs", "LeakyRelu", "Erf", "HardSigmoid", "Softplus", "Elu", "Identity", "Cos"])
    return x and g.add(op, [x.name], exact=x.exact and op in ("Relu", "Neg", "Abs", "Identity"))


def stretched(g, x):
    """A constant that broadcasts with x, of fewer axes or of extents 1."""
    rank = g.rng.integers(0, x.rank + 1)
    dims = [x.extent(a) if x.known(a) and g.chance(0.7) else 1 for a in range(x.rank - rank, x.rank)]
    return g.constant(g.array(x.dtype, dims))


def partner(g, x):
    """A name that broadcasts with x: another value, or a constant."""
    fit = [v for v in g.values if v.dtype == x.dtype and
           all(a == b or (1, 1) in (a, b) for a, b in zip(reversed(v.dims), reversed(x.dims)))]
    return g.pick(fit).name if fit and g.chance(0.6) else stretched(g, x)


def exact_name(g, name):
    return name in g.constants or next(v for v in g.values if v.name == name).exact


def binary(g):
    x = g.value(kind=g.pick(["f", "f", "f", "i"]))
    if not x:
        return None
    y = partner(g, x)
    pair = [x.name, y] if g.chance(0.6) else [y, x.name]
    return g.add(g.pick(["Add", "Add", "Sub", "Mul", "Mul", "Max", "Min"] if x.dtype.kind == "f" else ["Add", "Sub", "Mul", "Max"]),
                 pair, exact=x.dtype.kind == "i")


def residual(g):
    """x + f(x), or another two values of one shape."""
    x = g.value()
    fit = [v for v in g.values if x and v is not x and v.dtype == x.dtype and v.dims == x.dims]
    return g.add("Add", [x.name, g.pick(fit).name]) if fit else None


def compare(g):
    x = g.value(kind=g.pick(["f", "i"]), exact=True)
    if not x:
        return None
    y = partner(g, x)
    return exact_name(g, y) and g.add(g.pick(["Greater", "Less", "LessOrEqual", "Equal"]), [x.name, y], exact=True)


def logic(g):
    x = g.value(kind="b")
    if not x:
        return None
    return g.add("Not", [x.name], exact=True) if g.chance(0.3) else g.add(g.pick(["And", "Or", "Xor"]), [x.name, partner(g, x)], exact=True)


def where(g):
    c, x = g.value(kind="b"), g.value(kind="fi")
    if not c or not x:
        return None
    y = partner(g, x)
    return g.add("Where", [c.name, x.name, y] if g.chance(0.5) else [c.name, y, x.name], exact=x.exact and exact_name(g, y))


def cast(g):
    x = g.value(kind="fib")
    if not x:
        return None
    to = g.pick(["float32", "float64"] * 3 + ["int32", "int64", "bool", "int8"] if x.exact else ["float32", "float64"])
    return g.add("Cast", [x.name], exact=x.exact, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


def window(g, x, least):
    """Attributes of a window over the spatial axes of x."""
    spatial = x.rank - 2
    if spatial < 1:
        return None
    free = [not x.known(2 + a) for a in range(spatial)]
    kernel = [int(g.pick([1, 2, 3, 3, 4, 5]) if not f else g.pick([1, 3])) for f in free]
    strides = [int(g.pick([1, 1, 2, 3]) if not f else 1) for f in free]
    dilations = [int(g.pick([1, 1, 1, 2, 3])) if least else 1 for f in free]
    attributes = {"strides": strides}
    if least:
        attributes["dilations"] = dilations
    if any(free):
        half = [(k - 1) * d // 2 for k, d in zip(kernel, dilations)]
        attributes["pads"] = half + half
    elif g.chance(0.25):
        attributes["auto_pad"] = g.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        if attributes["auto_pad"] != "VALID":
            attributes["dilations"] = [1] * spatial
    elif g.chance(0.8):
        most = g.pick([1, 2, 2, 4]) if least else 0
        attributes["pads"] = [int(g.rng.integers(0, most + 1)) if least else int(g.rng.integers(0, kernel[a % spatial])) for a in range(2 * spatial)]
    return kernel, attributes


def conv(g):
    x = g.value(rank=(3, 4, 5))
    if not x or not x.known(1):
        return None
    found = window(g, x, True)
    kernel, attributes = found
    channels = x.extent(1)
    group = int(g.pick([d for d in range(1, channels + 1) if channels % d == 0])) if g.chance(0.4) else 1
    out = group * int(g.pick([1, 1, 2, 3, 5, 8] if group > 1 else [1, 3, 8, 16, 17, 33]))
    w = g.array(x.dtype, [out, channels // group, *kernel])
    names = [x.name, g.constant((w / np.sqrt(max(1, w[0].size))).astype(x.dtype))]
    if g.chance(0.5):
        names.append(g.constant(g.array(x.dtype, [out])))
    return g.add("Conv", names, group=group, **({"kernel_shape": kernel} if g.chance(0.7) else {}), **attributes)


def conv_transpose(g):
    x = g.value(rank=(3, 4))
    if not x or not x.known(1):
        return None
    kernel, attributes = window(g, x, True)
    if "auto_pad" in attributes:
        del attributes["auto_pad"]
    channels = x.extent(1)
    group = int(g.pick([d for d in range(1, channels + 1) if channels % d == 0])) if g.chance(0.3) else 1
    w = g.array(x.dtype, [channels, int(g.pick([1, 2, 3, 9])), *kernel])
    if "pads" in attributes:
        attributes["pads"] = [min(p, 1) for p in attributes["pads"]]
    return g.add("ConvTranspose", [x.name, g.constant((w / np.sqrt(channels)).astype(x.dtype))], group=group, **attributes)


def pool(g):
    x = g.value(rank=(3, 4, 5))
    if not x:
        return None
    if g.chance(0.15):
        return g.add(g.pick(["GlobalAveragePool", "GlobalMaxPool"]), [x.name])
    kernel, attributes = window(g, x, False)
    attributes.pop("dilations", None)
    op = g.pick(["MaxPool", "AveragePool"])
    if op == "MaxPool" and g.chance(0.2) and "auto_pad" not in attributes:
        attributes["dilations"] = [int(g.pick([1, 2])) for _ in kernel]
    elif op == "AveragePool":
        attributes["count_include_pad"] = int(g.chance(0.5))
    pads = attributes.get("pads", [0] * 2 * len(kernel))
    if op == "MaxPool" and "auto_pad" not in attributes and g.chance(0.4):
        attributes["ceil_mode"] = 1
    elif any(k > x.extent(2 + a) + pads[a] + pads[a + len(kernel)] for a, k in enumerate(kernel)):
        return None                  # ONNX Runtime rounds up here
    return g.add(op, [x.name], kernel_shape=kernel, **attributes)


def matmul(g):
    x = g.value(rank=(1, 2, 3, 4, 5))
    if not x:
        return None
    fit = [v for v in g.values if v.dtype == x.dtype and v.rank > 1 and x.rank > 1 and v.dims[-2] == x.dims[-1]]
    if fit and g.chance(0.5):
        return g.add("MatMul", [x.name, g.pick(fit).name])
    n = int(g.pick([1, 2, 5, 16, 17, 33]))
    batch = [d if g.chance(0.6) else 1 for d in [x.extent(a) if x.known(a) else 1 for a in range(max(0, x.rank - 2))]]
    batch = batch[g.rng.integers(0, len(batch) + 1):]
    if g.chance(0.6) or x.rank == 1:
        if not x.known(-1):
            return None
        k = x.extent(-1)
        w = g.array(x.dtype, [k] if g.chance(0.1) else [*batch, k, n])
        return g.add("MatMul", [x.name, g.constant((w / np.sqrt(k)).astype(x.dtype))])
    if not x.known(-2):
        return None
    k = x.extent(-2)
    w = g.array(x.dtype, [k] if g.chance(0.1) else [*batch, n, k])
    return g.add("MatMul", [g.constant((w / np.sqrt(k)).astype(x.dtype)), x.name])


def attention(g):
    """x times its own transpose."""
    x = g.value(rank=(2, 3, 4))
    if not x:
        return None
    perm = list(range(x.rank))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    t = g.add("Transpose", [x.name], perm=perm, exact=x.exact)
    product = t and g.add("MatMul", [x.name, t[0].name])
    if product and g.chance(0.6):
        product = g.add("Softmax", [product[0].name], axis=-1)
        return product and g.add("MatMul", [product[0].name, x.name])
    return product


def gemm(g):
    x = g.value(rank=(2,))
    if not x:
        return None
    t = g.chance(0.3)
    if not x.known(0 if t else 1):
        return None
    k, n = x.extent(0 if t else 1), int(g.pick([1, 3, 16, 17]))
    s = g.chance(0.5)
    names = [x.name, g.constant((g.array(x.dtype, [n, k] if s else [k, n]) / np.sqrt(k)).astype(x.dtype))]
    if g.chance(0.6):
        names.append(g.constant(g.array(x.dtype, g.pick([[n], [1, n], [1], [1, 1], []]))))
    return g.add("Gemm", names, transA=int(t), transB=int(s), alpha=float(g.pick([1.0, 0.5])), beta=float(g.pick([1.0, -2.0])))


def norm(g):
    x = g.value()
    if not x or x.rank < 1:
        return None
    axis = int(g.rng.integers(-x.rank, x.rank))
    how = g.rng.integers(4)
    if how < 2:
        return g.add(g.pick(["Softmax", "Softmax", "LogSoftmax"]), [x.name], axis=axis)
    if how == 2 and x.rank >= 3 and x.known(1):
        scale, bias = (g.constant(g.array(x.dtype, [x.extent(1)])) for _ in range(2))
        if g.chance(0.5):
            return g.add("InstanceNormalization", [x.name, scale, bias], epsilon=0.1)
        mean = g.constant(g.array(x.dtype, [x.extent(1)]))
        return g.add("BatchNormalization", [x.name, scale, bias, mean, g.constant(np.abs(g.array(x.dtype, [x.extent(1)])) + x.dtype.type(0.5))])
    if not all(x.known(a) for a in range(axis % x.rank, x.rank)):
        return None
    dims = [x.extent(a) for a in range(axis % x.rank, x.rank)]
    return g.add("LayerNormalization", [x.name, g.constant(g.array(x.dtype, dims)), g.constant(g.array(x.dtype, dims))], axis=axis, epsilon=0.1)


def reduction(g):
    x = g.value(kind=g.pick(["f", "f", "f", "i"]))
    if not x or x.rank < 1:
        return None
    axes = sorted(int(a) for a in g.rng.choice(x.rank, g.rng.integers(1, x.rank + 1), replace=False))
    keep = {"keepdims": int(g.chance(0.6))}
    if x.dtype.kind == "f" and g.chance(0.1) and x.exact:
        return g.add(g.pick(["ArgMax", "ArgMin"]), [x.name], axis=axes[0], exact=True, **keep)
    if g.chance(0.3):
        return g.add("ReduceSum", [x.name, g.constant(np.array(axes))], exact=x.dtype.kind == "i", **keep)
    op = g.pick(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare", "ReduceL1"] if x.dtype.kind == "f" else ["ReduceMax", "ReduceMin"])
    return g.add(op, [x.name], axes=axes, exact=x.dtype.kind == "i", **keep)


def transpose(g):
    x = g.value(kind="fib")
    return x and x.rank > 1 and g.add("Transpose", [x.name], perm=[int(a) for a in g.rng.permutation(x.rank)], exact=x.exact)


def reshape(g):
    x = g.value(kind="fib")
    if not x or x.rank < 1:
        return None
    if g.chance(0.3):
        return g.add("Flatten", [x.name], axis=int(g.rng.integers(0, x.rank + 1)), exact=x.exact)
    if g.chance(0.3):
        return g.add("Unsqueeze", [x.name, g.constant(np.array([g.rng.integers(0, x.rank + 1)]))], exact=x.exact)
    to, a = [], 0
    while a < x.rank:                # merge two known axes, split one, or keep it
        if a + 1 < x.rank and x.known(a) and x.known(a + 1) and g.chance(0.4):
            to.append(x.extent(a) * x.extent(a + 1))
            a += 2
            continue
        d = x.extent(a) if x.known(a) else 0
        small = next((p for p in (2, 3) if d and d % p == 0 and d > p), 0)
        to += [small, d // small] if small and g.chance(0.4) else [d if d else (0 if len(to) == a else -1)]
        a += 1
    return to.count(-1) < 2 and g.add("Reshape", [x.name, g.constant(np.array(to, "int64"))], exact=x.exact)


def slice_(g):
    x = g.value(kind="fib")
    if not x or x.rank < 1:
        return None
    axis = int(g.rng.integers(x.rank))
    if not x.known(axis):
        starts, ends, step = g.pick([(0, 2**31, 2), (1, 2**31, 1), (-1, -2**31, -1), (0, -1, 1)])
    else:
        d = x.extent(axis)
        step = int(g.pick([1, 1, 2, 3, -1, -2]))
        a, b = sorted(int(v) for v in g.rng.integers(0, d + 1, 2))
        starts, ends = (a, b) if step > 0 else (b, a - 1 if a else -2**31)
    return g.add("Slice", [x.name, *(g.constant(np.array([v])) for v in (starts, ends, axis, step))], exact=x.exact)


def concat(g):
    x = g.value(kind="fib")
    if not x or x.rank < 1:
        return None
    axis = int(g.rng.integers(x.rank))
    fit = [v for v in g.values if v.dtype == x.dtype and v.rank == x.rank and all(v.dims[a] == x.dims[a] for a in range(x.rank) if a != axis)]
    names = [x.name] + [g.pick(fit).name for _ in range(g.rng.integers(1, 3))]
    if g.chance(0.3) and all(x.known(a) for a in range(x.rank) if a != axis):
        names.append(g.constant(g.array(x.dtype, [x.extent(a) if a != axis else 2 for a in range(x.rank)])))
    return g.add("Concat", names, axis=axis, exact=all(exact_name(g, n) for n in names))


def split(g):
    x = g.value(kind="fib")
    if not x or x.rank < 1:
        return None
    axis = int(g.rng.integers(x.rank))
    if not x.known(axis) or x.extent(axis) < 2:
        return None
    first = int(g.rng.integers(1, x.extent(axis)))
    return g.add("Split", [x.name, g.constant(np.array([first, x.extent(axis) - first]))], outputs=2, axis=axis, exact=x.exact)


def pad(g):
    x = g.value(kind="f")
    if not x or x.rank < 1:
        return None
    free = [not x.known(a) for a in range(x.rank)]
    mode = g.pick(["constant", "constant", "reflect", "edge"])
    pads = [0 if free[a % x.rank] and mode != "constant" else int(g.pick([0, 0, 1, 2] + ([-1] if mode == "constant" and not free[a % x.rank] else [])))
            for a in range(2 * x.rank)]
    if mode == "reflect" and any(p >= x.extent(a % x.rank) for a, p in enumerate(pads)):
        return None
    return g.add("Pad", [x.name, g.constant(np.array(pads))] + ([g.constant(np.array(0.5, x.dtype))] if mode == "constant" else []), mode=mode)


def gather(g):
    x = g.value(kind="fib")
    if not x or x.rank < 1:
        return None
    axis = int(g.rng.integers(x.rank))
    if not x.known(axis):
        return None
    d = x.extent(axis)
    index = g.rng.integers(-d, d, [int(v) for v in g.rng.integers(1, 5, g.rng.integers(0, 3))])
    return g.add("Gather", [x.name, g.constant(np.array(index, "int64"))], axis=axis, exact=x.exact)


def expand(g):
    x = g.value(kind="fib")
    if not x:
        return None
    dims = [1 if not x.known(a) else x.extent(a) if x.extent(a) > 1 else int(g.pick([1, 2, 5])) for a in range(x.rank)]
    return g.add("Expand", [x.name, g.constant(np.array(([3] if g.chance(0.3) else []) + dims, "int64"))], exact=x.exact)


def resize(g):
    x = g.value(rank=(3, 4, 5))
    if not x or x.dtype != np.float32:
        return None
    scales = np.array([1, 1] + [float(g.pick([1.0, 2.0, 1.5, 3.0, 0.5])) if x.known(a) else 2.0 for a in range(2, x.rank)], "float32")
    if g.chance(0.5) or x.rank == 5:
        more = {"mode": "nearest", "nearest_mode": g.pick(["floor", "round_prefer_floor", "ceil"])}
    else:
        more = {"mode": "linear"}
    # With align_corners a coordinate is divided by the resized length less one, which is not rounded: so the specification's own test
    # has it (resize_downsample_scales_linear_align_corners: 2.4 of 4 elements, steps of 3 / 1.4). ONNX Runtime rounds it down first.
    whole = all(x.extent(a) * s % 1 == 0 for a, s in enumerate(scales) if x.known(a))
    corners = ["align_corners"] * (more["mode"] == "linear" and whole)
    return g.add("Resize", [x.name, "", g.constant(scales)], coordinate_transformation_mode=g.pick(["half_pixel", "asymmetric"] + corners), **more)


def another_input(g):
    """An input that looks like a value: the other side of a residual or a product."""
    x = g.value(kind="f")
    known = {tuple(p[0] for p in PROBES), tuple(p[1] for p in PROBES)}
    if x and len(g.inputs) < 5 and all(d in known or d[0] == d[1] for d in x.dims):
        g.add_input(x.dtype, list(x.dims))


MAKERS = [unary, unary, binary, binary, binary, residual, residual, compare, logic, where, where, cast, conv, conv, conv, conv, conv_transpose,
          pool, pool, matmul, matmul, matmul, attention, gemm, norm, norm, reduction, reduction, transpose, transpose, reshape, slice_,
          concat, split, pad, gather, expand, resize, another_input]


# ---- running ---------------------------------------------------------------------------------------


def join(graphs):
    """One model of the graphs, side by side."""
    nodes, inputs, outputs, constants = [], [], [], {}
    for g in graphs:
        n, i, o, c = g.parts()
        nodes += n
        inputs += i
        outputs += o
        constants |= c
    model = model_of(nodes, inputs, outputs, constants)
    onnx.checker.check_model(model)
    return model


def tenon(*args):
    return subprocess.run([TENON, *map(str, args)], capture_output=True, text=True, timeout=900, env=DIRTY)


def error_of(got, want, sizes):
    """The largest difference relative to the largest value, a small one counting as 0.1."""
    if 0 in sizes:
        return 0.0                   # ONNX Runtime has its own ideas of reductions of nothing
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.size == 0:
        return 0.0
    if want.dtype.kind != "f":
        return float((got != want).any())
    if not np.isfinite(want).all():
        return 0.0                   # at a size nobody tried while growing
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 0.1)) if np.isfinite(got).all() else np.inf


def faults(graphs, folder, options=(), sizes=SIZES, threads=1):
    """(graph, what is wrong) of the graphs compiled as one model."""
    if not (graphs := [g for g in graphs if g.outputs]):
        return []
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(join(graphs), folder / "model.onnx")
    done = tenon("compile", folder / "model.onnx", "-o", folder / "model.so", "-j", 1, *options)
    if done.returncode or ": error: " in done.stderr:      # what succeeds tells of no error
        return [(None, f"compile: exit {done.returncode}: {done.stderr.strip()[-600:]}")]
    sessions = [session(join([g])) for g in graphs]
    wrong = []
    for batch, seq in sizes:
        feeds = [g.feeds(batch, seq, k) for k, g in enumerate(graphs)]
        given = []
        for name, x in (item for f in feeds for item in f.items()):
            np.save(folder / f"{name}.npy", x)
            given += ["--input", f"{name}=@{folder / name}.npy"]
        if 0 in (batch, seq):        # of products over nothing ONNX Runtime writes the first of a batch alone: the interpreter is asked
            done = tenon("verify", folder / "model.onnx", "-j", 1, "--threads", threads, "--atol", ALLOWED, "--rtol", ALLOWED, *options, *given)
            if done.returncode and "differs" in done.stdout:
                wrong.append((None, f"verify B={batch} S={seq}: " + "; ".join(l for l in done.stdout.splitlines() if "differs" in l)))
        want = []
        for s, f in zip(sessions, feeds):
            try:
                want.append(s.run(None, f))
            except Exception:        # no such size
                want.append(None)
        if all(w is None for w in want):
            continue
        done = tenon("run", folder / "model.so", *given, "--threads", threads, "--output-dir", folder / "out")
        if done.returncode:
            if all(w is not None for w in want):
                wrong.append((None, f"run B={batch} S={seq}: exit {done.returncode}: {done.stderr.strip()[-300:]}"))
            continue
        for g, w in zip(graphs, want):
            for v, y in zip(g.outputs, w or []):
                e = error_of(np.load(folder / "out" / f"{v.name}.npy"), y, (batch, seq))
                if isinstance(e, str) or not e < ALLOWED:
                    wrong.append((g, f"B={batch} S={seq} {v.name}: {e}"))
    return wrong


def forced(graphs, folder, seed):
    """Options by which every value that can lies in some random order."""
    if not (graphs := [g for g in graphs if g.outputs]):
        return []
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(join(graphs), folder / "model.onnx")
    rng, fuse = np.random.default_rng(seed), ["--fuse", "none"] if seed % 2 else []
    text = tenon("compile", folder / "model.onnx", "--dump=fuse", "--stop-after=fuse", *fuse).stdout
    pins = {name: ",".join(map(str, rng.permutation(1 + re.sub(r"\([^()]*\)", "", dims).count(",")))) for name, dims in re.findall(r"^  %(\w+): \w+\[([^\]]+)\] = call\(", text, re.M)}
    while True:                      # what cannot is named, one after the other
        options = [*fuse, "--formats", "none"] + [word for name, layout in pins.items() for word in ("--format", f"{name}={layout}")]
        done = tenon("compile", folder / "model.onnx", "--stop-after=layout", *options)
        refused = re.search(r"error: --format (\w+): ", done.stderr)
        if not refused:
            return options
        del pins[refused[1]]


def graphs_of(seed, count):
    return [Graph([seed, k], f"g{k}_") for k in range(count)]


def minimised(g, folder, options, threads):
    """The graph with fewer outputs and fewer nodes, still wrong."""
    for v in list(g.outputs):
        kept, g.outputs = g.outputs, [v]
        if faults([g], folder, options, threads=threads):
            break
        g.outputs = kept
    while True:                      # an input in the place of a node's value
        live = {v.name for v in g.outputs}
        for node in reversed(g.nodes):
            live |= set(node.input) if live & set(node.output) else set()
        g.nodes = [n for n in g.nodes if live & set(n.output)]
        g.inputs = {n: d for n, d in g.inputs.items() if n in live}
        symbols = {tuple(p[0] for p in PROBES): "B", tuple(p[1] for p in PROBES): "S"}
        for node in g.nodes:
            made = [v for v in g.values if v.name in node.output]
            if any(v in g.outputs for v in made) or any(d not in symbols and d[0] != d[1] for v in made for d in v.dims):
                continue
            kept, inputs = g.nodes, g.inputs
            g.nodes = [n for n in g.nodes if n is not node]
            g.inputs = inputs | {v.name: (v.dtype, [symbols.get(d, d[0]) for d in v.dims]) for v in made}
            if faults([g], folder, options, threads=threads):
                break
            g.nodes, g.inputs = kept, inputs
        else:
            return g


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--graphs", type=int, default=10)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "random_models")
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("options", nargs="*")
    a = parser.parse_args()
    for seed in range(a.first, a.first + a.count):
        options = a.options or OPTIONS[seed % len(OPTIONS)]
        threads = 1 + seed % 2
        graphs = graphs_of(seed, a.graphs)
        folder = a.keep / str(seed)
        found = faults(graphs, folder, options, threads=threads)
        print(f"seed {seed} {' '.join(options)} threads {threads}: {sum(len(g.nodes) for g in graphs)} nodes, {len(found)} wrong", flush=True)
        if found and found[0][0] is None:
            print("   ", found[0][1], flush=True)
            found = [pair for k, g in enumerate(graphs) for pair in
                     [(g, what) for _, what in faults([g], folder / f"g{k}", options, threads=threads)]]
        for g, what in {id(g): (g, what) for g, what in reversed(found)}.values():
            print("   ", g.prefix, what, flush=True)
            if a.minimise:
                g = minimised(g, folder / f"{g.prefix}least", options, threads)
                print(onnx.printer.to_text(join([g])), faults([g], folder / f"{g.prefix}least", options, threads=threads), flush=True)


if __name__ == "__main__":
    main()
