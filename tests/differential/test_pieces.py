"""What is put side by side is made in its place (src/format/concat.c): the numbers are the interpreter's and ONNX Runtime's, the call that copied is gone,
and what cannot lie within another value stays as it was."""
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from targets import TARGET

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
HEIGHT, WIDTH = 9, 11


class Net:
    """A graph over one image, as it is written down."""

    def __init__(self, channels=3):
        self.random = np.random.default_rng(5)
        self.nodes, self.weights, self.channels = [], [], {"x": channels}
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, HEIGHT, WIDTH])]

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array((self.random.standard_normal(shape) * 0.2).astype(np.float32), name))
        return name

    def call(self, op, out, *of, channels, **attributes):
        self.nodes.append(helper.make_node(op, list(of), [out], name=out, **attributes))
        self.channels[out] = channels
        return out

    def conv(self, out, of, channels, window=3, **attributes):
        return self.call("Conv", out, of, self.weight(channels, self.channels[of] // attributes.get("group", 1), window, window), channels=channels,
                         pads=[window // 2] * 4, **attributes)

    def beside(self, out, *of):
        return self.call("Concat", out, *of, axis=1, channels=sum(self.channels[v] for v in of))

    def save(self, path, *outputs):
        given = [helper.make_tensor_value_info(v, TensorProto.FLOAT, ["n", self.channels[v], HEIGHT, WIDTH]) for v in outputs]
        graph = helper.make_graph(self.nodes, "pieces", self.inputs, given, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def beside(*channels):
    """Convolutions of one image side by side, and two windows that read all of them."""
    def net(m):
        m.conv("h", "x", 8)
        parts = [m.call("Relu", f"p{i}", m.conv(f"c{i}", "h", c, 3 if i % 2 else 1), channels=c) for i, c in enumerate(channels)]
        m.beside("all", *parts)
        m.conv("u", "all", 8)
        m.conv("v", "all", 8)
        return "u", "v"
    return net


def read_by_others(m):
    """A part is added to what is made of all, and goes through a window by itself."""
    m.conv("a", "x", 12)
    m.conv("b", m.conv("h", "a", 12), 20)
    m.beside("all", "a", "b")
    m.call("Add", "r", m.conv("u", "all", 12), "a", channels=12)
    m.call("Add", "y", "r", m.conv("w", "b", 12), channels=12)
    return ("y",)


def of_depthwise_and_pool(m):
    m.conv("h", "x", 16)
    m.conv("d", "h", 16, group=16)
    m.call("MaxPool", "p", "h", kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1], channels=16)
    m.beside("all", "d", "p")
    m.conv("y", "all", 8)
    return ("y",)


def growing(m):
    """Each layer reads all before it; lists that begin with the list before."""
    m.conv("l0", "x", 16)
    m.beside("a1", "l0", m.conv("l1", "l0", 8))
    m.beside("a2", "a1", m.conv("l2", "a1", 8))
    m.beside("a3", "a2", m.conv("l3", "a2", 8))
    m.conv("y", "a3", 8)
    return ("y",)


def growing_flat(m):
    m.conv("l0", "x", 16)
    m.beside("a1", "l0", m.conv("l1", "l0", 8))
    m.beside("a2", "l0", "l1", m.conv("l2", "a1", 8))
    m.beside("a3", "l0", "l1", "l2", m.conv("l3", "a2", 8))
    m.conv("y", "a3", 8)
    return ("y",)


def whole_is_an_output(m):
    m.conv("h", "x", 8)
    m.beside("all", m.conv("a", "h", 8), m.conv("b", "h", 24))
    m.conv("y", "all", 8)
    return "all", "y"


def part_is_an_output(m):
    m.conv("h", "x", 8)
    m.beside("all", m.conv("a", "h", 8), m.conv("b", "h", 24))
    m.conv("y", "all", 8)
    return "a", "y"


def part_is_an_input(m):
    m.beside("all", "x", m.conv("b", "x", 13))
    m.conv("y", "all", 8)
    m.conv("z", "all", 8)
    return "y", "z"


def part_is_constant(m):
    constant = m.weight(1, 4, HEIGHT, WIDTH)
    m.channels[constant] = 4
    m.conv("h", "x", 8)
    m.beside("all", m.conv("b", "h", 13), constant)
    m.conv("y", "all", 8)
    m.conv("z", "all", 8)
    return "y", "z"


def twice(m):
    m.beside("all", m.conv("a", "x", 8), "a")
    m.conv("y", "all", 8)
    m.conv("z", "all", 8)
    return "y", "z"


def in_two_rows(m):
    """A value lies within one other alone."""
    m.conv("a", "x", 8)
    m.conv("b", "a", 8)
    m.conv("c", "a", 8)
    m.beside("ab", "a", "b")
    m.beside("ca", "c", "a")
    m.call("Add", "y", m.conv("u", "ab", 8), m.conv("v", "ca", 8), channels=8)
    return ("y",)


# how many rows have their parts in their places
NETS = {"two": (beside(16, 16), 1), "three": (beside(16, 32, 8), 1), "odd": (beside(7, 9), 1), "one": (beside(1, 16), 0), "narrow": (beside(2, 16), 1), "odd_three": (beside(5, 6, 8), 1),
        "read_by_others": (read_by_others, 1), "of_depthwise_and_pool": (of_depthwise_and_pool, 1), "growing": (growing, 3), "growing_flat": (growing_flat, 3),
        "whole_is_an_output": (whole_is_an_output, None), "part_is_an_output": (part_is_an_output, 0), "part_is_constant": (part_is_constant, 0),
        "part_is_an_input": (part_is_an_input, 0), "twice": (twice, 0), "in_two_rows": (in_two_rows, 1)}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    for name, (net, _) in NETS.items():
        m = Net()
        m.save(folder / f"{name}.onnx", *net(m))
    return folder


def tenon(*words):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def joined(model, folder, *words, stage="layout"):
    tenon("compile", model, f"--dump={stage}", f"--stop-after={stage}", "--dump-dir", folder, *words)
    return next(folder.glob(f"*{stage}.t*")).read_text()


WORDS = {"n1": ["--dim", "n=1"], "n3": ["--dim", "n=3"], "any": [], "first": ["--formats", "none", "--dim", "n=1"], "first_any": ["--formats", "none"],
         "unfused": ["--fuse", "none", "--dim", "n=1"], "clang": ["--cc", "clang", "--dim", "n=2"], "fused": ["--formats", "nhwc", "--fuse", "none", "--dim", "n=1"],
         "avx2": ["--target", "x86-64-v3", "--dim", "n=1"], "exact": ["--exact", "--dim", "n=1"], "last": ["--formats", "nhwc"]}


def verify(models, name, *words):
    """A constant has one batch, so what it stands beside has one as well."""
    words = ["n=1" if name == "part_is_constant" and w.startswith("n=") else w for w in words]
    assert "agrees" in tenon("verify", models / f"{name}.onnx", *words)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("name", NETS)
def test_numbers(models, name, words):
    for threads in ("1", "2"):
        verify(models, name, "--threads", threads, *WORDS[words])


@pytest.mark.parametrize("name", NETS)
def test_who_lies_within(models, name, tmp_path):
    text = joined(models / f"{name}.onnx", tmp_path, "--dim", "n=1", "--formats", "nhwc")
    count = len(re.findall(r"its operands are stored in their places", text))
    assert count == len(re.findall(r" = join\(.*\) along 3", text)) and (NETS[name][1] is None or TARGET != "native" or count == NETS[name][1]), text    # prices differ by target


@pytest.mark.parametrize("name", NETS)
def test_every_stage_is_a_model(models, name, tmp_path):
    """What the stages show is read again and means the same."""
    tenon("compile", models / f"{name}.onnx", "--dump=all", "--stop-after=format", "--dump-dir", tmp_path, "--dim", "n=1", "--formats", "nhwc")
    for stage in ("layout", "choose", "format"):
        assert "agrees" in tenon("verify", next(tmp_path.glob(f"*{stage}.tn")))


def test_in_a_branch(tmp_path):
    """A graph that a node runs has wholes of its own, in memory of its caller's."""
    m = Net()
    branches = {}
    for name, channels in (("then", 24), ("else", 32)):
        before = len(m.nodes)
        m.conv(f"{name}_h", "x", 8)
        m.beside(f"{name}_all", m.conv(f"{name}_a", f"{name}_h", channels), m.conv(f"{name}_b", f"{name}_h", 16))
        m.call("Add", f"{name}_y", m.conv(f"{name}_u", f"{name}_all", 8, 5), m.conv(f"{name}_v", f"{name}_all", 8), channels=8)
        given = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        branches[f"{name}_branch"] = helper.make_graph(m.nodes[before:], name, [], [given])
        del m.nodes[before:]
    m.inputs.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
    m.call("If", "z", "which", channels=8, **branches)
    m.save(tmp_path / "m.onnx", m.conv("y", "z", 8))
    assert joined(tmp_path / "m.onnx", tmp_path, "--formats", "nhwc").count(") along 3") == 2
    for value in (True, False):
        np.save(tmp_path / "which.npy", np.array(value))
        verify(tmp_path, "m", "--formats", "nhwc", "--dim", "n=2", "--input", f"which=@{tmp_path}/which.npy")


def test_one_block_and_no_call(models, tmp_path):
    model = models / "two.onnx"
    text = joined(model, tmp_path, "--dim", "n=1", "--formats", "nhwc", stage="plan")
    place = {name: int(at) for name, at in re.findall(r"^  %(\w+) .* arena \+ (\d+)$", text, re.M)}
    assert place["p0"] == place["all"] and place["p1"] == place["all"] + 16 * 4
    tenon("compile", model, "--dim", "n=1", "--formats", "nhwc", "-o", tmp_path / "m.so")
    assert "Concat" not in tenon("inspect", tmp_path / "m.so")


@pytest.mark.parametrize("name", NETS)
def test_against_onnx_runtime(models, name):
    pytest.importorskip("onnxruntime")
    verify(models, name, "--against", "onnxruntime", "--python", sys.executable, "--dim", "n=2")
