"""Single operators on sizes that fill vectors and leave remainders, in every element type.

ONNX's own cases are small and mostly f32. Here every case is one node on larger tensors; ONNX
Runtime, or ONNX's reference where it has no kernel for a type, says what is right. All cases are one
model, compiled by the best schedule. By day that is every seventh case of each operator; with
TENON_NIGHTLY=1 it is all of them, and once more by plain loops.
"""
import os
import pathlib
import subprocess
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
DIRTY = os.environ | {"MALLOC_PERTURB_": "171"}         # memory that nobody wrote holds no zeros
NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
BY_DAY = 7                           # one case in so many
OPSET = 18
rng = np.random.default_rng(3)
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def random(dtype, *shape):
    """Small numbers of a type, exact in all of them."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    low = 0 if dtype.startswith("u") else -9
    return rng.integers(low, 10, shape).astype(dtype)


@dataclass(eq=False)
class Case:
    name: str
    node: onnx.NodeProto
    inputs: list
    constants: dict                  # position of an input -> array that is known while compiling


CASES: list[Case] = []


def case(op, *inputs, constants=None, outputs=1, name="", **attributes):
    k = len(CASES)
    constants = {i: np.asarray(x) for i, x in (constants or {}).items()}
    names = ["" if x is None and i not in constants else f"c{k}_i{i}"
             for i, x in enumerate([*inputs, *[None] * (max([len(inputs), *[i + 1 for i in constants]]) - len(inputs))])]
    node = helper.make_node(op, names, [f"c{k}_o{i}" for i in range(outputs)], **attributes)
    CASES.append(Case(f"{op}_{name or k}", node, list(inputs), constants))


# ---- elementwise, every type -----------------------------------------------------------------------------------

for t in INTEGERS + FLOATS:
    x, y = random(t, 3, 37), random(t, 37)
    for op in "Add", "Sub", "Mul":
        case(op, x, y, name=t)
    case("Div", x, np.where(y == 0, np.ones(1, t), y).astype(t), name=t)
    case("Max", x, y, name=t)
    case("Greater", x, y, name=t)
    case("Equal", x, y, name=t)
    case("Where", random("bool", 3, 37), x, y, name=t)
    case("Clip", x, constants={1: np.array(2, t), 2: np.array(6, t)}, name=t)
for t in ["int8", "int16", "int32", "int64", *FLOATS]:
    case("Abs", random(t, 5, 29), name=t)
    case("Neg", random(t, 5, 29), name=t)
    case("Sign", random(t, 5, 29), name=t)
for t in ["int32", "int64", "uint8", "int8"]:
    x, y = random(t, 70), random(t, 70)
    case("Mod", x, np.where(y == 0, np.ones(1, t), y).astype(t), name=t)
for op in "And", "Or", "Xor":
    case(op, random("bool", 3, 41), random("bool", 41))
case("Not", random("bool", 75))
for op in ["Exp", "Log", "Sqrt", "Tanh", "Erf", "Sigmoid", "Sin", "Cos", "Atan", "Floor", "Round", "Reciprocal", "Softplus"]:
    for t in "float32", "float64":
        case(op, (rng.random((3, 41)) * 4 + 0.25).astype(t), name=t)
case("Pow", (rng.random(75) * 4 + 0.25).astype("float32"), random("float32", 75))
case("Pow", (rng.random((3, 40)) * 4 + 0.25).astype("float64"), np.array(2, "float64"))
for t in "uint8", "uint32", "uint64":
    case("BitShift", random(t, 45), random(t, 45) % 5, direction="LEFT", name=t)
    case("BitwiseAnd", random(t, 45), random(t, 45), name=t)
for a in ["bool", *INTEGERS, *FLOATS]:
    for b in ["bool", *INTEGERS, *FLOATS]:
        if a != b and not (b.startswith("u") and a in FLOATS):
            x = np.abs(random("int32", 3, 27)).astype(a) if b.startswith("u") else random(a, 3, 27)
            case("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(b)), name=f"{a}_{b}")

# ---- reductions ------------------------------------------------------------------------------------------------------

for t in ["int32", "int64", "float32", "float64", "float16"]:
    for op in ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"]:
        if not (t == "float16" and op in ("ReduceSum", "ReduceMean")):
            for axes in [1], [0], [0, 2], [0, 1, 2]:
                case(op, np.abs(random(t, 4, 5, 39)), constants={1: np.array(axes)}, keepdims=0, name=f"{t}_{axes}")
for t in "int8", "uint8":
    case("ReduceMax", random(t, 4, 39), constants={1: np.array([1])}, name=t)
    case("ReduceMin", random(t, 39, 4), constants={1: np.array([0])}, name=t)
case("ReduceProd", np.abs(random("float64", 4, 3)) + 1, constants={1: np.array([1])})
case("ReduceL2", random("float32", 4, 39), constants={1: np.array([1])})
case("ReduceLogSumExp", random("float32", 4, 39), constants={1: np.array([1])})
for t in ["float32", "int32", "int64", "uint8", "float64"]:
    for op in "ArgMax", "ArgMin":
        case(op, random(t, 6, 39), axis=1, name=f"{t}_1")
        case(op, random(t, 39, 6), axis=0, keepdims=0, name=f"{t}_0")
        case(op, random(t, 39, 6), axis=0, select_last_index=1, name=f"{t}_last")
for t in "float32", "int64", "float64", "int32":
    for exclusive in 0, 1:
        for reverse in 0, 1:
            case("CumSum", random(t, 5, 29), constants={1: np.array(1)}, exclusive=exclusive, reverse=reverse, name=f"{t}_{exclusive}{reverse}")
    case("CumSum", random(t, 29, 5), constants={1: np.array(0)}, name=t)
for t in "float32", "float64":
    case("Softmax", random(t, 5, 45), axis=-1, name=t)
    case("Softmax", random(t, 45, 5), axis=0, name=f"{t}_0")
    case("LogSoftmax", random(t, 5, 3, 17), axis=1, name=t)
case("LayerNormalization", random("float32", 5, 45), random("float32", 45), random("float32", 45))
case("InstanceNormalization", random("float32", 2, 3, 5, 9), random("float32", 3), random("float32", 3))

# ---- products ------------------------------------------------------------------------------------------------------------

for t in ["float32", "float64", "int32", "int64", "uint32", "uint64"]:
    case("MatMul", random(t, 15, 23), random(t, 23, 37), name=t)
    case("MatMul", random(t, 2, 3, 15, 23), random(t, 3, 23, 37), name=f"{t}_batch")
    case("MatMul", random(t, 23), random(t, 23, 37), name=f"{t}_row")
    case("MatMul", random(t, 15, 23), random(t, 23), name=f"{t}_column")
case("MatMul", random("float16", 15, 9) / 4, random("float16", 9, 37), name="float16")
case("MatMul", random("float32", 0, 23), random("float32", 23, 37), name="no_rows")
case("MatMul", random("float32", 3, 0), random("float32", 0, 37), name="no_terms")
case("MatMul", random("float32", 130, 300), random("float32", 300, 70), name="large")
case("Gemm", random("float32", 23, 15), random("float32", 37, 23), random("float32", 37), transA=1, transB=1, alpha=0.5, beta=2.0)
case("Gemm", random("float64", 15, 23), random("float64", 23, 37), random("float64", 15, 1))
case("MatMulInteger", random("int8", 15, 23), random("int8", 23, 37))
case("MatMulInteger", random("uint8", 15, 23), random("int8", 23, 37), np.array(3, "uint8"))
case("Einsum", random("float32", 3, 15, 7), random("float32", 3, 21, 7), equation="bik,bjk->bji")

# ---- windows ---------------------------------------------------------------------------------------------------------------

for t in "float32", "float64":
    case("Conv", random(t, 2, 3, 39), random(t, 5, 3, 3), pads=[1, 1], name=f"{t}_1d")
    case("Conv", random(t, 2, 4, 41), random(t, 6, 2, 4), group=2, strides=[3], pads=[2, 0], dilations=[2], name=f"{t}_1d_all")
    case("Conv", random(t, 1, 2, 5, 6, 21), random(t, 4, 2, 2, 3, 3), random(t, 4), pads=[0, 1, 1, 1, 1, 1], name=f"{t}_3d")
    case("Conv", random(t, 1, 2, 7, 6, 21), random(t, 4, 1, 2, 3, 3), group=2, strides=[2, 1, 2], dilations=[1, 2, 1], name=f"{t}_3d_all")
    case("Conv", random(t, 2, 6, 11, 35), random(t, 9, 2, 3, 3), group=3, pads=[1, 1, 1, 1], name=f"{t}_group")
    case("Conv", random(t, 2, 6, 11, 35), random(t, 6, 1, 3, 3), random(t, 6), group=6, pads=[2, 2, 2, 2], dilations=[2, 2], name=f"{t}_depthwise")
    case("Conv", random(t, 2, 6, 11, 35), random(t, 12, 1, 5, 3), group=6, strides=[2, 2], pads=[2, 0, 1, 2], name=f"{t}_multiplier")
    case("Conv", random(t, 2, 3, 17, 35), random(t, 5, 3, 3, 3), strides=[2, 3], dilations=[3, 2], pads=[0, 3, 2, 1], name=f"{t}_dilated")
    case("Conv", random(t, 1, 24, 7, 9), random(t, 33, 24, 1, 1), name=f"{t}_1x1")
    case("ConvTranspose", random(t, 2, 3, 7, 19), random(t, 3, 5, 3, 3), name=f"{t}")
    case("ConvTranspose", random(t, 1, 3, 23), random(t, 3, 2, 3), strides=[2], dilations=[2], name=f"{t}_1d")
    case("ConvTranspose", random(t, 1, 2, 3, 4, 9), random(t, 2, 3, 2, 2, 2), strides=[2, 2, 2], name=f"{t}_3d")
case("ConvTranspose", random("float32", 2, 4, 5, 19), random("float32", 4, 3, 3, 4), random("float32", 6), group=2, strides=[2, 3],
     pads=[1, 0, 2, 1], output_padding=[1, 2], name="all")
case("Conv", random("float32", 0, 3, 9, 9), random("float32", 5, 3, 3, 3), name="no_images")
case("ConvInteger", random("uint8", 1, 3, 9, 21), random("uint8", 5, 3, 3, 3), np.array(2, "uint8"), pads=[1, 1, 1, 1])
for t in "float32", "float64", "uint8", "int8":
    case("MaxPool", random(t, 1, 3, 11, 37), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], name=t)
    case("MaxPool", random(t, 1, 3, 13, 37), kernel_shape=[3, 3], dilations=[2, 3], pads=[2, 2, 2, 2], name=f"{t}_dilated")
    case("MaxPool", random(t, 1, 2, 39), kernel_shape=[4], strides=[3], ceil_mode=1, name=f"{t}_1d")
case("MaxPool", random("float32", 1, 2, 5, 6, 19), kernel_shape=[2, 3, 3], pads=[0, 1, 1, 1, 1, 1], name="3d")
for counted in 0, 1:
    case("AveragePool", random("float32", 1, 3, 11, 37), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=counted, name=f"{counted}")
    case("AveragePool", random("float32", 1, 2, 39), kernel_shape=[5], strides=[2], pads=[2, 1], count_include_pad=counted, name=f"1d_{counted}")
case("AveragePool", random("float64", 1, 2, 5, 6, 19), kernel_shape=[2, 3, 3], name="3d")
case("GlobalAveragePool", random("float32", 2, 5, 7, 7))
case("LRN", random("float32", 1, 7, 5, 21), size=3)

# ---- movement ----------------------------------------------------------------------------------------------------------------

for t in ["bool", "int8", "float16", "int32", "int64", "float64"]:
    x = random(t, 5, 6, 39)
    case("Transpose", x, perm=[2, 0, 1], name=t)
    case("Concat", x, random(t, 5, 2, 39), axis=1, name=t)
    case("Concat", x, random(t, 5, 6, 3), axis=2, name=f"{t}_inner")
    case("Slice", x, constants={1: np.array([-1, 30]), 2: np.array([-99, 2]), 3: np.array([0, 2]), 4: np.array([-2, -3])}, name=t)
    case("Gather", x, rng.integers(-6, 6, (2, 7)), axis=1, name=t)
    case("Gather", x, rng.integers(-39, 39, 21).astype("int32"), axis=2, name=f"{t}_inner")
    case("Expand", random(t, 5, 1, 39), constants={1: np.array([2, 1, 6, 1])}, name=t)
    case("Tile", random(t, 3, 13), constants={1: np.array([2, 3])}, name=t)
    case("Reshape", x, constants={1: np.array([39, -1])}, name=t)
    case("Split", x, constants={1: np.array([3, 20, 16])}, outputs=3, axis=2, name=t)
    case("GatherElements", x, rng.integers(-39, 39, (5, 6, 21)), axis=2, name=t)
    case("ScatterElements", x, np.stack([rng.permutation(39)[:21] for _ in range(30)]).reshape(5, 6, 21), random(t, 5, 6, 21), axis=2, name=t)
for t in ["float32", "int64", "float64", "int32"]:
    case("ScatterElements", random(t, 5, 39), rng.integers(-39, 39, (5, 61)), random(t, 5, 61), axis=1, reduction="add", name=f"{t}_add")
    case("ScatterND", random(t, 7, 21), rng.integers(0, 7, (9, 1)), random(t, 9, 21), reduction="add", name=f"{t}_add")
    case("GatherND", random(t, 7, 5, 21), rng.integers(-5, 5, (4, 2)), name=t)
    for mode in "constant", "reflect", "edge":
        case("Pad", random(t, 5, 39), constants={1: np.array([1, 3, 2, 4])}, mode=mode, name=f"{t}_{mode}")
for t in "float32", "uint8":
    for mode, how, nearest in [("nearest", "asymmetric", "floor"), ("nearest", "half_pixel", "round_prefer_floor"),
                               ("linear", "half_pixel", ""), ("linear", "align_corners", "")]:
        if t == "float32" or mode == "nearest":
            more = {"nearest_mode": nearest} if nearest else {}
            case("Resize", random(t, 1, 2, 7, 19), constants={3: np.array([1, 2, 12, 41])}, mode=mode,
                 coordinate_transformation_mode=how, name=f"{t}_{mode}_{how}", **more)
case("Resize", random("float32", 1, 2, 7, 19), constants={2: np.array([1, 1, 2, 2], "float32")}, mode="nearest",
     coordinate_transformation_mode="asymmetric", nearest_mode="floor", name="twice")
case("DepthToSpace", random("float32", 1, 8, 3, 21), blocksize=2)
case("SpaceToDepth", random("float32", 1, 2, 6, 42), blocksize=2)
case("Trilu", random("float32", 3, 21, 21), upper=0)
case("OneHot", rng.integers(-21, 21, 9), constants={1: np.array(21), 2: np.array([2.0, 5.0], "float32")})
case("Range", constants={0: np.array(3), 1: np.array(80), 2: np.array(2)})
case("QuantizeLinear", (rng.standard_normal((3, 41)) * 300).astype("float32"), np.array(1.5, "float32"), np.array(7, "uint8"))
case("QuantizeLinear", (rng.standard_normal((3, 41)) * 300).astype("float32"), np.array(1.5, "float32"), np.array(-7, "int8"))
case("DequantizeLinear", random("int8", 3, 41), np.array(1.5, "float32"), np.array(-7, "int8"))


if not NIGHTLY:
    seen = {}
    for c in CASES:
        seen.setdefault(c.node.op_type, []).append(c)
    CASES = [c for of_one in seen.values() for c in of_one[::BY_DAY]]


# ---- what is right ---------------------------------------------------------------------------------------------------------------


def value_info(name, x):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def model(cases, results=None):
    graph = helper.make_graph([], "wide", [], [])
    for c in cases:
        graph.node.append(c.node)
        for i, name in enumerate(c.node.input):
            if i in c.constants:
                graph.initializer.append(numpy_helper.from_array(c.constants[i], name))
            elif name:
                graph.input.append(value_info(name, c.inputs[i]))
        for i, name in enumerate(c.node.output):
            graph.output.append(value_info(name, results[c.name][i]) if results else helper.make_empty_tensor_value_info(name))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def feeds(c):
    return {name: c.inputs[i] for i, name in enumerate(c.node.input) if name and i not in c.constants}


def correct(c):
    m = model([c])
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds(c))
    except Exception:                # no kernel for the type
        return ReferenceEvaluator(m).run(None, feeds(c))


# ---- compiled ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    return {c.name: correct(c) for c in CASES}


def run(folder, results, *options):
    onnx.save(model(CASES, results), folder / "model.onnx")
    given = []
    for c in CASES:
        for name, x in feeds(c).items():
            np.save(folder / f"{name}.npy", x)
            given += ["--input", f"{name}=@{folder / name}.npy"]
    for command in (["compile", folder / "model.onnx", "-o", folder / "model.so", *options],
                    ["run", folder / "model.so", *given, "--output-dir", folder / "out"]):
        done = subprocess.run([TENON, *map(str, command)], capture_output=True, text=True, timeout=900, env=DIRTY)
        assert done.returncode == 0, f"tenon {command[0]}: exit {done.returncode}\n{done.stderr}"
    return folder / "out"


@pytest.fixture(scope="module")
def best(tmp_path_factory, results):
    return run(tmp_path_factory.mktemp("best"), results)


@pytest.fixture(scope="module")
def plain(tmp_path_factory, results):
    return run(tmp_path_factory.mktemp("plain"), results, "--plain", "--fuse", "none")


def check(c, results, folder):
    for name, want in zip(c.node.output, results[c.name], strict=True):
        got = np.load(folder / f"{name}.npy")
        assert got.dtype == want.dtype and got.shape == want.shape
        if want.dtype.kind == "f":
            loose = 2e-3 if want.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=loose, atol=loose)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_best_schedule(c, results, best):
    check(c, results, best)


@pytest.mark.skipif(not NIGHTLY, reason="by night")
@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_plain_loops(c, results, plain):
    check(c, results, plain)
