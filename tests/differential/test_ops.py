"""ONNX's own test cases for single operators, imported and run by the interpreter.

Each case is a model of one node with inputs and expected outputs. A model that needs contents Tenon
must know while compiling (a shape, axes) is tried again with all inputs but the first as
initializers. What Tenon refuses as unsupported is skipped; a wrong result, another kind of error or
a crash fails. The last test holds the number of cases that ran, so that refusing is no way to pass.
"""
import os
import pathlib
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")) / "tests" / "tool_ref"
UNSUPPORTED = 4
OPSET = 24                           # newer opsets only add element types to the operators tested here
TYPES = {"float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"}
LEAST = 780                          # cases that must run
passed = set()


def dense(x):
    return (isinstance(x, np.ndarray) or np.isscalar(x)) and np.asarray(x).dtype.name in TYPES


def wanted(case):
    inputs, outputs = case.data_sets[0]
    return "_expanded" not in case.name and "training" not in case.name and all(map(dense, [*inputs, *outputs]))


CASES = [case for case in collect_testcases(None) if wanted(case)]


def write_model(case, inputs, path, freeze):
    """The model, with inputs 1.. as initializers if asked; the arrays that are left to pass."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for opset in model.opset_import:
        opset.version = min(opset.version, OPSET)
    passing = []
    for k, (info, x) in enumerate(zip(case.model.graph.input, inputs)):
        if freeze and k:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(x), info.name))
        else:
            passing.append((info, np.asarray(x)))
    del model.graph.input[:]
    model.graph.input.extend(info for info, _ in passing)
    for k, (info, name) in enumerate((o, o.name) for o in model.graph.output):
        info.name = f"out{k}"
        for node in model.graph.node:
            node.output[:] = [f"out{k}" if o == name else o for o in node.output]
    onnx.save(model, path)
    return [x for _, x in passing]


def run(case, folder, freeze):
    arrays = write_model(case, case.data_sets[0][0], folder / "model.onnx", freeze)
    paths = [folder / f"in{k}.npy" for k in range(len(arrays))]
    for path, x in zip(paths, arrays):
        np.save(path, x.copy(order="C"))
    return subprocess.run([TOOL, folder / "model.onnx", *paths, "--out", folder / "out"], capture_output=True, text=True, timeout=60)


def compare(got, want, case):
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind == "f":
        loose = 1e-3 if want.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=max(case.rtol, loose), atol=max(case.atol, loose / 10))
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case, tmp_path):
    done = run(case, tmp_path, freeze=False)
    if done.returncode == UNSUPPORTED:
        done = run(case, tmp_path, freeze=True)
    if done.returncode == UNSUPPORTED:
        pytest.skip(done.stderr.strip().splitlines()[-1].split("error: ")[-1])
    assert done.returncode == 0, done.stderr
    for k, want in enumerate(case.data_sets[0][1]):
        compare(np.load(tmp_path / "out" / f"out{k}.npy"), np.asarray(want), case)
    passed.add(case.name)


def test_enough_cases_ran(request):
    if sum(item.name.startswith("test_case[") for item in request.session.items) < len(CASES):
        pytest.skip("only some cases were asked for")
    assert len(passed) >= LEAST
