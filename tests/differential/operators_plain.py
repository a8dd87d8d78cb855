"""Operators that every exporter writes: elementwise, reductions, products, windows, norms, movement, indices."""
import numpy as np
from onnx import TensorProto

from operator_case import MAKERS, Case, floats, operator, pick

INTS = ["int8", "uint8", "int16", "int32", "uint32", "int64"]
EXACT = {"judge": "ort"}             # ONNX Runtime's kernels are fast; where it has none, onnx's evaluator judges


def dims_of(r, least=0, most=4):
    return tuple(pick(r, "n", "m", "k", 1, 3, 5) for _ in range(r.integers(least, most + 1)))


def broadcast(r, dims):
    """Dimensions that go with dims: some of them 1, some of the first left out."""
    kept = dims[r.integers(0, len(dims) + 1):]
    return tuple(1 if r.random() < 0.3 else d for d in kept)


def some_of(r, rank):
    return sorted(int(a) - (rank if r.random() < 0.5 else 0) for a in r.permutation(rank)[:r.integers(1, rank + 1)])


def numbers(r, dims, kind, positive=False):
    if kind == "bool":
        return "bool", dims, "bits"
    if kind in INTS:
        return kind, dims, (1 if positive else 0 if kind[0] == "u" else -20, 20)
    return kind, dims, "uniform" if positive else "normal"


def add(name, make):
    MAKERS[name.lower()] = make


# ---- elementwise -------------------------------------------------------------------------------------------------


def unary(op, kinds, how="normal", **attributes):
    def make(r):
        kind = pick(r, *kinds)
        x = floats(*dims_of(r), how=how, dtype=kind) if kind.startswith("float") else numbers(r, dims_of(r), kind)
        return Case(op, [x], {k: v(r) if callable(v) else v for k, v in attributes.items()}, **EXACT)
    add(op, make)


REAL = ["float32", "float32", "float64", "float16"]
SIGNED = ["int8", "int32", "int64"]
for op in "Exp Tanh Erf Sigmoid Sin Cos Atan Sinh Cosh Asinh Softplus Softsign Mish HardSwish Tan".split():
    unary(op, ["float32"])
for op in "Log Sqrt Reciprocal".split():
    unary(op, ["float32", "float64"], "uniform")
for op in "Asin Acos Atanh".split():
    unary(op, ["float32"], "small within 1")
unary("Acosh", ["float32"], "above 1")
for op in "Floor Ceil Round".split():
    unary(op, ["float32", "float64"], "few")
for op in "Abs Neg Sign".split():
    unary(op, REAL + SIGNED)
unary("Relu", REAL + ["int32"])
unary("Identity", REAL + INTS + ["bool"])
unary("Not", ["bool"])
unary("IsNaN", ["float32", "float16"])
unary("IsInf", ["float32"], detect_negative=lambda r: int(r.integers(2)), detect_positive=lambda r: int(r.integers(2)))
unary("Elu", ["float32"], alpha=lambda r: float(r.random() * 2))
unary("Selu", ["float32"])
unary("Celu", ["float32"], alpha=lambda r: float(r.random() + 0.5))
unary("LeakyRelu", ["float32", "float64"], alpha=lambda r: float(r.random()))
unary("ThresholdedRelu", ["float32"], alpha=lambda r: float(r.random()))
unary("HardSigmoid", ["float32"], alpha=lambda r: float(r.random()), beta=lambda r: float(r.random()))
unary("Shrink", ["float32"], lambd=lambda r: float(r.random()), bias=lambda r: float(r.random()))
unary("Gelu", ["float32"], approximate=lambda r: pick(r, "none", "tanh"))
unary("BitwiseNot", INTS)


def binary(op, kinds, positive=False, **attributes):
    def make(r):
        kind, dims = pick(r, *kinds), dims_of(r, 1)
        other = broadcast(r, dims)
        x, y = numbers(r, dims, kind, positive), numbers(r, other, kind, positive or op in ("Div", "Mod"))
        swap = r.random() < 0.5 and op not in ("Div", "Mod", "Pow", "PRelu", "BitShift")
        return Case(op, [y, x] if swap else [x, y], {k: v(r) for k, v in attributes.items()}, **EXACT)
    add(op, make)


