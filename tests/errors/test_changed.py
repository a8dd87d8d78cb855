"""ONNX's own models of its operators, each changed in one place or in some: a type, a rank, a size, an input that is gone, another's or a
constant of odd numbers, an attribute, a version, what a body has.

Most are refused then, with a message about the model; none breaks the compiler. A sample by day, with TENON_NIGHTLY all.
"""
import math
import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import onnx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "conformance"))
from conformance import all_cases  # noqa: E402

TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
NIGHTLY = bool(os.environ.get("TENON_NIGHTLY"))
SAMPLE = 8                           # models of each kind of change, by day
LARGEST = 6000                       # bytes of a model that is changed
T = onnx.TensorProto
TYPES = [T.BOOL, T.INT32, T.INT64, T.FLOAT16, T.FLOAT, T.DOUBLE, T.UINT8, T.STRING]


def tensors(m):
    return [v.type.tensor_type for v in m.graph.input if v.type.HasField("tensor_type")]


def inputs(m):
    return [(n, i) for n in m.graph.node[:3] for i in range(len(n.input))]


def attributes(m, *kinds):
    return [(n, a) for n in m.graph.node[:3] for a in n.attribute if not kinds or a.type in kinds]


def another_type(m, rng):
    t = rng.choice(tensors(m))
    t.elem_type = rng.choice([x for x in TYPES if x != t.elem_type])


def a_scalar(m, rng):
    t = rng.choice(tensors(m))
    t.shape.CopyFrom(onnx.TensorShapeProto())


def one_axis_more(m, rng):
    rng.choice(tensors(m)).shape.dim.add().dim_value = 2


def sizes_not_known(m, rng):
    for d in rng.choice(tensors(m)).shape.dim:
        d.dim_param = "n"


def nothing_in_it(m, rng):
    for d in rng.choice(tensors(m)).shape.dim:
        d.dim_value = 0


def input_left_out(m, rng):
    n, i = rng.choice(inputs(m))
    n.input[i] = ""


def inputs_of_each_other(m, rng):
    n, _ = rng.choice(inputs(m))
    names = rng.sample(list(n.input), len(n.input))
    n.input[:] = names


def attribute_left_out(m, rng):
    n, a = rng.choice(attributes(m))
    n.attribute.remove(a)


def another_number(m, rng):
    _, a = rng.choice(attributes(m, onnx.AttributeProto.INT, onnx.AttributeProto.INTS))
    value = rng.choice([-1, 0, 1, 7, 1 << 40])
    if a.type == onnx.AttributeProto.INT:
        a.i = value
    elif a.ints and rng.random() < 0.7:
        a.ints[rng.randrange(len(a.ints))] = value
    else:
        a.ints.append(value)


def another_size(m, rng):
    dim = rng.choice(rng.choice(tensors(m)).shape.dim)
    if rng.random() < 0.5:
        dim.dim_value = rng.choice([0, 1, 2, 3, 5, 16, 17, 1 << 20, 1 << 33])
    else:
        dim.dim_param = rng.choice("nmk")


def odd_element(dtype, rng):
    if dtype.kind == "b":
        return rng.random() < 0.5
    if dtype.kind == "f":
        return rng.choice([0, 1, -1, 0.5, 2, 3, 1e4, math.nan, math.inf, -math.inf])
    few = rng.choice([0, 1, 2, 3])
    most = np.iinfo(dtype)
    return few if rng.random() < 0.5 else min(max(rng.choice([-1, -7, 7, 1 << 31, 1 << 40, -(1 << 63), (1 << 63) - 1]), int(most.min)), int(most.max))


def odd_constant(m, rng):
    """In place of an input of few elements."""
    v = rng.choice([v for v in m.graph.input if v.type.HasField("tensor_type") and v.type.tensor_type.elem_type != T.STRING])
    dims = [d.dim_value for d in v.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type)
    if math.prod(dims) > 4096 or dtype.kind not in "biuf":
        raise ValueError(dims)
    elements = np.array([odd_element(dtype, rng) for _ in range(math.prod(dims))], dtype).reshape(dims)
    m.graph.initializer.append(onnx.numpy_helper.from_array(elements, v.name))
    m.graph.input.remove(v)


def another_float(m, rng):
    _, a = rng.choice(attributes(m, onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS))
    value = rng.choice([0, -1, 0.5, 1e-40, 1e30, math.nan, math.inf])
    if a.type == onnx.AttributeProto.FLOAT:
        a.f = value
    else:
        a.floats[rng.randrange(len(a.floats))] = value


def another_word(m, rng):
    _, a = rng.choice(attributes(m, onnx.AttributeProto.STRING))
    a.s = rng.choice([b"", b"x", b"SAME_UPPER", b"VALID", b"linear", b"reflect", b"wrap", b"mean", b"none", b"tf_crop_and_resize"])


def attributes_of_each_other(m, rng):
    n, a = rng.choice(attributes(m))
    name = a.name
    a.CopyFrom(rng.choice(n.attribute))
    a.name = name


def another_version(m, rng):
    rng.choice(m.opset_import).version = rng.randrange(7, 29)


def another_body(m, rng):
    body = rng.choice([a.g for n in m.graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH])
    n = rng.choice(body.node)
    change = rng.randrange(4)
    if change == 0:
        n.input[rng.randrange(len(n.input))] = rng.choice([*n.input, ""])
    elif change == 1:
        body.node.remove(n)
    elif change == 2:
        some = rng.choice([body.output, body.input])
        some.remove(rng.choice(some))
    else:
        rng.choice(body.input).type.tensor_type.elem_type = rng.choice(TYPES)


ONE = [another_type, a_scalar, one_axis_more, sizes_not_known, nothing_in_it, another_size, input_left_out, inputs_of_each_other, odd_constant,
       attribute_left_out, another_number, another_float, another_word, attributes_of_each_other, another_version, another_body]


def several(m, rng):
    for change in rng.choices(ONE, k=rng.randrange(2, 5)):
        try:
            change(m, rng)
        except (IndexError, ValueError):
            pass


CHANGES = [*ONE, several]


@pytest.fixture(scope="module")
def models():
    """Three models of each list of operators."""
    folder, index = all_cases()
    of = {}
    for name, kind, ops in index:
        file = folder / name / "model.onnx"
        if kind == "node" and file.stat().st_size <= LARGEST:
            of.setdefault(tuple(sorted(ops)), []).append(file)
    return [onnx.load(file) for _, files in sorted(of.items()) for file in files[:3]]


@pytest.mark.parametrize("change", CHANGES, ids=[c.__name__ for c in CHANGES])
def test_changed(change, models, tmp_path):
    rng = random.Random(change.__name__)
    file = tmp_path / "m.onnx"
    tried = 0
    for original in rng.sample(models, len(models)):
        m = onnx.ModelProto()
        m.CopyFrom(original)
        try:
            change(m, rng)
        except (IndexError, ValueError):     # it has nothing of this kind
            continue
        tried += 1
        onnx.save(m, file)
        done = subprocess.run([TENON, "compile", file, "--stop-after=emit"], capture_output=True, text=True, timeout=120)
        said = f"{change.__name__} of {m.graph.name}: {done.returncode}\n{done.stderr}"
        assert 0 <= done.returncode <= 6, said
        assert (done.returncode == 0) == ("error: " not in done.stderr) and "report it" not in done.stderr, said
        if tried == SAMPLE and not NIGHTLY:
            break
    assert tried
