"""The package as installed from a wheel into a virtual environment of its own: TENON_PYTHON names its Python.

The tests below run in that Python; see ./dev.
"""
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    os.environ["TENON_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def digits():
    import tenon
    return tenon.compile(ROOT / "examples" / "digits" / "digits.onnx")


def model_of(nodes, inputs, outputs, initializers=(), opset=17):
    """An onnx.ModelProto; inputs and outputs are (name, element type, shape)."""
    from onnx import helper
    values = [[helper.make_tensor_value_info(*v) for v in side] for side in (inputs, outputs)]
    model = helper.make_model(helper.make_graph(nodes, "test", *values, list(initializers)), opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model