for op in "Add Sub Mul".split():
    binary(op, REAL + ["int32", "int64", "uint8"])
binary("Div", ["float32", "float64", "int32", "int64", "uint8"])
binary("Pow", ["float32"], positive=True)
binary("Mod", ["int32", "int64", "uint8", "int8"])
for op in "Greater Less GreaterOrEqual LessOrEqual".split():
    binary(op, ["float32", "int32", "int64", "uint8"])
binary("Equal", ["float32", "int32", "int64", "bool"])
for op in "And Or Xor".split():
    binary(op, ["bool"])
for op in "BitwiseAnd BitwiseOr BitwiseXor".split():
    binary(op, INTS)
binary("PRelu", ["float32"])


@operator
def bit_shift(r):
    kind = pick(r, "uint8", "uint32", "uint64")
    return Case("BitShift", [(kind, ("n", "m"), 40), (kind, ("m",), 8)], {"direction": pick(r, "LEFT", "RIGHT")}, **EXACT)


@operator
def variadic(r):
    kind, dims = pick(r, "float32", "float64", "int32"), dims_of(r, 1, 3)
    op = pick(r, "Max", "Min", "Sum", "Mean")
    kind = "float32" if op in ("Sum", "Mean") else kind
    return Case(op, [numbers(r, d, kind) for d in [dims] + [broadcast(r, dims) for _ in range(r.integers(0, 4))]], {}, **EXACT)


@operator
def where(r):
    dims, kind = dims_of(r, 1), pick(r, *REAL, "int64", "bool", "uint8")
    return Case("Where", [("bool", broadcast(r, dims), "bits"), numbers(r, dims, kind), numbers(r, broadcast(r, dims), kind)], {}, **EXACT)


@operator
def clip(r):
    kind = pick(r, "float32", "float64", "int32", "int64", "uint8", "int8")
    low, high = np.array(3 if kind[0] == "u" else -1, kind), np.array(5, kind)
    return Case("Clip", [numbers(r, dims_of(r), kind), low if r.random() < 0.7 else None, high if r.random() < 0.7 else None], {}, **EXACT)


@operator
def cast(r):
    to = pick(r, "FLOAT", "DOUBLE", "FLOAT16", "INT8", "UINT8", "INT32", "INT64", "BOOL", "BFLOAT16", "INT16")
    kind = pick(r, "float32", "float64", "bool", *SIGNED) if to[0] != "U" else pick(r, "bool", "uint32")
    return Case("Cast", [numbers(r, dims_of(r), kind)], {"to": TensorProto.DataType.Value(to)}, **EXACT)


# ---- reductions --------------------------------------------------------------------------------------------------


def reduction(op, kinds, positive=False):
    def make(r):
        dims = dims_of(r, 1)
        axes = np.array(some_of(r, len(dims))) if r.random() < 0.8 else None
        least = {"n": 1, "m": 1, "k": 1}
        return Case(op, [numbers(r, dims, pick(r, *kinds), positive), axes], {"keepdims": int(r.integers(2))}, least=least, loose=1e-3, **EXACT)
    add(op, make)


for op in "ReduceSum ReduceMean ReduceSumSquare".split():
    reduction(op, ["float32", "float64", "int32"])
for op in "ReduceMax ReduceMin".split():
    reduction(op, ["float32", "float64", "int32", "int64", "int8", "uint8"])
for op in "ReduceL1 ReduceL2 ReduceLogSumExp".split():
    reduction(op, ["float32", "float64"])
reduction("ReduceLogSum", ["float32"], True)


@operator
def reduce_prod(r):
    dims = dims_of(r, 1, 3)
    return Case("ReduceProd", [floats(*dims, how="near one"), np.array(some_of(r, len(dims)))], {"keepdims": int(r.integers(2))}, loose=1e-3, **EXACT)


