"""Models and sessions go to other processes, by their artefacts; types are NumPy's where it is asked."""
import concurrent.futures
import copy
import gc
import multiprocessing
import os
import pickle

import numpy as np
import pytest
from conftest import model_of
from onnx import TensorProto as T
from onnx import helper

import tenon


def doubled(n="n", dtype=T.FLOAT):
    return model_of([helper.make_node("Add", ["x", "x"], ["y"])], [("x", dtype, [n])], [("y", dtype, [n])])


X = np.float32([1, 2, 3])


def test_a_model_is_its_artefact():
    model = tenon.compile(doubled())
    again = pickle.loads(pickle.dumps(model))
    assert again.path != model.path and again.inputs == model.inputs and again.report == model.report
    path = again.path
    np.testing.assert_array_equal(again(X), 2 * X)
    np.testing.assert_array_equal(copy.deepcopy(model)(X), 2 * X)
    with pytest.raises(tenon.UsageError) as wrong:
        again(np.int64([1]))
    with pytest.raises(tenon.UsageError) as before:
        model(np.int64([1]))
    assert str(wrong.value) == str(before.value)
    del again, wrong, before
    gc.collect()
    assert not os.path.exists(path)


def run_inference(session):
    return session.run(["y"], {"x": X})[0]


def run_session(session):
    return session.run({"x": X})["y"], session.threads


def test_sessions_run_in_other_processes():
    model = tenon.compile(doubled())
    options = tenon.SessionOptions()
    options.intra_op_num_threads = 1
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        np.testing.assert_array_equal(pool.submit(run_inference, tenon.InferenceSession(doubled(), options)).result(), 2 * X)
        y, threads = pool.submit(run_session, model.session(threads=1)).result()
        np.testing.assert_array_equal(y, 2 * X)
        assert threads == 1


def test_states_are_not_pickled():
    nodes = [helper.make_node("Concat", ["past", "x"], ["present"], axis=0)]
    model = tenon.compile(model_of(nodes, [("past", T.FLOAT, ["p"]), ("x", T.FLOAT, ["n"])], [("present", T.FLOAT, ["t"])]), state={"past": "present"})
    with pytest.raises(tenon.UsageError, match="pickle its model"):
        pickle.dumps(model.session())
    assert pickle.loads(pickle.dumps(model)).states == model.states


@pytest.mark.parametrize("kind, name, numpy", [(T.FLOAT, "f32", "float32"), (T.INT64, "i64", "int64"), (T.BOOL, "bool", "bool"), (T.STRING, "str", "object"),
                                               (T.BFLOAT16, "bf16", "bfloat16"), (T.FLOAT8E5M2, "f8e5m2", "float8_e5m2"), (T.UINT4, "u4", "uint4"),
                                               (T.FLOAT4E2M1, "f4e2m1", "float4_e2m1fn")])
def test_element_types_are_numpys(kind, name, numpy):
    model = tenon.compile(model_of([helper.make_node("Identity", ["x"], ["y"])], [("x", kind, [2])], [("y", kind, [2])], opset=23))
    dtype = model.inputs[0].dtype
    assert dtype == name and name == dtype and dtype != "f31" and str(dtype) == f"{dtype}" == name and {name: 1}[dtype] == 1
    assert np.dtype(dtype).name == numpy
    x = np.full(2, "" if kind == T.STRING else 0, dtype)
    assert model(x).dtype == np.dtype(dtype)
