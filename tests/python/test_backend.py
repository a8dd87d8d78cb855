"""tenon.backend, by ONNX's own runner of backends: a few cases of operators that are there."""
import pathlib

import numpy as np
import onnx
import pytest
from conftest import model_of
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

import tenon
import tenon.backend

CASES = {c.name: c for c in load_model_tests(kind="pytorch-operator")}


@pytest.mark.parametrize("name", ["test_operator_exp", "test_operator_conv", "test_operator_maxpool", "test_operator_sqrt",
                                  "test_operator_permute2", "test_operator_reduced_sum", "test_operator_view"])
def test_cases_of_onnx(name):
    folder = pathlib.Path(CASES[name].model_dir)
    model = onnx.load(folder / "model.onnx")
    read = [[numpy_helper.to_array(onnx.load_tensor(p)) for p in sorted((folder / "test_data_set_0").glob(f"{side}_*.pb"))] for side in ("input", "output")]
    for got, want in zip(tenon.backend.run_model(model, read[0]), read[1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


def test_what_is_compatible():
    relu, nope = (model_of([helper.make_node(op, ["x"], ["y"])], [("x", T.FLOAT, [1])], [("y", T.FLOAT, [1])]) for op in ("Relu", "Nope"))
    assert tenon.backend.is_compatible(relu) and not tenon.backend.is_compatible(nope)
    assert tenon.backend.supports_device("CPU") and not tenon.backend.supports_device("CUDA")
    with pytest.raises(tenon.UsageError, match="CUDA"):
        tenon.backend.prepare(relu, "CUDA")


def test_one_node():
    x = np.float32([[1, 2], [3, 4]])
    (y,) = tenon.backend.run_node(helper.make_node("Transpose", ["x"], ["y"]), [x], outputs_info=[(np.float32, (2, 2))])
    np.testing.assert_array_equal(y, x.T)