@operator
def arg(r):
    dims, op = dims_of(r, 1), pick(r, "ArgMax", "ArgMin")
    attributes = {"axis": int(r.integers(-len(dims), len(dims))), "keepdims": int(r.integers(2)), "select_last_index": int(r.integers(2))}
    return Case(op, [numbers(r, dims, pick(r, "float32", "float64", "int32", "uint8"))], attributes, least={"n": 1, "m": 1, "k": 1}, **EXACT)


@operator
def softmax(r):
    dims = dims_of(r, 1)
    return Case(pick(r, "Softmax", "LogSoftmax", "Hardmax"), [floats(*dims)], {"axis": int(r.integers(-len(dims), len(dims)))}, **EXACT)


@operator
def cum_sum(r):
    dims = dims_of(r, 1)
    attributes = {"exclusive": int(r.integers(2)), "reverse": int(r.integers(2))}
    return Case("CumSum", [numbers(r, dims, pick(r, "float32", "int32", "int64")), np.array(int(r.integers(-len(dims), len(dims))))], attributes, **EXACT)


# ---- products ----------------------------------------------------------------------------------------------------


@operator
def matmul(r):
    kind, batch = pick(r, "float32", "float32", "float64", "int32"), pick(r, (), (), ("b",), ("b", 2), (1,))
    left = pick(r, (), batch, tuple(1 if r.random() < 0.4 else d for d in batch))
    a, b = [*left, "n", "k"], [*batch, "k", "m"]
    return Case("MatMul", [numbers(r, a if r.random() < 0.85 else ["k"], kind), numbers(r, b if batch or r.random() < 0.85 else ["k"], kind)], {}, **EXACT)


@operator
def matmul_by_a_constant(r):
    k, m = pick(r, 1, 7, 64, 130, 600), pick(r, 1, 8, 33, 96)
    return Case("MatMul", [floats(*pick(r, ("n", k), ("b", "n", k))), (r.standard_normal((k, m)) / 4).astype("f4")], {}, loose=1e-3, **EXACT)


@operator
def matmul_integer(r):
    a, b, k, m = pick(r, "int8", "uint8"), pick(r, "int8", "uint8"), pick(r, 1, 9, 64, 515, 1024), pick(r, 8, 33, 256)
    w = r.integers(0, 100, (k, m)).astype(b)
    return Case("MatMulInteger", [(a, ("n", k), 100), w, np.array(3, a) if r.random() < 0.7 else None, pick(r, None, np.array(5, b), np.full(m, 4, b))], {}, **EXACT)


@operator
def gemm(r):
    ta, tb, n, m = int(r.integers(2)), int(r.integers(2)), "n", pick(r, "m", 5, 40)
    c = [pick(r, (m,), (n, m), (n, 1), (1, m), (), (1,))] if r.random() < 0.8 else []
    attributes = {"transA": ta, "transB": tb, "alpha": pick(r, 1.0, 0.5), "beta": pick(r, 1.0, 2.0)}
    return Case("Gemm", [floats(*(("k", n) if ta else (n, "k"))), floats(*((m, "k") if tb else ("k", m))), *(floats(*d) for d in c)], attributes,
                least={"k": 1}, **EXACT)


@operator
def einsum(r):
    equation, *dims = pick(r, ("ij,jk->ik", "nk", "km"), ("bij,bkj->bik", "bnk", "bmk"), ("bhid,bhjd->bhij", "b2n4", "b2m4"), ("ij->ji", "nm"), ("i,i->", "n", "n"),
                           ("ij->i", "nm"), ("bij,ij->b", "bnm", "nm"), ("bi,bj->bij", "bn", "bm"))
    return Case("Einsum", [floats(*(int(d) if d.isdigit() else d for d in word)) for word in dims], {"equation": equation}, **EXACT)


# ---- windows -----------------------------------------------------------------------------------------------------


