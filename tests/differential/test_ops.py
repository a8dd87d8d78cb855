"""ONNX's own test cases for single operators, run by the interpreter and compiled.

Each case is a model of one node with inputs and expected outputs. A model that needs contents Tenon
must know while compiling (a shape, axes) is tried again with all inputs but the first as
initializers. What Tenon refuses as unsupported is skipped; a wrong result, another kind of error or
a crash fails. One test holds the number of cases that ran, so that refusing is no way to pass.

What the interpreter ran is then compiled, many cases to a model, since starting a C compiler costs
more than the work. By default that is a few cases of each operator; TENON_NIGHTLY=1 compiles all.
"""
import os
import pathlib
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import onnx.compose  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
TOOL = BUILD / "tests" / "tool_ref"
DIRTY = os.environ | {"MALLOC_PERTURB_": "171"}         # memory that nobody wrote holds no zeros
UNSUPPORTED = 4
OPSET = 24                           # newer opsets only add element types to the operators tested here
TYPES = {"float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"}
LEAST = 780                          # cases that must run
NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
EACH = 2                             # cases of an operator that are compiled by day
BATCH = 40                           # cases in one compiled model
passed = {}                          # name of a case: were its inputs but the first frozen?


def dense(x):
    return (isinstance(x, np.ndarray) or np.isscalar(x)) and np.asarray(x).dtype.name in TYPES


def wanted(case):
    inputs, outputs = case.data_sets[0]
    return "_expanded" not in case.name and "training" not in case.name and all(map(dense, [*inputs, *outputs]))


CASES = [case for case in collect_testcases(None) if wanted(case)]


def model_of(case, freeze):
    """The model, with inputs 1.. as initializers if asked; the arrays that are left to pass."""
    inputs = case.data_sets[0][0]
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
    return model, [x for _, x in passing]


def interpret(case, folder, freeze):
    model, arrays = model_of(case, freeze)
    onnx.save(model, folder / "model.onnx")
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


def interpret_somehow(case, folder):
    """As the case stands, or frozen: how it ended, and which it was."""
    done = interpret(case, folder, freeze=False)
    return (interpret(case, folder, freeze=True), True) if done.returncode == UNSUPPORTED else (done, False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case, tmp_path):
    done, frozen = interpret_somehow(case, tmp_path)
    if done.returncode == UNSUPPORTED:
        pytest.skip(done.stderr.strip().splitlines()[-1].split("error: ")[-1])
    assert done.returncode == 0, done.stderr
    for k, want in enumerate(case.data_sets[0][1]):
        compare(np.load(tmp_path / "out" / f"out{k}.npy"), np.asarray(want), case)
    passed[case.name] = frozen


def test_enough_cases_ran(request):
    if sum(item.name.startswith("test_case[") for item in request.session.items) < len(CASES):
        pytest.skip("only some cases were asked for")
    assert len(passed) >= LEAST


# ---- compiled ------------------------------------------------------------------------------------


def chosen():
    """All cases at night; by day the first and the last of each list of operators."""
    if NIGHTLY:
        return CASES
    groups = {}
    for case in CASES:
        groups.setdefault(tuple(node.op_type for node in case.model.graph.node), []).append(case)
    return [case for group in groups.values() for case in group[: EACH - 1] + group[EACH - 1:][-1:]]


def merge(models):
    """One model that computes them all; names of the k-th begin with ck_."""
    merged = onnx.ModelProto()
    merged.CopyFrom(models[0])
    merged.graph.Clear()
    merged.graph.name = "cases"
    for k, model in enumerate(models):
        merged.ir_version = max(merged.ir_version, model.ir_version)
        part = onnx.compose.add_prefix_graph(model.graph, f"c{k}_")
        merged.graph.node.extend(part.node)
        merged.graph.initializer.extend(part.initializer)
        merged.graph.input.extend(part.input)
        merged.graph.output.extend(part.output)
    return merged


def run_compiled(cases, folder):
    """Outputs of each case, or the message of what went wrong with all of them."""
    folder.mkdir()
    parts = [model_of(case, passed[case.name]) for case in cases]
    onnx.save(merge([model for model, _ in parts]), folder / "model.onnx")
    given = []
    for k, (model, arrays) in enumerate(parts):
        for info, x in zip(model.graph.input, arrays):
            path = folder / f"c{k}_{len(given)}.npy"
            np.save(path, x.copy(order="C"))
            given += ["--input", f"c{k}_{info.name}=@{path}"]
    for command in (["compile", folder / "model.onnx", "-o", folder / "model.so"],
                    ["run", folder / "model.so", *given, "--output-dir", folder / "out"]):
        done = subprocess.run([TENON, *map(str, command)], capture_output=True, text=True, timeout=900, env=DIRTY)
        if done.returncode:
            return f"tenon {command[0]}: exit {done.returncode}\n{done.stderr}"
    return {case.name: [np.load(folder / "out" / f"c{k}_out{i}.npy") for i in range(len(case.data_sets[0][1]))]
            for k, case in enumerate(cases)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, request):
    """Outputs by name of case. Where a model of many fails, each of its cases is tried alone."""
    asked = {item.callspec.params["case"].name for item in request.session.items if item.name.startswith("test_compiled[")}
    folder, results, groups = tmp_path_factory.mktemp("compiled"), {}, {}
    for case in chosen():
        if case.name in asked and case.name not in passed:
            alone = folder / case.name
            alone.mkdir()
            done, frozen = interpret_somehow(case, alone)
            if done.returncode == 0:
                passed[case.name] = frozen
        if case.name in asked and case.name in passed:
            opsets = tuple(sorted((o.domain, min(o.version, OPSET)) for o in case.model.opset_import))
            groups.setdefault(opsets, []).append(case)
    for group in groups.values():
        for i in range(0, len(group), BATCH):
            batch = group[i:i + BATCH]
            got = run_compiled(batch, folder / f"batch{len(results)}")
            if isinstance(got, str):
                got = {case.name: run_compiled([case], folder / f"{case.name}.compiled") for case in batch}
                got = {name: r if isinstance(r, str) else r[name] for name, r in got.items()}
            results.update(got)
    return results


@pytest.mark.parametrize("case", chosen(), ids=lambda case: case.name)
def test_compiled(case, compiled):
    if case.name not in passed:
        pytest.skip("the interpreter does not run it")
    got = compiled[case.name]
    assert not isinstance(got, str), got
    for x, want in zip(got, case.data_sets[0][1], strict=True):
        compare(x, np.asarray(want), case)
