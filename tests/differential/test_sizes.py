"""Sizes that do not fit together, and indices beyond, are refused before anything reads beside a tensor: ONNX's own models with every size
open, one of which is changed as they run, and integers as well. The interpreter checks each access, so it says where a condition is missing.
"""
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "conformance"))
from conformance import all_cases  # noqa: E402

TOOL = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")) / "tests" / "tool_ref"
CASES = 6000 if os.environ.get("TENON_NIGHTLY") else 400
BESIDE = re.compile(r"(read|written|write) \S.*: index -?\d+ on axis \d+ is outside")       # an access that no data decides


def opened(folder, name):
    """The model with a symbol for each size of each input but lists of integers, whose number says how many axes something has, and its
    inputs; None: it has inputs that are no tensors."""
    model = onnx.load(folder / name / "model.onnx")
    sets, _, _ = pickle.loads((folder / name / "data.pickle").read_bytes())
    given = {w.name for w in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in given]
    if not sets or any(not v.type.HasField("tensor_type") for v in inputs):
        return None
    for i, v in enumerate(inputs):
        dims = v.type.tensor_type.shape.dim
        for d, dim in enumerate(dims):
            if len(dims) > 1 or v.type.tensor_type.elem_type != onnx.TensorProto.INT64:
                dim.dim_param = f"i{i}d{d}"
    for v in model.graph.output:
        for dim in v.type.tensor_type.shape.dim if v.type.HasField("tensor_type") else []:
            dim.Clear()
    del model.graph.value_info[:]
    return model, [np.asarray(x) for x in sets[0][0]]


def interpreted(model, inputs, folder):
    onnx.save(model, folder / "m.onnx")
    for i, x in enumerate(inputs):
        np.save(folder / f"{i}.npy", x)
    return subprocess.run([TOOL, folder / "m.onnx", *[folder / f"{i}.npy" for i in range(len(inputs))], "--out", folder], capture_output=True, text=True, timeout=120)


def resized(x, d, n):
    """x with n elements along d: those that it has, over and over."""
    return np.take(x, np.arange(n) % max(x.shape[d], 1), axis=d) if x.shape[d] else np.zeros((*x.shape[:d], n, *x.shape[d + 1:]), x.dtype)


def other_integers(x, rng):
    """Some of few integers are others; the largest make no tensor that is too large to fill."""
    if x.dtype not in (np.int64, np.int32) or not 0 < x.size < 1000:
        return x
    return np.array([rng.choice([-100, -3, -2, -1, 0, 1, 2, 3, 4, 5, 9, 100]) if rng.random() < 0.5 else int(v) for v in x.ravel()], x.dtype).reshape(x.shape)


def test_one_size_is_another(tmp_path):
    rng = random.Random("sizes")
    folder, index = all_cases()
    names = [name for name, kind, _ in index if kind == "node" and (folder / name / "model.onnx").stat().st_size < 100_000]
    refused = 0
    for _ in range(CASES):
        name = rng.choice(names)
        case = opened(folder, name)
        axes = [(i, d) for i, x in enumerate(case[1]) for d in range(x.ndim) if x.ndim > 1 or x.dtype != np.int64] if case else []
        if not axes:
            continue
        model, inputs = case
        i, d = rng.choice(axes)
        was = inputs[i].shape[d]
        inputs[i] = resized(inputs[i], d, max(rng.choice([was + 1, was - 1, 2 * was, 0, 1, 3]), 0))
        if rng.random() < 0.5:
            inputs = [other_integers(x, rng) for x in inputs]
        done = interpreted(model, inputs, tmp_path)
        assert done.returncode >= 0 and not BESIDE.search(done.stderr), f"{name}: i{i}d{d}={inputs[i].shape[d]} for {was}\n{done.stderr}"
        refused += done.returncode > 0
    assert refused > CASES / 10              # sizes are checked at all


@pytest.mark.parametrize("name, i, d, size, said", [
    ("test_gather_elements_1", 1, 1, 5, "axis 1 of the indices and of the data: i1d1 <= i0d1; here they are 3 and 5"),
    ("test_attention_4d_gqa", 0, 1, 7, "the heads of q and a multiple of those of k"),
    ("test_dequantizelinear_axis", 2, 0, 2, "axis 0 of the zero point and of the scale"),
    ("test_convinteger_with_padding", 1, 0, 3, "the zero points of input 1 and its filters"),
    ("test_scatter_elements_with_axis", 0, 0, 0, "axis 0 of the indices and of the data"),
    ("test_onehot_without_axis", 2, 0, 1, "the values off and on"),
    ("test_ReflectionPad2d", 0, 2, 1, "what is reflected"),
    ("test_ReplicationPad2d", 0, 2, 0, "an element to fill axis 2 with"),
])
def test_known(name, i, d, size, said, tmp_path):
    folder, _ = all_cases()
    model, inputs = opened(folder, name)
    assert interpreted(model, inputs, tmp_path).returncode == 0
    inputs[i] = resized(inputs[i], d, size)
    done = interpreted(model, inputs, tmp_path)
    assert done.returncode > 0 and said in done.stderr, done.stderr


def test_lengths_beyond_the_sequence(tmp_path):
    folder, _ = all_cases()
    model, (x, lengths) = opened(folder, "test_reversesequence_batch")
    done = interpreted(model, [x, lengths + 100], tmp_path)
    assert done.returncode > 0 and "computed from data, is outside" in done.stderr, done.stderr
