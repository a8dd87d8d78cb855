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


NUMBER = r"([\d.]+) (us|ms|s)"


def seconds_of(value, unit):
    return float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def layout(model, *words):
    """The layout stage's dump: its remarks, and the type of every value."""
    text = tenon("compile", model, "--dump=layout", "--stop-after=layout", *words)
    return text, dict(re.findall(r"^  %(\w+): (\S+\[.*?\])", text, re.M))


@pytest.mark.parametrize("words", [[], ["--formats", "nhwc"], ["--formats", "none"],
                                   ["--format", "b=nhwc"], ["--format", "b=3,0,2,1", "--format", "c=nwch", "--formats", "none", "--fuse", "none"],
                                   ["--format", "b=nhwc", "--format", "g=nwhc", "--cc", "clang"],
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


def test_a_pin_holds_for_every_search(model):
    for words in ([], ["--formats", "nhwc"], ["--formats", "none"]):
        text, types = layout(model, "--format", "b=cwhn", *words)
        assert types["b"] == "f32[16, 23, 17, n]" and "; %b: cwhn" in text
    assert layout(model, "--format", "g=nchw", "--formats", "nhwc")[1]["g"] == "f32[n, 16, 17, 23]"


def test_single_formats(model):
    last, first = layout(model, "--formats", "nhwc")[1], layout(model, "--formats", "none")[1]
    assert last["b"] == last["g"] == "f32[n, 17, 23, 16]" and first["b"] == first["g"] == "f32[n, 16, 17, 23]"
    assert last["y"] == first["y"] == "f32[n, 8, 17, 23]"


@pytest.mark.parametrize("words", [["--dim", "n=1"], ["--target", "x86-64-v3"], ["--fuse", "none", "--dim", "n=4"]])
def test_nobody_finds_less_than_the_search(model, words):
    """By price, of the same kernels: what the others take is among what is searched."""
    least, others = None, []
    for how in ("search", "nhwc"):
        found = re.search(r"^; \d+ of \d+ values have .*: ([\d.e+-]+) ms of kernels instead of ([\d.e+-]+) ms", layout(model, "--formats", how, *words)[0], re.M)
        least = least or float(found[1])
        others += [float(found[1]), float(found[2])]
    assert least == min(others) < max(others)


def test_a_text_says_its_pins(model, tmp_path):
    text = tenon("compile", model, "--dump=fuse", "--stop-after=fuse", "--dump-dir", tmp_path)
    path = next(tmp_path.glob("*fuse.tn"))
    text = path.read_text()
    assert text.count("%b: f32[n, 16, 17, 23] =") == 1
    path.write_text(text.replace("%b: f32[n, 16, 17, 23] =", "%b: f32[n, 16, 17, 23] as [0, 2, 1, 3] ="))
    assert layout(path)[1]["b"] == "f32[n, 17, 16, 23]"
    assert layout(path, "--format", "b=nhwc")[1]["b"] == "f32[n, 17, 23, 16]"
    path.write_text(text.replace("%b: f32[n, 16, 17, 23] =", "%b: f32[n, 16, 17, 23] as [0, 1/16, 2, 3, 1%16] ="))
    assert "no order of its 4 dimensions" in tenon("compile", path, "--stop-after=layout", fails=True)


def graph_of(body, inputs="%x: f32[2, 6, 7, 9]", outputs="%z"):
    return f"graph @t({inputs}) -> ({outputs}) {{\n{body}\n}}\n"


WINDOW = """  {out} = call({of})
    nest w(x: f32[{n}, {c}, {h}, {w}]) -> (o: f32[{n}, {c}, {h}, {w}]) {{
      o[i, j, k, l] = {how} r<3>, s<3>: x[i, j, k + r - 1, l + s - 1 | {outside}]
    }}"""


def window(out, of, how="sum", outside="0", n="2", c="6", h="7", w="9"):
    return WINDOW.format(out=f"{out}: f32[{n}, {c}, {h}, {w}]", of=of, how=how, outside=outside, n=n, c=c, h=h, w=w)


def test_normalisations_have_a_choice(tmp_path):
    """A kernel of several parts, over rows that they share: what it reads and writes may lie otherwise."""
    path = tmp_path / "m.tn"
    path.write_text(graph_of(window("%a", "%x") + "\n  %b: f32[2, 6, 7, 9] = softmax(%a) {axis = 3}\n" + window("%z", "%b")))
    text, types = layout(path, "--format", "a=nhwc", "--format", "b=whcn")
    assert len(re.findall(r"^      part ", text.split("softmax", 1)[1].split("%z:")[0], re.M)) > 1 and types["b"] == "f32[9, 7, 6, 2]"
    for pins in (["a=nhwc"], ["a=whcn", "b=nhwc"]):
        assert "agrees" in tenon("verify", path, *[word for pin in pins for word in ("--format", pin)])


@pytest.mark.parametrize("n, c, h, w", [("1", "1", "1", "1"), ("2", "6", "0", "9"), ("2", "5", "1", "3"), ("0", "6", "7", "1")])
def test_sizes_of_nothing_and_of_one(tmp_path, n, c, h, w):
    path = tmp_path / "m.tn"
    path.write_text(graph_of(f"  %a: f32[{n}, {c}, {h}, {w}] = exp(%x)\n" + window("%z", "%a", n=n, c=c, h=h, w=w), f"%x: f32[{n}, {c}, {h}, {w}]"))
    for how in ("nhwc", "whcn"):
        assert "agrees" in tenon("verify", path, "--fuse", "none", "--format", f"a={how}")


def test_what_cannot_lie_otherwise_says_why(tmp_path):
    """Outputs of the model; views, which other kernels see in other dimensions; text of the run's own checks."""
    path = tmp_path / "m.tn"
    path.write_text(graph_of("""  %a: f32[2, 6, 7, 9] = exp(%x)
  %b: f32[2, 378] = call(%a)
    nest flat(x: f32[2, 6, 7, 9]) -> (o: f32[2, 378]) { o[i, j] = 2 * x[i, j // 63, j // 9 % 7, j % 9] }
  %z: f32[2, 378] = neg(%b)""", outputs="%z, %a"))
    assert "an output of the model" in tenon("compile", path, "--stop-after=layout", "--fuse=none", "--format", "a=nhwc", fails=True)
    path.write_text(path.read_text().replace("%z, %a", "%z"))
    assert "agrees" in tenon("verify", path, "--fuse=none", "--format", "a=nhwc", "--format", "b=1,0")


def test_what_is_no_order_says_so(model):
    for how in ("nchw16c", "nhwc+h1w1", "0,1/16,2,3,1%16", "0,2,3,1+2:1", "nchwcc", "nhw", "0,1,2"):
        assert "no order of its 4 dimensions. Give" in tenon("compile", model, "--stop-after=layout", "--format", f"b={how}", fails=True)
    assert '--formats: "nchwc" is not known. Give search' in tenon("compile", model, "--stop-after=layout", "--formats", "nchwc", fails=True)


def test_a_choice_by_place_around_a_sum(tmp_path):
    """What is written of a product depends on where it stands: rows of what is written are no longer one axis."""
    for choice in ("l < 9", "k < 5", "and(0 <= i - 1, k < 9)", "i < 1"):
        text = f"""graph @t(%x: f32[2, 3, 17, 23], %w: f32[16, 3, 3, 3]) -> (%b) {{
  %b: f32[2, 17, 23, 16] = call(%x, %w)
    nest relu(x: f32[2, 3, 17, 23], w: f32[16, 3, 3, 3]) -> (o: f32[2, 17, 23, 16]) {{
      o[i, k, l, j] = {choice} ? max(sum q, r0, r1: x[i, q, k + r0 - 1, l + r1 - 1 | 0] * w[j, q, r0, r1], 0) : 0
    }}
}}
"""
        path = tmp_path / "m.tn"
        path.write_text(text)
        assert "agrees" in tenon("verify", path)


def arena_of(model, *words):
    """Bytes, as planned."""
    said = re.search(r"^plan.*: arena (\d+)", tenon("compile", model, "--dump=plan", "--stop-after=plan", *words), re.M)
    return int(said[1])


def test_a_bound_on_memory_is_kept(tmp_path):
    """A transform domain is taken where there is space for it."""
    rng = np.random.default_rng(7)
    nodes, weights = [], []
    for i in range(4):
        nodes.append(helper.make_node("Conv", [f"v{i}", f"w{i}"], [f"v{i + 1}"], pads=[1, 1, 1, 1]))
        weights.append(numpy_helper.from_array((rng.standard_normal((64, 64, 3, 3)) * 0.05).astype(np.float32), f"w{i}"))
    graph = helper.make_graph(nodes, "bound", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [1, 64, 28, 28])],
                              [helper.make_tensor_value_info("v4", TensorProto.FLOAT, [1, 64, 28, 28])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    two = 2 * 64 * 28 * 28 * 4
    free = arena_of(tmp_path / "m.onnx")
    assert free > two
    for bound in (two, (two + free) // 2, free):
        assert arena_of(tmp_path / "m.onnx", "--max-arena", bound) <= bound
    assert "agrees" in tenon("verify", tmp_path / "m.onnx", "--max-arena", two)
    assert "(--max-arena, max_arena_bytes)" in tenon("compile", tmp_path / "m.onnx", "--stop-after=plan", "--max-arena", two // 4, fails=True)


def test_a_dump_of_the_stage_is_a_model(model, tmp_path):
    """It parses, means the same, and nothing is left to be changed in it."""
    tenon("compile", model, "--dump=layout", "--stop-after=layout", "--dump-dir", tmp_path, "--formats", "nhwc")
    path = next(tmp_path.glob("*layout.tn"))
    assert "agrees" in tenon("verify", path)
    assert layout(path, "--formats", "none")[1] == layout(model, "--formats", "nhwc")[1]


def squeezed(path, channels=32):
    """A depthwise convolution whose average scales it, then one in steps of two: kernels of several parts, values of one point."""
    rng = np.random.default_rng(9)
    shapes = {"w1": (channels, 3, 3, 3), "w2": (channels, 1, 3, 3), "w3": (8, channels, 1, 1), "w4": (channels, 8, 1, 1), "w5": (16, channels, 3, 3)}
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1], group=channels), helper.make_node("Sigmoid", ["c"], ["d"]),
             helper.make_node("GlobalAveragePool", ["d"], ["e"]), helper.make_node("Conv", ["e", "w3"], ["f"]), helper.make_node("Conv", ["f", "w4"], ["g"]),
             helper.make_node("Mul", ["d", "g"], ["h"]), helper.make_node("Conv", ["h", "w5"], ["i"], pads=[1, 1, 1, 1], strides=[2, 2]),
             helper.make_node("Relu", ["i"], ["y"])]
    graph = helper.make_graph(nodes, "squeezed", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 40, 40])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array((rng.standard_normal(s) * 0.2).astype(np.float32), w) for w, s in shapes.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("channels", [32, 24])