def window(r, rank, kernel, pads=True):
    """Attributes; the extents that fit all of them."""
    a = {"strides": [int(x) for x in r.integers(1, 4, rank)], "dilations": [int(x) for x in r.integers(1, 3, rank)]}
    if r.random() < 0.25:
        a["auto_pad"] = pick(r, "SAME_UPPER", "SAME_LOWER", "VALID")
        a["dilations"] = [1] * rank
    elif pads:
        a["pads"] = [int(x) for x in r.integers(0, np.array([*kernel, *kernel]))]
    return a


def space(r, rank):
    return tuple(pick(r, "h", "w", 9, 12) for _ in range(rank))


LARGE = {"h": 9, "w": 9, "n": 1, "c": 1}


@operator
def conv(r):
    rank, group = pick(r, 1, 2, 2, 2, 3), pick(r, 1, 1, 2, 6)
    kernel = [int(x) for x in r.integers(1, 4 if rank == 2 else 3, rank)]
    inside, outside = pick(r, 1, 3) * group, pick(r, 1, 4) * group
    w = (r.standard_normal((outside, inside // group, *kernel)) / 3).astype("f4")
    x = floats(pick(r, 1, "n"), inside, *space(r, rank))
    return Case("Conv", [x, w, r.standard_normal(outside).astype("f4") if r.random() < 0.6 else None], window(r, rank, kernel) | {"group": group},
                least=LARGE, loose=1e-3, **EXACT)


@operator
def conv_by_data(r):
    attributes = {"pads": [1, 1, 1, 1], "strides": [pick(r, 1, 2)] * 2}
    return Case("Conv", [floats("n", 3, "h", "w"), floats("f", 3, 3, 3), floats("f")], attributes, least=LARGE | {"f": 1}, loose=1e-3, **EXACT)


@operator
def conv_integer(r):
    a = pick(r, "int8", "uint8")
    w = r.integers(0, 50, (5, 3, 3, 3)).astype(a)
    return Case("ConvInteger", [(a, ("n", 3, "h", "w"), 100), w, np.array(4, a) if r.random() < 0.7 else None, np.array(2, a) if r.random() < 0.7 else None],
                {"pads": [1, 0, 1, 2], "strides": pick(r, [1, 1], [2, 1])}, least=LARGE, **EXACT)


@operator
def conv_transpose(r):
    rank, group = pick(r, 1, 2, 2), pick(r, 1, 2)
    kernel = [int(x) for x in r.integers(1, 4, rank)]
    strides = [int(x) for x in r.integers(1, 4, rank)]
    attributes = {"strides": strides, "group": group, "dilations": [int(x) for x in r.integers(1, 3, rank)], "output_padding": [int(r.integers(0, s)) for s in strides]}
    w = (r.standard_normal((2 * group, 3, *kernel)) / 3).astype("f4")
    return Case("ConvTranspose", [floats("n", 2 * group, *space(r, rank)), w], attributes, least=LARGE, loose=1e-3, **EXACT)


def pooling(op, kinds, **attributes):
    def make(r):
        rank = pick(r, 1, 2, 2, 3)
        kernel = [int(x) for x in r.integers(1, 4, rank)]
        a = window(r, rank, kernel) | {"kernel_shape": kernel} | {k: v(r) for k, v in attributes.items()}
        if a.get("ceil_mode"):
            a.pop("auto_pad", None)
        x = numbers(r, (pick(r, 1, "n"), "c", *space(r, rank)), pick(r, *kinds))
        return Case(op, [x], a, least=LARGE, opset=22, **EXACT)
    add(op, make)


pooling("MaxPool", ["float32", "float32", "uint8", "int8"], ceil_mode=lambda r: int(r.integers(2)))
pooling("AveragePool", ["float32"], ceil_mode=lambda r: int(r.integers(2)), count_include_pad=lambda r: int(r.integers(2)))
pooling("LpPool", ["float32"], p=lambda r: int(r.integers(1, 4)))


@operator
def global_pool(r):
    return Case(pick(r, "GlobalAveragePool", "GlobalMaxPool"), [floats("n", "c", *space(r, pick(r, 1, 2, 3)))], {}, least=LARGE, **EXACT)


@operator
def resize(r):
    mode = pick(r, "nearest", "linear", "cubic")
    how = pick(r, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes = {"mode": mode, "coordinate_transformation_mode": how}
    attributes |= {"nearest_mode": pick(r, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")} if mode == "nearest" else {}
    scales = np.array([1, 1, *r.choice([0.5, 1, 2, 3], 2)], "f4")
    judge = "ort" if how == "pytorch_half_pixel" else "onnx"        # where one point comes out it is that at 0, says ONNX; its evaluator takes -0.5
    return Case("Resize", [floats("n", "c", "h", "w"), None, scales], attributes, least={"h": 2, "w": 2, "n": 1, "c": 1}, loose=1e-3, judge=judge)


# ---- norms -------------------------------------------------------------------------------------------------------


@operator
def batch_norm(r):
    dims = ("n", 5, *pick(r, (), ("h",), ("h", "w")))
    vectors = [r.standard_normal(5).astype("f4") for _ in range(3)] + [(r.random(5) + 0.5).astype("f4")]
    return Case("BatchNormalization", [floats(*dims), *vectors], {"epsilon": pick(r, 1e-5, 1e-2)}, opset=15, **EXACT)


@operator
def layer_norm(r):
    tail = pick(r, ("m",), ("m",), (5, "m"))
    return Case("LayerNormalization", [floats(*pick(r, ("n",), ("n", 3)), *tail), floats(*tail), floats(*tail) if r.random() < 0.6 else None],
                {"axis": -len(tail), "epsilon": 1e-3}, opset=17, least={"m": 1}, loose=1e-3, **EXACT)


@operator
def instance_norm(r):
    return Case("InstanceNormalization", [floats("n", "c", *pick(r, ("h",), ("h", "w"))), floats("c"), floats("c")], {"epsilon": 1e-2}, opset=6,
                least={"h": 2, "w": 2, "n": 1, "c": 1}, loose=1e-3, **EXACT)


@operator
def group_norm(r):
    return Case("GroupNormalization", [floats("n", 6, "h", "w"), floats(6), floats(6)], {"num_groups": pick(r, 1, 2, 3, 6), "epsilon": 1e-2}, opset=21,
                least={"h": 2, "w": 2, "n": 1}, loose=1e-3)


@operator
def rms_norm(r):
    return Case("RMSNormalization", [floats("n", "m"), floats("m")], {"epsilon": 1e-3}, opset=23, least={"m": 1}, loose=1e-3)


@operator
def lrn(r):
    return Case("LRN", [floats("n", "c", "h", "w")], {"size": pick(r, 1, 3, 5), "alpha": 0.1}, opset=13, least=LARGE, **EXACT)


@operator
def lp_norm(r):
    return Case("LpNormalization", [floats("n", "m", "k")], {"axis": int(r.integers(-3, 3)), "p": pick(r, 1, 2)}, opset=22, least={"n": 1, "m": 1, "k": 1}, **EXACT)


# ---- movement ----------------------------------------------------------------------------------------------------

ANY = ["float32", "float64", "float16", "int64", "int8", "bool", "uint32"]


@operator
def transpose(r):
    dims = dims_of(r, 1, 5)
    return Case("Transpose", [numbers(r, dims, pick(r, *ANY))], {"perm": [int(x) for x in r.permutation(len(dims))]}, **EXACT)


@operator
def reshape(r):
    dims, to = pick(r, (("n", 6, "m"), [0, 2, 3, -1]), (("n", "m"), [-1]), (("n", 4, 6), [-1, 3, 8]), (("n", "m", 6), [0, -1]), (("n", 1, "m"), [0, 0]))
    if to == [0, 0]:
        to = [0, -1]
    return Case("Reshape", [numbers(r, dims, pick(r, *ANY)), np.array(to)], {}, least={"n": 1, "m": 1}, **EXACT)


@operator
def squeeze(r):
    dims = ("n", 1, "m", 1)
    return Case("Squeeze", [numbers(r, dims, pick(r, *ANY)), np.array(pick(r, [1], [-1], [1, 3], [-3]))], {}, **EXACT)


@operator
def unsqueeze(r):
    return Case("Unsqueeze", [numbers(r, ("n", "m"), pick(r, *ANY)), np.array(pick(r, [0], [-1], [1, 3], [0, 1]))], {}, **EXACT)


@operator
def flatten(r):
    return Case("Flatten", [numbers(r, ("n", 3, "m"), pick(r, *ANY))], {"axis": int(r.integers(-3, 4))}, **EXACT)


@operator
def expand(r):
    return Case("Expand", [numbers(r, ("n", 1, "m"), pick(r, *ANY)), np.array(pick(r, [1, 5, 1], [2, 1, 3, 1], [1], [7, 1]))], {}, **EXACT)


@operator
def expand_to_data(r):
    return Case("Expand", [numbers(r, (1, "m"), "float32"), ("int64", (1,), (1, 2))], {}, least={"m": 1}, **EXACT)


@operator
def tile(r):
    return Case("Tile", [numbers(r, ("n", 3, "m"), pick(r, "float32", "int64", "bool")), r.integers(0, 4, 3)], {}, **EXACT)


@operator
def concat(r):
    dims, kind = list(dims_of(r, 1)), pick(r, *ANY)
    axis = int(r.integers(0, len(dims)))
    parts = [tuple(pick(r, "p", "q", 2, 1) if d == axis else size for d, size in enumerate(dims)) for _ in range(r.integers(1, 5))]
    return Case("Concat", [numbers(r, part, kind) for part in parts], {"axis": axis - (len(dims) if r.random() < 0.5 else 0)}, **EXACT)


@operator
def split(r):
    sizes = pick(r, [2, 3, 1], [6], [0, 4, 2])
    return Case("Split", [numbers(r, ("n", 6, "m"), pick(r, *ANY)), np.array(sizes)], {"axis": pick(r, 1, -2)}, len(sizes), **EXACT)


@operator
def split_evenly(r):
    parts = pick(r, 2, 3, 4)
    return Case("Split", [numbers(r, ("n", 7, "m"), "float32")], {"axis": 1, "num_outputs": parts}, parts, **EXACT)


@operator
def slice_(r):
    rank = 3
    axes = some_of(r, rank)
    n = len(axes)
    starts, ends, steps = r.integers(-9, 9, n), r.integers(-20, 20, n), r.choice([-3, -2, -1, 1, 1, 1, 2, 3], n)
    return Case("Slice", [numbers(r, ("n", 9, "m"), pick(r, *ANY)), starts, ends, np.array(axes), steps], {}, **EXACT)


@operator
def slice_from_data(r):
    return Case("Slice", [floats("n", 9), ("int64", (1,), (-5, 5)), ("int64", (1,), (-9, 12)), np.array([pick(r, 0, 1)])], {}, **EXACT)


@operator
def pad(r):
    mode = pick(r, "constant", "constant", "edge", "reflect", "wrap")
    pads = r.integers(-1 if mode == "constant" else 0, 3, 6)
    return Case("Pad", [floats("n", 5, "m"), pads, np.float32(2.5) if mode == "constant" and r.random() < 0.5 else None], {"mode": mode}, least={"n": 4, "m": 4}, **EXACT)


@operator
def depth_to_space(r):
    return Case("DepthToSpace", [floats("n", 12, "h", "w")], {"blocksize": 2, "mode": pick(r, "DCR", "CRD")}, **EXACT)


@operator
def space_to_depth(r):
    return Case("SpaceToDepth", [floats("n", "c", 6, 4)], {"blocksize": 2}, **EXACT)


@operator
def trilu(r):
    return Case("Trilu", [numbers(r, ("n", "m", "k"), pick(r, "float32", "int64")), np.array(int(r.integers(-5, 6)))], {"upper": int(r.integers(2))}, **EXACT)


@operator
def reverse_sequence(r):
    return Case("ReverseSequence", [floats("t", "b", 3), ("int64", ("b",), (1, 2))], {"time_axis": 0, "batch_axis": 1}, least={"t": 1, "b": 1}, **EXACT)


# ---- indices -----------------------------------------------------------------------------------------------------


@operator
def gather(r):
    axis = pick(r, 0, 1, -1)
    dims = [9 if d == axis % 3 else s for d, s in enumerate(("n", "m", 4))]
    return Case("Gather", [numbers(r, dims, pick(r, *ANY)), (pick(r, "int64", "int32"), pick(r, ("i",), ("i", 2), ()), (-9, 9))], {"axis": axis}, **EXACT)


@operator
def gather_elements(r):
    axis = pick(r, 0, 1, -1)
    dims = [9 if d == axis % 2 else "n" for d in range(2)]
    index = ["i" if d == axis % 2 else "n" for d in range(2)]
    return Case("GatherElements", [numbers(r, dims, pick(r, *ANY)), ("int64", index, (-9, 9))], {"axis": axis}, **EXACT)


@operator
def gather_nd(r):
    return Case("GatherND", [numbers(r, (5, 5, "m"), pick(r, *ANY)), ("int64", ("i", pick(r, 1, 2)), (-5, 5))], {}, **EXACT)


@operator
def scatter_elements(r):
    reduction = pick(r, "add", "max", "min")
    return Case("ScatterElements", [floats("n", 9), ("int64", ("n", 4), (-9, 9)), floats("n", 4)], {"axis": 1, "reduction": reduction}, opset=18, **EXACT)


@operator
def scatter_nd(r):
    reduction = pick(r, "add", "max", "min")
    return Case("ScatterND", [floats(9, "m"), ("int64", ("i", 1), (-9, 9)), floats("i", "m")], {"reduction": reduction}, opset=18, **EXACT)


@operator
def one_hot(r):
    return Case("OneHot", [("int64", ("n", "m"), (-12, 12)), np.array(7), np.array([2, 5], "f4")], {"axis": pick(r, 0, 1, -1)}, **EXACT)


@operator
def nonzero(r):
    return Case("NonZero", [numbers(r, dims_of(r, 1, 3), pick(r, "bool", "float32", "int64"))], {}, **EXACT)


@operator
def compress(r):
    axis = pick(r, {"axis": 0}, {"axis": 1}, {})
    return Case("Compress", [floats("n", 7), ("bool", (pick(r, 3, 7) if axis else 5,), "bits")], axis, least={"n": 7}, **EXACT)


@operator
def range_of_data(r):
    return Case("Range", [("int64", (), (-5, 5)), ("int64", (), (5, 40)), np.array(pick(r, 1, 2, 3))], {}, **EXACT)


@operator
def shape_of(r):
    return Case("Shape", [floats("n", 3, "m")], {"start": int(r.integers(-3, 3)), "end": int(r.integers(0, 4))}, **EXACT)


@operator
def constant_of_shape(r):
    return Case("ConstantOfShape", [("int64", (2,), (0, 9))], {}, **EXACT)


# ---- quantised ---------------------------------------------------------------------------------------------------


@operator
def quantize(r):
    kind = pick(r, "int8", "uint8")
    if r.random() < 0.5:
        return Case("QuantizeLinear", [floats("n", 4, "m", how="wide"), (r.random(4) / 20 + 0.01).astype("f4"), np.full(4, 7, kind)], {"axis": pick(r, 1, -2)}, opset=21, **EXACT)
    return Case("QuantizeLinear", [floats("n", "m", how="wide"), np.float32(0.02), np.array(7, kind) if r.random() < 0.7 else None], {}, opset=21, **EXACT)


@operator
def dequantize(r):
    kind = pick(r, "int8", "uint8")
    return Case("DequantizeLinear", [(kind, ("n", 4, "m"), 100), (r.random(4) + 0.01).astype("f4"), np.full(4, 7, kind)], {"axis": pick(r, 1, -2)}, opset=21, **EXACT)


@operator
def dynamic_quantize(r):
    return Case("DynamicQuantizeLinear", [floats(*dims_of(r, 1, 3), how=pick(r, "normal", "uniform", "negative"))], {}, 3, least={"n": 1, "m": 1, "k": 1}, **EXACT)
