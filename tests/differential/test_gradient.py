"""Gradient of the training domain against differences of the function itself, in f64."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
D = TensorProto.DOUBLE
DOMAIN = "ai.onnx.preview.training"
NODES = [("MatMul", ["x", "w"], "h", {}), ("Add", ["h", "b"], "a", {}), ("Sigmoid", ["a"], "s", {}), ("Tanh", ["h"], "t", {}), ("Mul", ["s", "t"], "m", {}),
         ("Transpose", ["m"], "mt", {"perm": [-1, 0]}), ("Reshape", ["mt", "flat"], "f", {}), ("Relu", ["f"], "r", {}), ("Exp", ["f"], "e", {}),
         ("Sub", ["e", "r"], "d", {}), ("Sqrt", ["e"], "q", {}), ("Div", ["d", "q"], "v", {}), ("Sin", ["v"], "sv", {}), ("Neg", ["sv"], "n", {}),
         ("ReduceMean", ["n"], "y", {"keepdims": 0})]


def function(x, w, b):
    h = x @ w
    f = (1 / (1 + np.exp(-(h + b))) * np.tanh(h)).T.reshape(-1)
    e = np.exp(f)
    return -np.sin((e - np.maximum(f, 0)) / np.sqrt(e)).mean()


def run(folder, model, feeds, *outputs):
    onnx.save(model, folder / "m.onnx")
    arguments = []
    for name, v in feeds.items():
        np.save(folder / f"{name}.npy", v)
        arguments += ["--input", f"{name}=@{folder}/{name}.npy"]
    done = subprocess.run([TENON, "run", folder / "m.onnx", *arguments, "--output-dir", folder / "out"], capture_output=True, text=True, timeout=120)
    return done, [np.load(folder / "out" / f"{o}.npy") for o in outputs] if done.returncode == 0 else None


def model(nodes, inputs, outputs, constants=(), dtype=D):
    infos = [helper.make_tensor_value_info(n, dtype, dims) for n, dims in inputs]
    graph = helper.make_graph(nodes, "gradient", infos, [helper.make_empty_tensor_value_info(o) for o in outputs], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)], ir_version=9)


def gradient(inputs, outputs, **attributes):
    return helper.make_node("Gradient", inputs, outputs, domain=DOMAIN, **attributes)


def test_the_chain_rule(tmp_path):
    nodes = [helper.make_node(op, i, [o], **a) for op, i, o, a in NODES]
    nodes.append(gradient(["x", "w", "b"], ["dx", "dw", "db"], xs=["x", "w", "b"], y="y"))
    m = model(nodes, [("x", ["n", 3]), ("w", [3, 4]), ("b", [1, 4])], ["y", "dx", "dw", "db"], [numpy_helper.from_array(np.array([-1]), "flat")])
    r = np.random.default_rng(3)
    at = {"x": r.standard_normal((5, 3)), "w": r.standard_normal((3, 4)), "b": r.standard_normal((1, 4))}
    done, got = run(tmp_path, m, at, "y", "dx", "dw", "db")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(got[0], function(**at), rtol=1e-9)
    for name, given in zip(at, got[1:], strict=True):
        assert given.shape == at[name].shape
        for i in np.ndindex(given.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = {k: v.copy() for k, v in at.items()}
                moved[name][i] += step
                ends.append(function(**moved))
            assert abs(given[i] - (ends[0] - ends[1]) / 2e-5) < 1e-7, (name, i)


def test_what_has_no_rule_is_refused(tmp_path):
    nodes = [helper.make_node("Erf", ["x"], ["y"], "odd"), gradient(["x"], ["dx"], xs=["x"], y="y")]
    done, _ = run(tmp_path, model(nodes, [("x", ["n"])], ["dx"]), {"x": np.ones(3)})
    assert done.returncode == 4 and 'Gradient through Erf "odd"' in done.stderr, done.stderr


def test_a_later_result_is_refused(tmp_path):
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], "halves", num_outputs=2), gradient(["x"], ["dx"], xs=["x"], y="b")]
    done, _ = run(tmp_path, model(nodes, [("x", [4])], ["dx"]), {"x": np.ones(4)})
    assert done.returncode == 4 and 'Gradient through result 1 of Split "halves"' in done.stderr, done.stderr


def test_a_mean_of_more_elements_than_f16_counts(tmp_path):
    nodes = [helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0), gradient(["x"], ["dx"], xs=["x"], y="y")]
    done, got = run(tmp_path, model(nodes, [("x", ["n"])], ["dx"], dtype=TensorProto.FLOAT16), {"x": np.ones(70000, np.float16)}, "dx")
    assert done.returncode == 0, done.stderr
    assert (got[0] == np.float16(1 / 70000)).all(), got


def test_independent_of_a_value_that_is_not_finite(tmp_path):
    nodes = [helper.make_node("Exp", ["x"], ["y"]), gradient(["x", "w"], ["dx", "dw"], xs=["x", "w"], y="y")]
    m = model(nodes, [("x", [2]), ("w", ["n"])], ["dx", "dw"])
    done, got = run(tmp_path, m, {"x": np.zeros(2), "w": np.array([np.inf, np.nan, 1])}, "dx", "dw")
    assert done.returncode == 0, done.stderr
    assert (got[0] == 1).all() and (got[1] == np.zeros(3)).all(), got


@pytest.mark.parametrize("node, code, says", [
    (gradient(["x", "w"], ["dx"], xs=["x"], zs=["w"], y="y"), 0, ""),
    (gradient(["x", "v"], ["dx"], xs=["x"], zs=["w"], y="y"), 4, 'input 1 must be the value "w" itself'),
    (gradient(["v"], ["dx"], xs=["x"], y="y"), 4, 'input 0 must be the value "x" itself'),
    (gradient(["x", "w"], ["dx"], xs=["x"], y="y"), 3, "Gradient has 2 inputs; xs and zs name 1 values"),
    (gradient(["x"], ["dx", "dw"], xs=["x"], y="y"), 3, "Gradient has 2 outputs; xs names 1 values"),
    (gradient(["x"], ["dx"], xs=["q"], y="y"), 3, 'xs names "q", which no node before this one makes'),
    (gradient(["x"], ["dx"], xs=["x"], y="q"), 3, 'y names "q", which no node before this one makes'),
    (gradient(["x"], ["dx"], xs=["x"], y="s"), 3, 'y names "s", a sequence; a tensor is needed'),
    (gradient(["x"], ["dx"], y="y"), 3, "the names of the values to differentiate by, is absent"),
])
def test_the_point_is_where_the_graph_is(tmp_path, node, code, says):
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"]), helper.make_node("SequenceConstruct", ["x"], ["s"]), node]
    point = {name: np.ones(2) for name in ("x", "w", "v")}
    done, _ = run(tmp_path, model(nodes, [(name, [2]) for name in point], ["dx"]), point, "dx")
    assert done.returncode == code and says in done.stderr, done.stderr