def test_no_way_finds_less_than_the_search(tmp_path, channels):
    squeezed(tmp_path / "m.onnx", channels)
    price = {}
    for how in ("search", "nhwc"):
        said = re.search(r"; \d+ of \d+ values have .*: ([\d.e+]+) ms of kernels instead of ([\d.e+]+) ms", layout(tmp_path / "m.onnx", "--formats", how)[0])
        price["none"] = float(said[2]) if said else price["none"]        # nothing is said where no value has a choice
        price[how] = float(said[1]) if said else price["none"]
        assert "agrees" in tenon("verify", tmp_path / "m.onnx", "--formats", how)
    assert price["search"] <= min(price["none"], price["nhwc"])


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
    assert "an input of the model: --io-format sets its order" in text
    seconds = [seconds_of(*re.search(rf"^ +{NUMBER}  {row}", text, re.M).groups()) for row in ("as chosen", "if nothing were changed")]
    assert seconds[0] <= min(seconds[1:]) * 1.001
    assert "less in all" not in text
    assert "with --profile FILE" in text and ", measured" not in text and "; measured" not in text


def test_values_that_change_together_are_told_together(tmp_path):
    """Of a chain of elementwise kernels all lie alike; what has one element in each row lies the same in every order."""
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((16, 16, 1, 1)).astype(np.float32) * 0.2, "v": rng.standard_normal((16, 16, 1, 1)).astype(np.float32) * 0.2}
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Conv", ["a", "v"], ["b"]), helper.make_node("Add", ["a", "b"], ["c"]),
             helper.make_node("GlobalAveragePool", ["c"], ["d"]), helper.make_node("Conv", ["d", "w"], ["y"])]
    graph = helper.make_graph(nodes, "together", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 20, 20])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    text = tenon("compile", tmp_path / "m.onnx", "--target", "x86-64-v3", "--fuse", "none", "--explain-formats", "--stop-after=layout")
    assert re.search(r"^(?:  %\w+: .*\n){3}    second best \w+ for these 3 together: [\d.]+ [mu]s more in all", text, re.M)
    assert "%d" not in text and "1  the same in memory in every order that they could have" in text


