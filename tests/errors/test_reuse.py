"""compile --reuse: whole artefacts from the cache, by the content of all that made them."""
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

TENON = pathlib.Path(os.environ.get("TENON_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build")) / "tenon"


@pytest.fixture
def made(tmp_path):
    """compile --reuse with these words: was it from the cache, the artefact's bytes, and the report."""
    def compiled(model, *words):
        done = subprocess.run([TENON, "compile", model, "-o", "m.so", "--reuse", "--json", "--quick", "--cache-dir", "cache", *words],
                              cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        return told["reused"], (tmp_path / "m.so").read_bytes(), told
    return compiled


def save(path, scale=1.0, external=False):
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)     # onnx would write behind it
    w = numpy_helper.from_array(np.full((64, 64), scale, np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external, location=f"{path.name}.data", size_threshold=0)
    return path


def test_the_same_model_is_taken(made, tmp_path):
    model = save(tmp_path / "a.onnx")
    (first, artefact, report), (second, again, told) = made(model), made(model)
    assert not first and second and artefact == again
    assert [told[k] for k in ("summary", "kernels", "distinct_kernels", "artefact_bytes")] == [report[k] for k in ("summary", "kernels", "distinct_kernels", "artefact_bytes")]
    shutil.copy(model, tmp_path / "b.onnx")                 # by content, not by name
    assert made("b.onnx")[0]
    (tmp_path / "m.so").write_bytes(b"overwritten")         # the cache has its own copy
    assert made(model)[1] == artefact


@pytest.mark.parametrize("external", [False, True])
def test_another_model_is_compiled(made, tmp_path, external):
    made(save(tmp_path / "a.onnx", 1, external))
    reused, artefact, _ = made(save(tmp_path / "a.onnx", 2, external))
    assert not reused and np.float32([2]).tobytes() * 64 in artefact
    assert made(save(tmp_path / "a.onnx", 1, external))[0]


@pytest.mark.parametrize("words", [["--dim", "n=3"], ["--dim", "n=1..9"], ["--target", "x86-64-v2"], ["--cores", "1"], ["--exact"], ["--weights", "bf16"],
                                   ["--io-format", "x=1,0"], ["--dim-hint", "n=7"], ["--max-arena", "1G", "--dim", "n=2"]])
def test_other_options_are_another_artefact(made, tmp_path, words):
    model = save(tmp_path / "a.onnx")
    made(model)
    assert not made(model, *words)[0]
    assert made(model, *words)[0] and made(model)[0]


def test_notes_are_told_each_time(made, tmp_path):
    """A request alone is all that this model can do, and --many says so."""
    model, values = tmp_path / "a.onnx", [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name, size in (("past", "p"), ("x", "n"), ("present", "t"))]
    nodes = [helper.make_node("Concat", ["x", "past"], ["present"], axis=0)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "m", values[:2], values[2:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    first, second = (subprocess.run([TENON, "compile", name, "-o", "m.so", "--reuse", "--state", "past=present", "--quick", "--cache-dir", "cache", "--json"],
                                    cwd=tmp_path, capture_output=True, text=True, check=True) for name in (model.name, shutil.copy(model, tmp_path / "b.onnx").name))
    assert "note:" in first.stderr and second.stderr == first.stderr.replace("a.onnx", "b.onnx")
    assert not json.loads(first.stdout)["reused"] and json.loads(second.stdout)["reused"]


def test_a_damaged_entry_is_compiled_anew(made, tmp_path):
    model = save(tmp_path / "a.onnx")
    artefact = made(model)[1]
    for entry in (tmp_path / "cache").rglob("*.o"):
        if entry.stat().st_size == len(artefact):
            entry.write_bytes(artefact[:-1])
    reused, again, _ = made(model)
    assert not reused and again == artefact
