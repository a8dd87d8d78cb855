"""Attention of open lengths under masks as exporters write them: compiled code against float64, for several targets; which schedules leave out
what a mask hides; and that no mask is stored."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from session import Session
from targets import TARGETS, native, runs_here

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
HEADS, DEPTH = 2, 16
LENGTHS = [1, 2, 7, 63, 64, 65, 130, 1000]
LOWEST = float(np.finfo(np.float32).min)
HERE = list(dict.fromkeys([*(t for t in TARGETS[:2] if runs_here(t)), native()]))


class Model:
    """Nodes and constants of a graph over q [1, heads, m, depth], k and v [1, heads, n, depth]."""

    def __init__(self, m, n):
        self.nodes, self.constants = [], []
        self.inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, HEADS, length, DEPTH]) for name, length in (("q", m), ("k", n), ("v", n))]

    def node(self, op, *inputs, **attributes):
        out = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def number(self, x, kind=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(x, kind), name))
        return name

    def length(self, of):
        return self.node("Gather", self.node("Shape", of), self.number(2, np.int64), axis=0)

    def indices(self, of, kind=None, offset=None):
        made = self.node("Range", self.number(0, np.int64), self.length(of), self.number(1, np.int64))
        if offset is not None:
            made = self.node("Add", made, offset)
        return self.node("Cast", made, to=kind) if kind else made

    def rows_and_columns(self, kind=None, offset=None):
        """i [m, 1] and j [1, n]."""
        return (self.node("Unsqueeze", self.indices("q", kind, offset), self.number([1], np.int64)),
                self.node("Unsqueeze", self.indices("k", kind), self.number([0], np.int64)))

    def full(self, x):
        one = self.number([1], np.int64)
        shape = self.node("Concat", *(self.node("Reshape", self.length(of), one) for of in "qk"), axis=0)
        return self.node("ConstantOfShape", shape, value=helper.make_tensor("value", helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), [1], [x]))

    def scores(self):
        return self.node("Mul", self.node("MatMul", "q", self.node("Transpose", "k", perm=[0, 1, 3, 2])), self.number(0.25))

    def chosen(self, condition, hidden):
        return self.node("Where", condition, self.scores(), self.number(hidden))

    def added(self, mask):
        return self.node("Add", self.scores(), mask)

    def write(self, path, scores, opset=21):
        out = self.node("MatMul", self.node("Softmax", scores, axis=-1), "v") if scores else self.nodes[-1].output[0]
        graph = helper.make_graph(self.nodes, "attention", self.inputs, [helper.make_empty_tensor_value_info(out)], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)


# ---- masks: the scores of a model ------------------------------------------------------------------------------------------------


def of_ranges(m, hidden, kind=None):
    i, j = m.rows_and_columns(kind)
    return m.chosen(m.node("LessOrEqual", j, i), hidden)


def of_int32(m, hidden):
    return of_ranges(m, hidden, TensorProto.INT32)


def added(m, hidden):
    i, j = m.rows_and_columns()
    return m.added(m.node("Where", m.node("LessOrEqual", j, i), m.number(0), m.number(hidden)))


def expanded(m, hidden):
    i, j = m.rows_and_columns()
    mask = m.node("Where", m.node("LessOrEqual", j, i), m.number(0), m.number(hidden))
    return m.added(m.node("Expand", m.node("Unsqueeze", mask, m.number([0, 1], np.int64)), m.number([1, HEADS, 1, 1], np.int64)))


def greater(m, hidden):
    """Hidden where the condition holds: masked_fill."""
    i, j = m.rows_and_columns()
    return m.node("Where", m.node("Greater", j, i), m.number(hidden), m.scores())


def inverted(m, hidden):
    i, j = m.rows_and_columns()
    return m.node("Where", m.node("Not", m.node("LessOrEqual", j, i)), m.number(hidden), m.scores())


def trilu_upper(m, hidden):
    return m.added(m.node("Trilu", m.full(np.float32(hidden)), m.number(1, np.int64), upper=1))


def trilu_condition(m, hidden):
    return m.chosen(m.node("Cast", m.node("Trilu", m.full(np.float32(1)), upper=0), to=TensorProto.BOOL), hidden)


def multiplied(m, hidden):
    """(1 - mask) * lowest."""
    i, j = m.rows_and_columns()
    mask = m.node("Cast", m.node("LessOrEqual", j, i), to=TensorProto.FLOAT)
    return m.added(m.node("Mul", m.node("Sub", m.number(1), mask), m.number(hidden)))


def window(m, hidden):
    i, j = m.rows_and_columns()
    return m.chosen(m.node("And", m.node("LessOrEqual", j, i), m.node("Greater", j, m.node("Sub", i, m.number(9, np.int64)))), hidden)


def prefix(m, hidden):
    _, j = m.rows_and_columns()
    return m.chosen(m.node("Less", j, m.number(5, np.int64)), hidden)


def of_the_end(m, hidden):
    """The rows are the last of the columns, as behind a cache: if there were more rows, some would see nothing, so nothing is left out."""
    i, j = m.rows_and_columns(offset=m.node("Sub", m.length("k"), m.length("q")))
    return m.chosen(m.node("LessOrEqual", j, i), hidden)


def attention(m, hidden):
    m.node("Attention", "q", "k", "v", is_causal=1, scale=0.25)


def causal(i, j, m, n):
    return j <= i


SEES = {window: lambda i, j, m, n: (j <= i) & (j > i - 9), prefix: lambda i, j, m, n: j < 5, of_the_end: lambda i, j, m, n: j <= i + n - m}
BUILDS = [of_ranges, of_int32, added, expanded, greater, inverted, trilu_upper, trilu_condition, multiplied, window, prefix, of_the_end, attention]
MASKS = {f"{build.__name__}, {hidden:.3g}": (build, hidden) for build in BUILDS for hidden in (-np.inf, LOWEST)
         if not (build is multiplied and np.isinf(hidden)) and not (build is attention and not np.isinf(hidden))}

# A product with the lowest number is not followed.

# ---- what is computed, and how ---------------------------------------------------------------------------------------------------


def tenon(*words):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def check(session, sees, m, n):
    r = np.random.default_rng(3)
    given = {x: r.standard_normal((1, HEADS, length, DEPTH), np.float32) for x, length in (("q", m), ("k", n), ("v", n))}
    q, k, v = (given[x].astype(np.float64) for x in "qkv")
    i, j = np.mgrid[:m, :n]
    s = np.where(sees(i, j, m, n), q @ k.swapaxes(-1, -2) * 0.25, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    (got,) = session.run(given).values()
    np.testing.assert_allclose(got, e @ v / e.sum(-1, keepdims=True), rtol=2e-5, atol=2e-5, err_msg=f"{m} rows, {n} columns")


def stores_mask(text, m, n):
    """Values in memory of m rows and n columns: scores are none, as they lie inside of a kernel."""
    types = re.findall(r"^  %[^ ]+: ([a-z0-9]+\[[^\]]*\])", text, re.M)
    return [t for t in types if re.fullmatch(rf"[a-z0-9]+\[((1|{HEADS}), )*{m}, {n}\]", t)]


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("name", MASKS)
def test_open_lengths(name, target, tmp_path):
    build, hidden = MASKS[name]
    sees, square = SEES.get(build, causal), build is window
    model = Model("m", "m" if square else "n")
    model.write(tmp_path / "m.onnx", build(model, hidden), 23 if build is attention else 21)
    tenon("compile", tmp_path / "m.onnx", "--target", target, "-o", tmp_path / "m.so")
    session = Session(tmp_path / "m.so")
    for n in LENGTHS:
        check(session, sees, n, n)
    for m, n in () if square else ((1, 64), (7, 65), (64, 130), (63, 1000), (130, 131)):
        check(session, sees, m, n)
    for m, n in () if square or build is of_the_end else ((65, 1), (130, 64), (1000, 7)):
        check(session, sees, m, n)
    session.close()


@pytest.mark.parametrize("name", MASKS)
def test_what_is_left_out_and_stored(name, tmp_path):
    build, hidden = MASKS[name]
    model = Model("m", "m")
    model.write(tmp_path / "m.onnx", build(model, hidden), 23 if build is attention else 21)
    text = tenon("compile", tmp_path / "m.onnx", "--target", "x86-64-v3", "--dump=choose", "--stop-after=choose")
    assert "    skip " in text
    assert not stores_mask(text, "m", "m")


def test_rows_that_may_see_nothing_keep_all(tmp_path):
    model = Model("m", "n")
    model.write(tmp_path / "m.onnx", of_the_end(model, -np.inf))
    text = tenon("compile", tmp_path / "m.onnx", "--target", "x86-64-v3", "--dump=choose", "--stop-after=choose")
    assert not re.search(r"^    skip o", text, re.M) and "    skip matmul" not in text


@pytest.mark.parametrize("kind", [TensorProto.INT8, TensorProto.UINT8])
@pytest.mark.parametrize("n", ["n", 130, 300])
def test_indices_that_wrap(n, kind, tmp_path):
    """Positions in bytes: from 128 or 256 on they begin again below."""
    model = Model(n, n)
    model.write(tmp_path / "m.onnx", of_ranges(model, -np.inf, kind))
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    session = Session(tmp_path / "m.so")
    narrow = np.int8 if kind == TensorProto.INT8 else np.uint8
    for length in [n] if n != "n" else [7, 130, 300]:
        check(session, lambda i, j, *_: j.astype(narrow) <= i.astype(narrow), length, length)
    session.close()


@pytest.mark.parametrize("x", [2 ** 53 + 1, 2 ** 63 - 1, -2 ** 63])
def test_constants_beyond_doubles(x, tmp_path):
    graph = helper.make_graph([helper.make_node("Add", ["x", "c"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.INT64, [16])],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, [16])], [numpy_helper.from_array(np.full(16, x, np.int64), "c")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    session = Session(tmp_path / "m.so")
    (got,) = session.run({"x": np.zeros(16, np.int64)}).values()
    np.testing.assert_array_equal(got, np.full(16, x, np.int64))
    session.close()
