"""Zeros of both signs, infinities, NaN and the ends of the range through every elementwise operator and through expressions that Tenon
rewrites and fuses: to the last bit what NumPy says, and the interpreter."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from session import Session
from targets import TARGETS, runs_here

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
SEEDS = 24 if NIGHTLY else 2
ONNX_TYPES = {"f2": TensorProto.FLOAT16, "f4": TensorProto.FLOAT, "f8": TensorProto.DOUBLE}
BITS = {2: np.int16, 4: np.int32, 8: np.int64}
TWO = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
ONE = {"Neg": np.negative, "Abs": np.abs, "Reciprocal": lambda x: x.dtype.type(1) / x, "Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil, "Sign": np.sign,
       "Identity": lambda x: x}
COMPARED = {"Equal": np.equal, "Less": np.less, "GreaterOrEqual": np.greater_equal}


def special(dtype, ends=True):
    info = np.finfo(dtype)
    return np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -2, 0.5, 4, *([info.max, -info.max, info.tiny, -info.tiny] if ends else [])], dtype)


class Model:
    """Nodes, and what NumPy says that they give."""

    def __init__(self, dtype, inputs):
        self.dtype, self.inputs, self.nodes, self.constants, self.want = np.dtype(dtype), inputs, [], [], {}
        self.values = dict(inputs)

    def constant(self, x):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(x, self.dtype), name))
        self.values[name] = np.asarray(x, self.dtype)
        return name

    def node(self, op, *names):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [name]))
        f = (ONE | TWO | COMPARED | {"Where": np.where})[op]
        with np.errstate(all="ignore"):
            self.values[name] = np.asarray(f(*(self.values[n] for n in names)))
        return name

    def output(self, name):
        self.want[name] = self.values[name]

    def save(self, path):
        kind = ONNX_TYPES[self.dtype.str[1:]]
        outputs = [helper.make_tensor_value_info(n, kind, x.shape) for n, x in self.want.items()]
        inputs = [helper.make_tensor_value_info(n, kind, x.shape) for n, x in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "special", inputs, outputs, self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)

    def origin(self, name):
        node = next((n for n in self.nodes if n.output[0] == name), None)
        return f"{node.op_type}({', '.join(map(self.origin, node.input))})" if node else str(self.values[name]) if name[0] == "c" else name


def bits(x):
    return np.where(np.isnan(x), np.full((), np.nan, x.dtype), x).view(BITS[x.dtype.itemsize])


def interpreted(folder, model):
    paths = []
    for name, x in model.inputs.items():
        paths.append(folder / f"{name}.npy")
        np.save(paths[-1], x)
    subprocess.run([BUILD / "tests" / "tool_ref", folder / "m.onnx", *paths, "--out", folder], check=True, capture_output=True)
    return {name: np.load(folder / f"{name}.npy") for name in model.want}


def compare(model, got, rounded):
    """rounded: a node's result may be rounded otherwise than NumPy's where it is no special value."""
    wrong = []
    for name, want in model.want.items():
        have = got[name]
        assert have.shape == want.shape and have.dtype == want.dtype
        differs = bits(have) != bits(want)
        if rounded:
            with np.errstate(all="ignore"):
                differs &= ~(np.isfinite(want) & (want != 0) & (np.abs(have - want) <= 4 * np.finfo(want.dtype).eps * np.abs(want)))
        if differs.any():
            at = tuple(np.argwhere(differs)[0])
            read = {k: x[at] if x.shape == want.shape else x for k, x in model.inputs.items()}
            wrong.append(f"{model.origin(name)} is {have[at]}, not {want[at]}, of {read}")
    assert not wrong, "\n".join(wrong[:8])


def check(folder, model, target, *words, rounded=False):
    model.save(folder / "m.onnx")
    done = subprocess.run([TENON, "compile", folder / "m.onnx", "-o", folder / "m.so", "--target", target, *words,
                           "--cache-dir", BUILD / "conformance" / "cache"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compare(model, interpreted(folder, model), rounded)
    if runs_here(target):
        compare(model, Session(folder / "m.so").run(model.inputs), rounded)


@pytest.mark.parametrize("cc", ["gcc", "clang"] if NIGHTLY else ["gcc"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_pair_of_values(tmp_path, target, dtype, cc):
    """Both operands known as it runs, one of them a constant, one of them a number."""
    numbers = special(dtype)
    x, y = (a.ravel() for a in np.meshgrid(numbers, numbers))
    model = Model(dtype, {"x": x, "y": y, "one": numbers[1:2]})
    for op in ONE:
        model.output(model.node(op, "x"))
    for op in TWO:
        model.output(model.node(op, "x", "y"))
        model.output(model.node(op, "x", "one"))
        for number in numbers:
            c = model.constant(number)
            model.output(model.node(op, "x", c))
            model.output(model.node(op, c, "x"))
    check(tmp_path, model, target, "--keep-denormals", "--cc", cc)


def expression(model, rng, numbers, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.1:
        return model.constant(rng.choice(numbers)) if rng.random() < 0.3 else str(rng.choice(list(model.inputs)))
    parts = [expression(model, rng, numbers, depth - 1) for _ in range(4)]
    if kind < 0.3:
        return model.node(rng.choice(list(ONE)), parts[0])
    if kind < 0.9:
        return model.node(rng.choice(list(TWO)), *parts[:2])
    return model.node("Where", model.node(rng.choice(list(COMPARED)), *parts[:2]), *parts[2:])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_expressions(tmp_path, target, seed):
    """Of numbers small enough that nothing overflows: else one step that multiplies and adds gives another number than two."""
    rng = np.random.default_rng(seed)
    dtype = ["f4", "f8"][seed % 2]
    numbers = special(dtype, ends=False)
    model = Model(dtype, {name: rng.choice(numbers, 61) for name in "pqrx"} | {"s": rng.choice(numbers, 1)})
    while len(model.want) < 40:
        name = expression(model, rng, numbers, int(rng.integers(1, 4)))
        if name[0] == "t":
            model.output(name)
    check(tmp_path, model, target, rounded=True)
