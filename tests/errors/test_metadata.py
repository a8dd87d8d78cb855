"""What a model says about itself, in the artefact: any text is, and no text becomes a part of the program."""
import json
import os
import pathlib
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper

TENON = pathlib.Path(os.environ.get("TENON_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build")) / "tenon"
TEXTS = {"character": "\n".join(chr(c) for c in range(0x4e00, 0x4e00 + 2000)), 'quote??/", "': 'a "b" \\ ??= \x01 ???/', "*/ end": "%d%s\r\n", "empty": ""}


@pytest.fixture
def model(tmp_path):
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in TEXTS.items():
        made.metadata_props.add(key=key, value=value)
    onnx.save(made, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def tenon(*words):
    return subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_c_has_it_without_a_warning(model, cc):
    tenon("compile", model, "--emit", "c", "--target", "x86-64-v2", "-o", model.with_name("m.c"))
    for standard in ("c99", "c17"):
        subprocess.run([cc, f"-std={standard}", "-msse4.2", "-mpopcnt", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", model.with_name("m.c"), "-o", os.devnull], check=True)


def test_inspect_tells_it(model):
    tenon("compile", model, "-o", model.with_name("m.so"))
    for file in (model, model.with_name("m.so")):
        assert json.loads(tenon("inspect", file, "--json"))["metadata"] == TEXTS | {"onnx.graph_name": "m"}
        said = tenon("inspect", file)
        assert "metadata     character: \u4e00 …\n" in said and "\x01" not in said