def test_measured_times_stand_beside_predicted_ones(model, tmp_path):
    tenon("bench", model, "--target", "x86-64-v3", "--dim", "n=1", "--iterations", 3, "--threads", 1, "--profile", "--json", tmp_path / "times.json")
    explain = ["compile", model, "--target", "x86-64-v3", "--dim", "n=1", "--explain-formats", "--stop-after=layout", "--profile"]
    text, profile = tenon(*explain, tmp_path / "times.json"), json.loads((tmp_path / "times.json").read_text())
    ms = {}
    for kernel in profile["each"]:
        ms[kernel["origin"]] = ms.get(kernel["origin"], 0) + kernel["ms"]
    changed = re.findall(rf"^  Conv .*\n +[\d.]+ KB; the kernel is predicted to take .*; measured {NUMBER}$", text, re.M)
    assert changed and "missing" not in text and "with --profile FILE" not in text
    for measured in changed:
        assert min(abs(seconds_of(*measured) * 1e3 / one - 1) for one in ms.values()) < 1e-3
    whole = re.search(rf"as chosen, measured {NUMBER} on 1 thread \(times.json\)$", text, re.M)
    assert abs(seconds_of(*whole.groups()) * 1e3 / sum(ms.values()) - 1) < 1e-3
    profile["each"] = profile["each"][1:]
    (tmp_path / "fewer.json").write_text(json.dumps(profile, indent=1))
    assert "where 1 of these kernels are missing" in tenon(*explain, tmp_path / "fewer.json")
    for said in ("[]", "{", '{"each": 7, "kernels": [{"ms": 1}]}', '{"each": [{"ms": 1, "origin": "a', '{"each": [{"ms": 1}]}'):
        (tmp_path / "no.json").write_text(said)
        assert "holds no times of kernels; `tenon bench MODEL --profile --json FILE` writes them" in tenon(*explain, tmp_path / "no.json", fails=True)
    assert "give both" in tenon("compile", model, "--profile", tmp_path / "times.json", fails=True)
