"""tenon.InferenceSession: ONNX Runtime's form, held against ONNX Runtime itself."""
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, model_of
from onnx import TensorProto as T
from onnx import helper

import tenon

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


def parts():
    """s = a + b, d = a - b, c = a as i64; of open and of fixed sizes."""
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Sub", ["a", "b"], ["d"]), helper.make_node("Cast", ["a"], ["c"], to=T.INT64)]
    size = ["rows of a", 3]
    return model_of(nodes, [("a", T.FLOAT, size), ("b", T.FLOAT, size)], [("s", T.FLOAT, size), ("d", T.FLOAT, size), ("c", T.INT64, size)])


@pytest.fixture(scope="module")
def pair():
    """Tenon's session and ONNX Runtime's."""
    ort = pytest.importorskip("onnxruntime")
    return [module.InferenceSession(parts().SerializeToString(), providers=["CPUExecutionProvider"]) for module in (tenon, ort)]


FEED = {"a": np.float32([[1, 2, 3]]), "b": np.float32([[10, 20, 30]])}


@pytest.mark.parametrize("names", [None, [], ["d"], ["c", "s"], ["d", "d"], ("s", "d", "c")])
def test_outputs_in_the_order_and_subset_asked(pair, names):
    ours, theirs = (session.run(names, FEED) for session in pair)
    assert isinstance(ours, list)
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


def test_arguments_are_described_as_there(pair):
    ours, theirs = pair
    for get in ("get_inputs", "get_outputs"):
        assert [(v.name, v.type, v.shape) for v in getattr(ours, get)()] == [(v.name, v.type, v.shape) for v in getattr(theirs, get)()]
    assert ours.get_providers() == theirs.get_providers() == ["CPUExecutionProvider"]


def test_metadata_are_kept(tmp_path):
    """Labels, an alphabet longer than C's longest literal, bytes above 127; by the artefact too."""
    proto = parts()
    told = {"character": "\n".join(chr(c) for c in range(0x4e00, 0x4e00 + 2000)), "names": '{0: "caf\u00e9"}', "empty": "", "what?": "\\ \"" * 3000}
    for key, value in told.items():
        proto.metadata_props.add(key=key, value=value)
    proto.producer_name, proto.domain, proto.doc_string, proto.model_version, proto.graph.doc_string = "a maker", "a.domain", "what it does", 7, "of the graph"
    ours, theirs = (module.InferenceSession(proto.SerializeToString()).get_modelmeta() for module in (tenon, pytest.importorskip("onnxruntime")))
    for field in ("custom_metadata_map", "producer_name", "graph_name", "domain", "description", "version", "graph_description"):
        assert getattr(ours, field) == getattr(theirs, field), field
    tenon.compile(proto, tmp_path / "parts.so")
    assert tenon.load(tmp_path / "parts.so").metadata == told
    assert tenon.inspect(tmp_path / "parts.so")["metadata"].items() >= told.items()


@pytest.mark.parametrize("kind, name", [(T.FLOAT, "float"), (T.DOUBLE, "double"), (T.FLOAT16, "float16"), (T.BFLOAT16, "bfloat16"), (T.INT8, "int8"),
                                        (T.UINT64, "uint64"), (T.BOOL, "bool"), (T.STRING, "string"), (T.FLOAT8E4M3FN, "float8e4m3fn")])
def test_types_have_the_names_of_there(kind, name):
    session = tenon.InferenceSession(model_of([helper.make_node("Identity", ["x"], ["y"])], [("x", kind, [2])], [("y", kind, [2])], opset=19))
    assert session.get_inputs()[0].type == session.get_outputs()[0].type == f"tensor({name})"


def test_models_are_paths_bytes_and_artefacts(tmp_path):
    image = np.zeros((2, 1, 8, 8), np.float32)
    first = tenon.InferenceSession(str(DIGITS))
    first.model.save(tmp_path / "digits.so")
    want, = first.run(None, {"image": image})
    for model in (DIGITS, DIGITS.read_bytes(), tmp_path / "digits.so"):
        np.testing.assert_array_equal(tenon.InferenceSession(model).run(["probability"], {"image": image})[0], want)


def test_a_second_session_is_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENON_CACHE_DIR", str(tmp_path))
    proto = parts()
    first, second = tenon.InferenceSession(proto), tenon.InferenceSession(proto.SerializeToString())
    assert not first.model.report["reused"] and second.model.report["reused"]
    for got, want in zip(first.run(None, FEED), second.run(None, FEED), strict=True):
        np.testing.assert_array_equal(got, want, strict=True)
    proto.graph.node[1].op_type = "Mul"
    third = tenon.InferenceSession(proto)
    assert not third.model.report["reused"] and third.run(["d"], FEED)[0][0, 2] == 90
    assert not tenon.InferenceSession(proto, reuse=False).model.report["reused"]


def test_options_of_a_session():
    options = tenon.SessionOptions()
    options.intra_op_num_threads, options.graph_optimization_level = 1, tenon.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level, options.enable_profiling = 3, False
    options.add_free_dimension_override_by_name("batch", 2)
    session = tenon.InferenceSession(DIGITS, sess_options=options, providers=[("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})])
    assert session.get_inputs()[0].shape == [2, 1, 8, 8] and session._session.threads == 1
    with pytest.raises(AttributeError, match="intra_op_threads"):
        options.intra_op_threads = 3
    with pytest.raises(tenon.UnsupportedError, match="enable_profiling: profile with tenon.profile"):
        options.enable_profiling = True


def test_what_is_wrong_is_said(pair):
    ours, _ = pair
    with pytest.raises(tenon.UsageError, match="no output 'q'; its outputs are s, d, c"):
        ours.run(["q"], FEED)
    with pytest.raises(ValueError, match="1 inputs were given, the model has 2: a, b"):
        ours.run(None, {"a": FEED["a"]})
    with pytest.raises(tenon.UsageError, match="b"):
        ours.run(None, FEED | {"b": np.float64([[1, 2, 3]])})
    with pytest.warns(UserWarning, match="CUDAExecutionProvider: Tenon runs on the CPU"):
        tenon.InferenceSession(parts(), providers=["CUDAExecutionProvider"])


STAND_IN = """
import sys, tenon
tenon.stand_in_for_onnxruntime()
import onnxruntime as ort
from onnxruntime import InferenceSession
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, NoSuchFile
assert ort is tenon and not any("site-packages/onnxruntime" in (getattr(m, "__file__", "") or "") for m in sys.modules.values())
for wrong, make in ((NoSuchFile, lambda: InferenceSession("/there/is/none.onnx")), (InvalidArgument, lambda: InferenceSession(sys.argv[1]).run(["none"], {"image": [[[[0.0] * 8] * 8]]}))):
    try:
        make()
    except wrong as e:
        assert isinstance(e, Fail), e
    else:
        raise AssertionError(wrong)
"""


def test_it_stands_in_for_the_module():
    subprocess.run([sys.executable, "-c", STAND_IN, DIGITS], check=True)
