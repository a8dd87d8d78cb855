"""Sequences, optionals and maps, in and out of the compiled model, by name and by position."""
import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper

import tenon


def built(nodes, inputs, outputs, opset=18):
    graph = helper.make_graph(nodes, "values", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)


def typed(name, dtype=T.FLOAT, shape=None, *around):
    kind = helper.make_tensor_type_proto(dtype, shape)
    for wrap in around:
        kind = {"seq": helper.make_sequence_type_proto, "optional": helper.make_optional_type_proto}[wrap](kind)
    return helper.make_value_info(name, kind)


def test_sequences_by_position():
    model = tenon.compile(built([helper.make_node("SequenceInsert", ["s", "x"], ["t"])], [typed("s", T.FLOAT, [None], "seq"), typed("x", T.FLOAT, ["n"])],
                                [typed("t", T.FLOAT, [None], "seq")]))
    s, x = [np.float32([1, 2]), np.float32([])], np.float32([3])
    for made in (model(s, x), model.run([s, x])["t"], model(s, x=x), model.session().run_many([[s, x]])[0]["t"]):
        assert [list(item) for item in made] == [[1, 2], [], [3]]
    items, sizes = np.float32([1, 2]), np.int64([[2]])          # the two tensors themselves
    assert [list(item) for item in model.run([items, sizes, x])["t"]] == [[1, 2], [3]]


@pytest.mark.parametrize("kind", ["tensor", "seq"])
def test_optionals_are_none_or_the_value(kind):
    around = ["seq"] * (kind == "seq") + ["optional"]
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("OptionalHasElement", ["x"], ["there"])][:3 - len(around)]
    outputs = [typed("y", T.FLOAT, [None], *around), typed("there", T.BOOL, [])][:len(nodes)]
    session = tenon.InferenceSession(built(nodes, [typed("x", T.FLOAT, [None], *around)], outputs))
    a = np.float32([1, 2, 3])
    inner = "tensor(float)" if kind == "tensor" else "seq(tensor(float))"
    assert [(v.name, v.type, v.shape) for v in session.get_inputs()] == [("x", f"optional({inner})", [])]
    assert session.get_outputs()[0].type == f"optional({inner})"
    if kind == "tensor":
        y, there = session.run(None, {"x": a})
        np.testing.assert_array_equal(y, a, strict=True)
        assert there and session.model(a)[1]
        y, there = session.run(None, {"x": None})
        assert y is None and not there
    else:
        y, = session.run(None, {"x": [a, a[:1]]})
        assert [list(item) for item in y] == [[1, 2, 3], [1]]


def test_maps_by_name_of_type():
    nodes = [helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"])]
    x = helper.make_value_info("x", helper.make_map_type_proto(T.STRING, helper.make_tensor_type_proto(T.FLOAT, [])))
    session = tenon.InferenceSession(built(nodes, [x], [typed("y", T.FLOAT, [1, 3])]))
    assert session.get_inputs()[0].type == "map(string,tensor(float))"
    np.testing.assert_array_equal(session.run(None, {"x": {"c": 3.0, "a": 1.0}})[0], np.float32([[1, 0, 3]]))


def test_one_value_is_several_outputs():
    """Under each of its names, also where it is an input or what a function made twice."""
    twice = helper.make_function("of.test", "Twice", ["a"], ["p", "q"], [helper.make_node("Relu", ["a"], ["p"]), helper.make_node("Identity", ["a"], ["q"])], [helper.make_opsetid("", 18)])
    graph = helper.make_graph([helper.make_node("Twice", ["x"], ["y", "same"], domain="of.test")], "values", [typed("x", T.FLOAT, ["n"])],
                              [typed(name, T.FLOAT, ["n"]) for name in ("y", "same", "x")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("of.test", 1)], functions=[twice], ir_version=8)
    x = np.float32([-1, 2])
    made = tenon.compile(model).run([x])
    assert {name: y.tolist() for name, y in made.items()} == {"y": [0, 2], "same": [-1, 2], "x": [-1, 2]}
    s = typed("s", T.FLOAT, [None], "seq")
    lists = built([helper.make_node("Identity", ["s"], ["t"])], [s], [typed("t", T.FLOAT, [None], "seq")])
    assert [list(y) for y in tenon.compile(lists).run([[x]])["t"]] == [[-1, 2]]
