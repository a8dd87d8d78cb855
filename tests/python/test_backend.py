"""tenon.backend, by ONNX's own runner of backends: a few cases of every kind of value by day, all of them at night."""
import os
import pathlib
import unittest
import warnings

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


DAILY = ["identity_sequence", "identity_opt", "optional_get_element_optional_tensor", "optional_has_element_optional_input", "if_opt", "if_seq",
         "loop13_seq", "sequence_map_add_1_sequence_1_tensor", "sequence_insert_at_front", "split_to_sequence_1", "gradient_of_add", "cast_FLOAT_to_FLOAT8E5M2",
         "cast_FLOAT_to_INT4", "cast_FLOAT_to_FLOAT4E2M1", "cast_FLOAT_to_BFLOAT16", "string_concat", "strnormalizer_nostopwords_nochangecase"]
LEAST = 2005            # of 2,024: what is left expects NumPy's own random numbers, or its rounding


def test_onnx_runs_it():
    """A failure is a name and the end of what the runner says."""
    from onnx.backend.test import BackendTest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")          # the generators divide by zero on purpose
        runner = BackendTest(tenon.backend, __name__)
    runner.exclude("test_(bvlc|densenet|inception|resnet|shufflenet|squeezenet|vgg|zfnet)")      # these are downloaded
    cases = runner.test_cases
    all_tests = [case(name) for case in cases.values() for name in dir(case) if name.startswith("test_") and name.endswith("_cpu")]
    everything = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
    chosen = [t for t in all_tests if everything or t.id().rsplit(".", 1)[1][5:-4] in DAILY]
    result = unittest.TestResult()
    for test in chosen:
        test.run(result)
    wrong = {test.id(): said.strip().splitlines()[-1] for test, said in result.errors + result.failures}
    passed = len(chosen) - len(wrong) - len(result.skipped)
    assert passed >= LEAST if everything else (passed == len(DAILY) and not wrong), (passed, wrong)


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
