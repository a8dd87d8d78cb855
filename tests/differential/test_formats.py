"""What users say of formats, and what they get: inputs and outputs that lie otherwise, values that are pinned, who chooses the rest.
Whatever is said, the numbers are the interpreter's."""
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))


def convolutions():
    """Two branches over one value, odd sizes, an open batch."""
    rng = np.random.default_rng(3)
    weights = {"w1": (16, 3, 3, 3), "w2": (16, 16, 3, 3), "w3": (16, 16, 1, 1), "w4": (8, 16, 1, 1)}
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["d"]),
             helper.make_node("Conv", ["b", "w3"], ["e"]), helper.make_node("Add", ["d", "e"], ["g"]),
             helper.make_node("Conv", ["g", "w4"], ["y"])]
    graph = helper.make_graph(nodes, "formats", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 17, 23])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8, 17, 23])],
                              [numpy_helper.from_array((rng.standard_normal(s) * 0.2).astype(np.float32), w) for w, s in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("formats") / "m.onnx"
    onnx.save(convolutions(), path)
    return path


def tenon(*words, fails=False):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def layout(model, *words):
    """The layout stage's dump: its remarks, and the type of every value."""
    text = tenon("compile", model, "--dump=layout", "--stop-after=layout", *words)
    return text, dict(re.findall(r"^  %(\w+): (\S+\[.*?\])", text, re.M))


@pytest.mark.parametrize("words", [[], ["--formats", "greedy"], ["--formats", "nchw"], ["--formats", "nhwc"], ["--formats", "none"],
                                   ["--format", "b=nhwc"], ["--format", "b=3,0,2,1", "--format", "c=nwch", "--formats", "none"],
                                   ["--io-format", "x=nhwc"], ["--io-format", "x=nhwc", "--io-format", "y=cwnh", "--formats", "nhwc"],
                                   ["--io-format", "x=nhwc", "--format", "b=hwcn", "--plain"]])
def test_numbers_are_the_interpreters(model, words):
    assert "agrees" in tenon("verify", model, "--dim", "n=2", *words)


def test_a_frame_goes_in_as_it_is(model, tmp_path):
    plain, frames = tmp_path / "plain.so", tmp_path / "frames.so"
    tenon("compile", model, "-o", plain)
    tenon("compile", model, "-o", frames, "--io-format", "x=nhwc", "--io-format", "y=nhwc")
    x = np.random.default_rng(1).standard_normal((2, 3, 17, 23), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "frame.npy", np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    tenon("run", plain, "--input", f"x=@{tmp_path}/x.npy", "--output-dir", tmp_path / "plain")
    tenon("run", frames, "--input", f"x=@{tmp_path}/frame.npy", "--output-dir", tmp_path / "frames")
    want, got = np.load(tmp_path / "plain" / "y.npy"), np.load(tmp_path / "frames" / "y.npy")
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2), want, rtol=1e-4, atol=1e-5)
    assert "f32[n, 17, 23, 3] as nhwc" in tenon("inspect", frames)
    ports = json.loads(tenon("inspect", frames, "--json"))
    assert ports["inputs"][0]["format"] == ports["outputs"][0]["format"] == "nhwc"
    assert "format" not in json.loads(tenon("inspect", plain, "--json"))["inputs"][0]
    said = tenon("run", frames, "--input", f"x=@{tmp_path}/x.npy", fails=True)
    assert "declared f32[n, 17, 23, 3] as nhwc" in said
    assert len(json.loads(tenon("inspect", frames, "--json"))["kernels"]) == len(json.loads(tenon("inspect", plain, "--json"))["kernels"])


def test_a_pin_holds_whoever_chooses(model):
    for words in ([], ["--formats", "nhwc"], ["--formats", "greedy"], ["--formats", "none"]):
        text, types = layout(model, "--format", "b=cwhn", *words)
        assert types["b"] == "f32[16, 23, 17, n]" and "; %b: cwhn" in text
    assert layout(model, "--format", "g=nchw", "--formats", "nhwc")[1]["g"] == "f32[n, 16, 17, 23]"


def test_single_formats(model):
    last, first = layout(model, "--formats", "nhwc")[1], layout(model, "--formats", "nchw")[1]
    assert last["b"] == last["g"] == "f32[n, 17, 23, 16]" and first["b"] == first["g"] == "f32[n, 16, 17, 23]"
    assert last["y"] == first["y"] == "f32[n, 8, 17, 23]"


def test_a_text_says_its_pins(model, tmp_path):
    text = tenon("compile", model, "--dump=fuse", "--stop-after=fuse", "--dump-dir", tmp_path)
    path = next(tmp_path.glob("*fuse.tn"))
    text = path.read_text()
    assert text.count("%b: f32[n, 16, 17, 23] =") == 1
    path.write_text(text.replace("%b: f32[n, 16, 17, 23] =", "%b: f32[n, 16, 17, 23] as [0, 2, 1, 3] ="))
    assert layout(path)[1]["b"] == "f32[n, 17, 16, 23]"
    assert layout(path, "--format", "b=nhwc")[1]["b"] == "f32[n, 17, 23, 16]"
    path.write_text(text.replace("%b: f32[n, 16, 17, 23] =", "%b: f32[n, 16, 17, 23] as [0, 1/16, 2, 3, 1%16] ="))
    assert "no order of its dimensions" in tenon("compile", path, "--stop-after=layout", fails=True)


def test_a_dump_of_the_stage_is_a_model(model, tmp_path):
    """It parses, means the same, and nothing is left to be changed in it."""
    tenon("compile", model, "--dump=layout", "--stop-after=layout", "--dump-dir", tmp_path, "--formats", "nhwc")
    path = next(tmp_path.glob("*layout.tn"))
    assert "agrees" in tenon("verify", path)
    assert layout(path, "--formats", "none")[1] == layout(model, "--formats", "nhwc")[1]


def test_a_wish_that_fusion_took_away_is_not_forgotten(tmp_path):
    path = tmp_path / "m.tn"
    path.write_text("""graph @t(%x: f32[1, 3, 6, 5]) -> (%z) {
      %a: f32[1, 3, 6, 5] as [0, 2, 3, 1] = neg(%x)
      %z: f32[1, 3, 6, 5] = relu(%a)
    }""")
    assert "%a" in tenon("compile", path, "--stop-after=layout", fails=True)
    tenon("compile", path, "--stop-after=layout", "--fuse=none")


def test_explained(model):
    text = tenon("compile", model, "--explain-formats", "--stop-after=layout", "--dim", "n=1", "--format", "g=nhwc")
    assert "%b: " in text and "second best" in text and "as was asked for" in text
    assert "an input of the model: --io-format says how it lies" in text
    number = r"([\d.]+) (us|ms)"
    found = re.search(rf"kernels take {number} .*?; {number} if nothing were changed, and if each kernel chose for itself {number}", text)
    seconds = [float(v) * {"us": 1e-6, "ms": 1e-3}[u] for v, u in zip(found.groups()[::2], found.groups()[1::2])]
    assert seconds[0] <= min(seconds[1:]) * 1.001
    assert "less in all" not in text
