"""Maps as inputs: x.keys and x.values, in any order, and the operators that make a tensor of them. What the specification says of
each case stands beside it; ONNX Runtime says the same where its Python interface takes such a map."""
import contextlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

NUMPY = {T.STRING: object, T.INT64: "i8", T.FLOAT: "f4", T.DOUBLE: "f8"}
CASES = [
    ("DictVectorizer", T.STRING, T.FLOAT, {"string_vocabulary": ["a", "c", "b", "z"]}, {"c": 8.0, "a": 4.0}, np.array([[4, 8, 0, 0]], "f4")),
    ("DictVectorizer", T.STRING, T.INT64, {"string_vocabulary": ["a", "c", "b"]}, {"b": 7, "a": 1, "other": 3}, np.array([[1, 0, 7]], "i8")),
    ("DictVectorizer", T.STRING, T.DOUBLE, {"string_vocabulary": ["a", "b"]}, {}, np.array([[0, 0]], "f8")),
    ("DictVectorizer", T.INT64, T.FLOAT, {"int64_vocabulary": [5, -7, 9]}, {9: 1.5, -7: 2.5}, np.array([[0, 2.5, 1.5]], "f4")),
    ("DictVectorizer", T.INT64, T.STRING, {"int64_vocabulary": [5, 7, 9]}, {7: "x"}, np.array([["", "x", ""]], object)),
    ("CastMap", T.INT64, T.FLOAT, {}, {7: 1.5, -2: 3.0, 4: 9.0}, np.array([[3, 9, 1.5]], "f4")),
    ("CastMap", T.INT64, T.FLOAT, {"cast_to": "TO_INT64", "map_form": "SPARSE", "max_map": 6}, {5: 1.0, 2: 3.0, 0: 9.0}, np.array([[9, 0, 3, 0, 0, 1]], "i8")),
    ("CastMap", T.INT64, T.STRING, {"map_form": "SPARSE", "max_map": 4}, {3: "1.5", 2: "3.25"}, np.array([[0, 0, 3.25, 1.5]], "f4")),
    ("CastMap", T.INT64, T.STRING, {"cast_to": "TO_STRING"}, {5: "five", 2: "two"}, np.array([["two", "five"]], object)),
    ("CastMap", T.INT64, T.STRING, {"cast_to": "TO_INT64"}, {5: "55", 2: "-22"}, np.array([[-22, 55]], "i8")),
]


def model(op, key, value, attributes):
    x = onnx.ValueInfoProto(name="x")
    x.type.map_type.key_type = key
    x.type.map_type.value_type.tensor_type.elem_type = value
    y = value if op == "DictVectorizer" else {"TO_INT64": T.INT64, "TO_STRING": T.STRING}.get(attributes.get("cast_to"), T.FLOAT)
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)], "map", [x], [helper.make_tensor_value_info("y", y, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)


def run(worker, made, key, value, given, folder):
    onnx.save(made, folder / "m.onnx")
    paths = []
    for name, items, t in (("values", given.values(), value), ("keys", given, key)):       # in the order of tenon inspect
        paths.append(folder / f"{name}.pb")
        paths[-1].write_bytes(numpy_helper.from_array(np.array(list(items), NUMPY[t])).SerializeToString())
    return worker.run(folder / "m.onnx", folder / "made", paths)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{len(c[4])}-{c[5].dtype}")
def test_map(case, worker, tmp_path):
    op, key, value, attributes, given, want = case
    made = model(op, key, value, attributes)
    status, got = run(worker, made, key, value, given, tmp_path)
    assert status == "0", got
    assert got[0].dtype == want.dtype and got[0].shape == want.shape and (got[0] == want).all()
    with contextlib.suppress(RuntimeError, onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument):     # some it takes from C alone
        [theirs] = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": given})
        assert theirs.shape == want.shape and (theirs.astype(want.dtype) == want).all()


def test_key_beyond_the_end(worker, tmp_path):
    made = model("CastMap", T.INT64, T.FLOAT, {"map_form": "SPARSE", "max_map": 4})
    for key in (4, -1):
        status, said = run(worker, made, T.INT64, T.FLOAT, {0: 1.0, key: 2.0}, tmp_path)
        assert status != "0" and "CastMap" in said, said
