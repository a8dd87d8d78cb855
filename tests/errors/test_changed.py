"""ONNX's own models of its operators, each changed in one place: a type, a rank, a size, an input that is gone or another's, an attribute.

Most are refused then, with a message about the model; none breaks the compiler. A sample by day, with TENON_NIGHTLY all.
"""
import os
import pathlib
import random
import subprocess
import sys

import onnx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "conformance"))
from conformance import all_cases  # noqa: E402

TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
NIGHTLY = bool(os.environ.get("TENON_NIGHTLY"))
SAMPLE = 25                          # models of each kind of change, by day
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


CHANGES = [another_type, a_scalar, one_axis_more, sizes_not_known, nothing_in_it, input_left_out, inputs_of_each_other, attribute_left_out, another_number]


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
    for original in (models if NIGHTLY else rng.sample(models, SAMPLE)):
        m = onnx.ModelProto()
        m.CopyFrom(original)
        try:
            change(m, rng)
        except (IndexError, ValueError):     # it has nothing of this kind
            continue
        onnx.save(m, file)
        done = subprocess.run([TENON, "compile", file, "--stop-after=emit"], capture_output=True, text=True, timeout=120)
        said = f"{change.__name__} of {m.graph.name}: {done.returncode}\n{done.stderr}"
        assert 0 <= done.returncode <= 6, said
        assert (done.returncode == 0) == ("error: " not in done.stderr) and "report it" not in done.stderr, said
