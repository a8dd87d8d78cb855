"""Floats below the smallest normal one: 0 in kernels, whichever thread runs them, unless they are to be kept."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
ROWS = 4096


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A product whose results are smaller than any normal number, though its inputs are not."""
    folder = tmp_path_factory.mktemp("denormals")
    small = numpy_helper.from_array(np.full((64, 64), 2.0**-70, np.float32), "w")
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "m", [value("x", TensorProto.FLOAT, [ROWS, 64])],
                              [value("y", TensorProto.FLOAT, [ROWS, 64])], [small])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    np.save(folder / "x.npy", np.full((ROWS, 64), 2.0**-70, np.float32))
    return folder


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("words, element", [([], 0.0), (["--keep-denormals"], 2.0**-134), (["--keep-denormals", "--plain"], 2.0**-134), (["--plain"], 0.0)])
def test_denormals(model, compiler, words, element, tmp_path):
    subprocess.run([TENON, "compile", model / "m.onnx", "--cc", compiler, *words, "-o", tmp_path / "m.so"], check=True, capture_output=True)
    for threads in ("1", "2"):
        subprocess.run([TENON, "run", tmp_path / "m.so", "--threads", threads, "-i", f"x=@{model / 'x.npy'}", "--output-dir", tmp_path], check=True, capture_output=True)
        assert (np.load(tmp_path / "y.npy") == np.float32(element)).all()
