"""examples/serve with models that are no decoders: tensors in and out, in the form of KServe's protocol, version 2."""
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
import server as s
from onnx import TensorProto as T
from onnx import helper as h


def compiled(tmp_path, model, name="model"):
    onnx.save(model, tmp_path / f"{name}.onnx")
    subprocess.run([s.TENON, "compile", tmp_path / f"{name}.onnx", "-o", tmp_path / f"{name}.so"], check=True, capture_output=True)
    return tmp_path / f"{name}.so"


def tensor(name, x, kind):
    return {"name": name, "shape": list(x.shape), "datatype": kind, "data": x.tolist()}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("infer")
    values = [h.make_tensor_value_info("x", T.FLOAT, ["n", 3]), h.make_tensor_value_info("i", T.INT64, ["n"]), h.make_tensor_value_info("b", T.BOOL, [])]
    nodes = [h.make_node("Sqrt", ["x"], ["root"]), h.make_node("Neg", ["i"], ["minus"]), h.make_node("Not", ["b"], ["not"])]
    graph = h.make_graph(nodes, "g", values, [h.make_tensor_value_info(n, t, d) for n, t, d in (("root", T.FLOAT, ["n", 3]), ("minus", T.INT64, ["n"]), ("not", T.BOOL, []))])
    with s.Server(compiled(folder, h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])), "--name", "three", tokens=None) as one:
        yield one


def inputs(n=2):
    return [tensor("x", np.full((n, 3), 4.0), "FP32"), tensor("b", np.array(True), "BOOL") | {"data": [True]}, tensor("i", np.full(n, 2 ** 62 + 1), "INT64")]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_tensors(server, version):
    for n in (2, 5, 0):
        status, answer = server.ask("POST", f"/{version}/models/three/infer", {"id": "7", "inputs": inputs(n)})
        assert status == 200 and answer["model_name"] == "three" and answer["id"] == "7"
        assert answer["outputs"] == [{"name": "root", "datatype": "FP32", "shape": [n, 3], "data": [2.0] * 3 * n}, {"name": "minus", "datatype": "INT64", "shape": [n], "data": [-(2 ** 62) - 1] * n},
                                     {"name": "not", "datatype": "BOOL", "shape": [], "data": [False]}]
    answer = server.ask("POST", f"/{version}/models/three/infer", {"inputs": inputs(), "outputs": [{"name": "minus"}]})[1]
    assert [o["name"] for o in answer["outputs"]] == ["minus"] and "id" not in answer
    one = inputs(1)
    one[0]["data"] = [-1, 0, 1]
    assert server.ask("POST", f"/{version}/models/three/infer", {"inputs": one})[1]["outputs"][0]["data"][1:] == [0, 1]


def test_what_it_takes(server):
    for version in ("v1", "v2"):
        status, answer = server.ask("GET", f"/{version}/models/three")
        assert status == 200 and answer == {"name": "three", "versions": ["1"], "platform": "tenon",
                                            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}, {"name": "i", "datatype": "INT64", "shape": [-1]}, {"name": "b", "datatype": "BOOL", "shape": []}],
                                            "outputs": [{"name": "root", "datatype": "FP32", "shape": [-1, 3]}, {"name": "minus", "datatype": "INT64", "shape": [-1]}, {"name": "not", "datatype": "BOOL", "shape": []}]}
    assert server.ask("GET", "/v2/health/ready")[0] == server.ask("GET", "/health")[0] == 200


def changed(i, **how):
    out = inputs()
    out[i] |= how
    return out


@pytest.mark.parametrize("body, says", [
    ({}, 'there is no input "x", which the model takes'), ({"inputs": inputs()[1:]}, 'there is no input "x"'), ({"inputs": changed(0, datatype="FP64")}, 'input x is FP32; its datatype is "FP64"'),
    ({"inputs": changed(0, shape=[2, 4])}, "input x: shape has 8 elements, data has 6"), ({"inputs": changed(0, shape=[2, -3])}, "input x: shape is to be a list of whole numbers"),
    ({"inputs": changed(0, shape=[2 ** 40, 2 ** 40])}, "input x: shape is to be"), ({"inputs": changed(0, shape=[2 ** 20, 2 ** 9])}, "shape has 536870912 elements, data has 6"),
    ({"inputs": changed(0, data=["a"] * 6)}, "input x: element 0 is nothing that f32 can hold"), ({"inputs": changed(2, data=[1, 1.5])}, "input i: element 1 is nothing that i64 can hold"),
    ({"inputs": changed(0, data=None)}, "the binary form is not supported"), ({"inputs": changed(0, shape=[3, 2])}, "x"), ({"inputs": changed(2, shape=[1], data=[1])}, "n"),
    ({"inputs": inputs(), "outputs": [{"name": "y"}]}, 'the model has no output "y"'), ({"input": 1}, 'there is no field "input"'),
])
def test_what_is_refused(server, body, says):
    status, answer = server.ask("POST", "/v1/models/three/infer", body)
    assert status == 400 and says in answer["error"]["message"] and answer["error"]["type"] == "invalid_request_error", answer
    assert server.ask("POST", "/v1/models/three/infer", {"inputs": inputs()})[0] == 200


def test_other_models(server, artefact):
    for path in ("/v1/models/four", "/v1/models/thre", "/v1/models/threee"):
        status, answer = server.ask("GET", path)
        assert status == 404 and "there is \"three\"" in answer["error"]["message"]
    assert "this server has no language model: POST /v1/models/three/infer" in server.ask("POST", "/v1/completions", {"prompt": "a"})[1]["error"]["message"]
    with s.Server(artefact) as one:
        assert "this model is a decoder" in one.ask("POST", "/v1/models/model/infer", {})[1]["error"]["message"]
        assert one.ask("GET", "/v1/models/model")[1]["data"][0]["id"] == "model"


def test_a_network(tmp_path):
    """What ONNX Runtime says of handwritten digits."""
    digits = s.ROOT / "examples" / "digits"
    images = np.load(digits / "held_out.npz")["images"][:5]
    session = onnxruntime.InferenceSession(str(digits / "digits.onnx"), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    so = compiled(tmp_path, onnx.load(digits / "digits.onnx"), "digits")
    with s.Server(so, "--name", "digits", tokens=None) as one:
        answer = one.ask("POST", "/v2/models/digits/infer", {"inputs": [tensor(name, images, "FP32")]})[1]
        want = session.run(None, {name: images})[0]
        assert np.abs(np.reshape(answer["outputs"][0]["data"], answer["outputs"][0]["shape"]) - want).max() < 1e-4
