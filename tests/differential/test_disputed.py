"""doc/manual/docs/disputed.md: what Tenon does where engines differ, a case for each row of its table."""
import pathlib
import re

import numpy as np
import pytest

from test_extremes import model_of, run

PAGE = pathlib.Path(__file__).resolve().parents[2] / "doc" / "manual" / "docs" / "disputed.md"
NAN, INF = np.nan, np.inf
CASES = {}


def f(*v, t="f4"):
    return np.array(v, t)


def case(row, op, inputs, wanted, attributes=None, constants=(), shapes=None):
    """One node: its inputs, those numbered in `constants` being constants, and what is wanted of its outputs; text: what it is refused for."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    feeds = {n: np.asarray(v) for i, (n, v) in enumerate(zip(names, inputs)) if v is not None and i not in constants}
    fixed = {n: np.asarray(v) for i, (n, v) in enumerate(zip(names, inputs)) if v is not None and i in constants}
    outputs = [f"y{i}" for i in range(1 if isinstance(wanted, str) else len(wanted))]
    CASES.setdefault(row, []).append((op, model_of([(op, names, outputs, attributes or {})], feeds, shapes or {}, fixed), feeds, wanted))


rows = f([NAN, 1, 2], [1, NAN, 2], [-INF, NAN, NAN], [1, 1, 0])
case("`ArgMax` of NaN", "ArgMax", [rows], [[0, 1, 1, 0]], dict(axis=1, keepdims=0))
case("`ArgMax` of NaN", "ArgMin", [rows], [[0, 1, 2, 2]], dict(axis=1, keepdims=0, select_last_index=1))
case("`ArgMax` of NaN", "Hardmax", [rows], [np.eye(3)[[0, 1, 1, 0]]], dict(axis=1))
for op in ("Max", "Min"):
    case("`Max` of NaN", op, [f(1, NAN, NAN), f(NAN, 1, NAN)], [[NAN] * 3])
for op in ("ReduceMax", "ReduceMin"):
    case("`Max` of NaN", op, [rows[:3], np.array([1])], [[NAN] * 3], dict(keepdims=0), (1,))
case("`Max` of NaN", "Clip", [f(NAN, 3), np.float32(0), np.float32(1)], [[NAN, 1]])
case("`Max` of NaN", "MaxPool", [rows[:3, None]], [[[[NAN]]] * 3], dict(kernel_shape=[3]))
case("`Max` of NaN", "GlobalMaxPool", [rows[:3, None]], [[[[NAN]]] * 3])
case("order of NaN", "TopK", [f(1, NAN, 2, NAN, 2), np.array([4])], [[NAN, NAN, 2, 2], [1, 3, 2, 4]])
case("order of NaN", "TopK", [f(1, NAN, 1, 2), np.array([4])], [[1, 1, 2, NAN], [0, 2, 3, 1]], dict(largest=0))
boxes = f([[0, 0, 1, 1], [0, 0, 1, 1.1], [5, 5, 6, 6]])
case("ties of detectors", "NonMaxSuppression", [boxes, f([[.5, .5, .5]]), np.array([9]), np.float32(.5)], [[[0, 0, 0], [0, 0, 2]]])
for constants in ((), (0, 1, 2)):
    case("length of `Range`", "Range", [np.float32(v) for v in (0, .3, .1)], [f(0, .1, .2, .3)], constants=constants)
    case("length of `Range`", "Range", [np.int64(v) for v in (-2**63, 2**63 - 1, 2**63 - 1)], [[-2**63, -1, 2**63 - 2]], constants=constants)
    case("elements of `Range`", "Range", [np.float32(v) for v in (5, 3, -.7)], [5 + f(0, 1, 2) * np.float32(-.7)], constants=constants)
for to, t in ((3, "i1"), (2, "u1"), (6, "i4"), (7, "i8"), (13, "u8")):
    low, high = np.iinfo(t).min, np.iinfo(t).max
    case("casts out of range", "Cast", [f(1e30, -1e30, INF, -INF, NAN, 3.9, -.9)], [np.array([high, low, high, low, 0, 3, 0], t)], dict(to=to))
case("casts of integers", "Cast", [np.array([300, -1, 128])], [np.array([44, -1, -128], "i1")], dict(to=3))
case("NaN quantised", "QuantizeLinear", [f(NAN, INF, -INF, 1), np.float32(1), np.uint8(3)], [np.array([0, 255, 0, 4], "u1")])
case("scale of zeros", "DynamicQuantizeLinear", [f(0, -0., 0)], [[0, 0, 0], np.float32(1 / 255), 0])
case("scale of zeros", "DynamicQuantizeLinear", [f()], [[], np.float32(1 / 255), 0], shapes={"x0": ["n"]})
case("products of u8 and i8", "MatMulInteger", [np.full((2, 64), 255, "u1"), np.full((64, 16), 127, "i1")], [np.full((2, 16), 64 * 255 * 127)])
for t, low in (("i4", -2**31), ("i8", -2**63)):
    case("integers divided by 0", "Div", [np.array([5, -5, 0, low], t), np.array([0, 0, 0, -1], t)], [[0, 0, 0, low]])
    for fmod in (0, 1):
        case("integers divided by 0", "Mod", [np.array([5, -5, 0, low], t), np.array([0, 0, 0, -1], t)], [[0, 0, 0, 0]], dict(fmod=fmod))
case("sums of integers", "ReduceSum", [np.array([2**31 - 1, 1], "i4")], [[-2**31]])
case("integers to a negative power", "Pow", [np.array([2, -2, 1, -1], "i4"), np.array([-1, -1, -3, -3], "i4")], [[0, 0, 1, -1]])
for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    weights = [np.full((1, 4 * gates, n), .1, "f4") for n in (3, 4)]
    case("sequences of length 0", op, [np.ones((2, 1, 3), "f4"), *weights, None, np.array([0], "i4"), np.full((1, 1, 4), 7, "f4")],
         [np.zeros((2, 1, 1, 4)), np.full((1, 1, 4), 7)], dict(hidden_size=4), (1, 2))
none, open_sizes = np.zeros((2, 0), "f4"), {"x0": ["m", "n"]}
for op, v in (("ReduceMax", -INF), ("ReduceMin", INF), ("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMean", NAN)):
    case("reductions of nothing", op, [none, np.array([1])], [[v, v]], dict(keepdims=0), (1,), open_sizes)
for op, v in (("ReduceMax", -2**31), ("ReduceMin", 2**31 - 1), ("ReduceMean", 0)):
    case("reductions of nothing", op, [none.astype("i4"), np.array([1])], [[v, v]], dict(keepdims=0), (1,), open_sizes)
for op in ("ArgMax", "ArgMin"):
    case("the best of nothing", op, [none], "an element to find along axis 1", dict(axis=1), shapes=open_sizes)
for op in ("Max", "Min"):
    case("signs of zero", op, [f(0, -0., 0), f(-0., 0, 0)], [[0, 0, 0]])
case("denormal numbers", "Mul", [f(1e-40, 1e-38), f(1, .01)], [[0, 0]])


def test_each_row_has_a_case():
    assert re.findall(r"^\| (.*?) \|", PAGE.read_text(), re.M)[1:] == list(CASES)


@pytest.mark.parametrize("row", CASES)
def test_row(worker, tmp_path, row):
    for op, model, feeds, wanted in CASES[row]:
        status, got = run(worker, tmp_path, model, feeds)
        assert (status != "0" and wanted in got) if isinstance(wanted, str) else status == "0", (op, got)
        for x, want in zip(got.values(), wanted) if status == "0" else ():
            np.testing.assert_array_equal(x, want, op)
