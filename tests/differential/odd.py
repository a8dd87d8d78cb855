"""Odd cases: single nodes and small models at the corners of what the specification says. What odd_plain.py, odd_rare.py,
odd_models.py and odd_exported.py name becomes a Case here; test_odd.py compiles and compares them.
"""
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

MS, ML = "com.microsoft", "ai.onnx.ml"
R = np.random.default_rng(0)
CASES = {}


@dataclass(eq=False)
class Case:
    model: onnx.ModelProto
    feeds: list                      # one run for each
    judge: str = "ort"               # who says what is right: ort, where that has an answer; onnx, its evaluator
    loose: float = 1e-4
    want: list | None = None         # what the specification says where both judges say something else
    kept: bool = False               # by day too


def f(*dims, dt="f4"):
    return R.standard_normal(dims).astype(dt)


def positive(*dims, dt="f4"):
    return (np.abs(R.standard_normal(dims)) + 0.1).astype(dt)


def ints(lo, hi, *dims, dt="i8"):
    return R.integers(lo, hi, dims).astype(dt)


def words(*x):
    return np.array(x, object)


def opsets(opset):
    return [helper.make_opsetid(*pair) for pair in (("", opset), (MS, 1), (ML, 3))]


def node(name, op, inputs, attributes=None, outputs=1, opset=21, domain="", dynamic=True, consts=(), **more):
    """A node: None is an absent input, consts says which are initializers; dynamic: all other dimensions are symbols."""
    infos, initializers, names, feeds = [], [], [], {}
    for i, x in enumerate(inputs):
        names.append("" if x is None else f"x{i}")
        if x is None:
            continue
        x = np.asarray(x)
        if i in consts:
            initializers.append(numpy_helper.from_array(x, f"x{i}"))
        else:
            dims = [f"d{i}_{k}" for k in range(x.ndim)] if dynamic else x.shape
            infos.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), dims))
            feeds[f"x{i}"] = x
    while names[-1] == "":
        names.pop()
    outputs = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    made = helper.make_node(op, names, outputs, domain=domain, **(attributes or {}))
    graph = helper.make_graph([made], op, infos, [helper.make_empty_tensor_value_info(o) for o in outputs if o], initializers)
    assert name not in CASES, name
    CASES[name] = Case(helper.make_model(graph, opset_imports=opsets(opset), ir_version=10), [feeds], **more)


def model(nodes, inputs, outputs, constants=None, opset=17, functions=()):
    outputs = [helper.make_empty_tensor_value_info(o) if isinstance(o, str) else o for o in outputs]
    initializers = [numpy_helper.from_array(np.asarray(x), n) for n, x in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    imports = opsets(opset) + [helper.make_opsetid("my", 1)] * bool(functions)
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def case(name, made, feeds, **more):
    assert name not in CASES, name
    CASES[name] = Case(made, feeds, **more)
