"""Broken models and wrong inputs: each gets one message that says where, what, and what to do, and an exit
code by class. Nothing crashes, hangs, or reads outside the model's folder.

TENON names the command (default: build/tenon).
"""
import os
import random
import resource
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema as onnxruntime_schemas

from targets import SANITIZED

ROOT = Path(__file__).resolve().parents[2]
TENON = str(Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
OK, DIFFERS, USAGE, MODEL, UNSUPPORTED, LIMIT, TOOLCHAIN, INTERNAL = 0, 1, 2, 3, 4, 5, 6, 7
F, I = TensorProto.FLOAT, TensorProto.INT64
SECONDS = 20                # far above what any of these needs, also under a sanitizer


def run(*args, cwd=None):
    """The command, which ends in time, by itself, and in one of the documented ways."""
    done = subprocess.run([TENON, *map(str, args)], cwd=cwd, capture_output=True, text=True, errors="replace", timeout=SECONDS)
    assert 0 <= done.returncode < 8, f"ended with {done.returncode}: {done.stderr}"
    assert done.returncode != INTERNAL, done.stderr
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    return done


def check(path, stage="rules"):
    return run("compile", path, f"--stop-after={stage}")


def fails(code, path, *says, stage="rules"):
    """Refused with this code; every part of the message is there, and the file is named."""
    done = check(path, stage)
    assert done.returncode == code, (done.returncode, done.stderr)
    for part in says:
        assert part in done.stderr, done.stderr
    assert Path(path).name in done.stderr, done.stderr
    return done


def accepted(path, stage="rules"):
    done = check(path, stage)
    assert done.returncode == OK, done.stderr
    return done


def node(op, ins, outs="y", name=None, **attrs):
    return helper.make_node(op, ins.split(), outs.split(), name=name or op.lower(), **attrs)


def value(name, dims, dtype=F):
    return helper.make_tensor_value_info(name, dtype, dims)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def make(nodes, inputs=None, outputs=None, weights=(), opset=17, **graph_args):
    graph = helper.make_graph(nodes, "g", [value("x", ["n", 4])] if inputs is None else inputs,
                              [value("y", None)] if outputs is None else outputs, list(weights), **graph_args)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


@pytest.fixture
def save(tmp_path):
    def to(model, name="model.onnx"):
        path = tmp_path / name
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path
    return to


def mlp():
    return make([node("MatMul", "x w", "h"), node("Add", "h b", "s"), node("Relu", "s")],
                weights=[tensor("w", np.ones((4, 3), np.float32)), tensor("b", np.ones(3, np.float32))])


def vision():
    """Something of everything that importing treats specially."""
    return make([node("Conv", "x w", "c", pads=[1, 1, 1, 1], strides=[2, 2]), node("BatchNormalization", "c s s s s", "m"),
                 node("Clip", "m lo hi", "k"), node("Shape", "k", "d"), node("Gather", "d zero", "n0", axis=0),
                 node("Unsqueeze", "n0 axes", "n1"), node("Concat", "n1 rest", "t", axis=0), node("Reshape", "k t", "f"),
                 node("Constant", "", "q", value=tensor("v", np.float32(2))), node("Mul", "f q")],
                inputs=[value("x", ["n", 2, 6, 6])],
                weights=[tensor("w", np.ones((3, 2, 3, 3), np.float32)), tensor("s", np.ones(3, np.float32)),
                         tensor("lo", np.float32(0)), tensor("hi", np.float32(6)), tensor("zero", np.int64(0)),
                         tensor("axes", np.array([0])), tensor("rest", np.array([-1]))])


# ---- damaged files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [mlp, vision])
def test_the_undamaged_model_is_fine(save, model):
    accepted(save(model()), "schedule")


@pytest.mark.parametrize("model", [mlp, vision])
def test_truncated(save, model):
    whole = model().SerializeToString()
    for n in sorted({0, 1, 2, 3, len(whole) - 1} | {len(whole) * k // 50 for k in range(50)}):
        path = save(whole[:n])
        done = check(path)
        # Optional fields come last: a cut may leave a model that is whole, or one without an opset.
        assert done.returncode in (OK, MODEL, UNSUPPORTED), (n, done.stderr)
        assert done.returncode == OK or "model.onnx" in done.stderr


@pytest.mark.parametrize("seed", range(30))
def test_flipped_bytes(save, seed):
    rng = random.Random(seed)
    whole = bytearray((mlp if seed % 2 else vision)().SerializeToString())
    for _ in range(6):
        broken = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            broken[rng.randrange(len(broken))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        path = save(bytes(broken))
        for done in (check(path), run("inspect", path)):
            assert done.returncode in (OK, MODEL, UNSUPPORTED, LIMIT), (bytes(broken), done.returncode, done.stderr)
            assert done.returncode == OK or "model.onnx" in done.stderr, done.stderr


def field(number, payload):
    """A length-delimited field of protobuf's wire format."""
    def varint(n):
        out = b""
        while n > 0x7F:
            out += bytes([n & 0x7F | 0x80])
            n >>= 7
        return out + bytes([n])
    return varint(number << 3 | 2) + varint(len(payload)) + payload


@pytest.mark.parametrize("depth", [70, 1500])
def test_deeply_nested_messages(save, depth):
    graph = b""
    for _ in range(depth):
        graph = field(1, field(5, field(6, graph)))          # a node with an attribute that is a graph
    fails(LIMIT, save(field(7, graph)), "levels deep, the limit is 200; raise it with --max-depth")


def test_a_length_beyond_the_file(save):
    fails(MODEL, save(b"\x3a\xff\xff\xff\xff\x0f"), "ends in the middle", "export or copy it again")


def test_an_empty_file_and_a_library(save):
    fails(MODEL, save(b""), "empty")
    fails(MODEL, save(b"\x7fELF" + bytes(1000)), "this is a library")


def test_files_of_other_formats_are_recognised(save):
    def fails(code, path, *says):
        for done in (check(path), run("inspect", path)):
            assert done.returncode == code and all(part in done.stderr for part in says), done.stderr
    fails(MODEL, save(b"GGUF\3" + bytes(1000)), "this is a GGUF file", "export")
    fails(MODEL, save(b"\x40" + bytes(7) + b'{"a":{}}' + bytes(100)), "this is a safetensors file", "export")
    fails(MODEL, save(b"\x1c\0\0\0TFL3" + bytes(100)), "this is a TensorFlow Lite model", "tf2onnx")
    fails(MODEL, save(b"PK\x03\x04" + bytes(1000)), "as PyTorch saves models", "torch.onnx.export")
    fails(MODEL, save(b"\x89HDF" + bytes(100)), "as Keras saves models", "export")
    pickle = b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\2M\xe9\3."       # torch.save's own first two
    fails(MODEL, save(pickle + bytes(100)), "as PyTorch saved models", "torch.onnx.export")


@pytest.mark.parametrize("file, says", [
    ("config.json", "optimum-cli export onnx --model {}"), ("saved_model.pb", "--saved-model {}"),
    ("model.onnx", "give {}/model.onnx"), ("other", "it is a folder, a file is needed")])
def test_folders_of_other_formats_are_recognised(tmp_path, file, says):
    (tmp_path / file).write_bytes(b"{}")
    (tmp_path / "model.safetensors").write_bytes(b"\x40" + bytes(7) + b'{"a":{}}')
    for done in (check(tmp_path), run("inspect", tmp_path)):
        assert done.returncode in (USAGE, MODEL) and says.format(tmp_path) in done.stderr, done.stderr


def test_a_model_without_a_graph(save):
    fails(MODEL, save(onnx.ModelProto(ir_version=8)), "no graph")


# ---- names and order --------------------------------------------------------------------------------------


def test_unsorted_nodes_are_sorted(save):
    model = mlp()
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    accepted(save(model), "schedule")


@pytest.mark.parametrize("nodes", [
    [node("Add", "x a", "a", name="own")],
    [node("Add", "x b", "a", name="own"), node("Relu", "a", "b"), node("Relu", "b")],
])
def test_cycles(save, nodes):
    fails(MODEL, save(make(nodes, outputs=[value("a", None)])), "cycle", "node ")


def test_what_nobody_makes(save):
    fails(MODEL, save(make([node("Add", "x nowhere", name="sum")])), "\"nowhere\"", "sum", "made by no node")
    fails(MODEL, save(make([node("Relu", "x", "h")])), "output \"y\"", "made by no node")


def test_duplicate_names(save):
    fails(MODEL, save(make([node("Relu", "x", "h"), node("Abs", "x", "h", name="second")])), "\"h\"", "second", "two nodes")
    fails(MODEL, save(make([node("Relu", "x")], inputs=[value("x", [1]), value("x", [2])])), "\"x\"", "twice")
    w = tensor("w", np.ones(4, np.float32))
    fails(MODEL, save(make([node("Add", "x w")], weights=[w, w])), "\"w\"", "twice")
    fails(MODEL, save(make([node("Relu", "x", "x")])), "\"x\"")


def test_outputs_that_are_inputs_or_constants(save, tmp_path):
    w = tensor("w", np.arange(3, dtype=np.float32))
    model = save(make([node("Relu", "x", "y")], outputs=[value("x", None), value("w", None), value("y", None), value("y", None)], weights=[w]))
    accepted(model, "emit")


def test_no_outputs_and_no_nodes(save):
    fails(MODEL, save(make([node("Relu", "x")], outputs=[])), "no outputs")
    accepted(save(make([], outputs=[value("x", None)])))


def test_an_empty_output_name(save):
    model = make([node("Relu", "x")])
    model.graph.output[0].name = ""
    fails(MODEL, save(model), "output")


# ---- operators ------------------------------------------------------------------------------------------------


def test_every_unsupported_node_is_reported_at_once(save):
    path = save(make([node("Frobnicate", "x", "a", name="first"), node("Relu", "a", "b"), node("FooBar", "x", "c", name="third"),
                      helper.make_node("Attention", ["x"], ["d"], name="fourth", domain="com.example"),
                      node("Add", "b c", name="last")], outputs=[value("y", None), value("d", None)]))
    done = fails(UNSUPPORTED, path, "Frobnicate", "FooBar", "Attention", "com.example", "first", "third", "fourth")
    assert done.stderr.count("error") == 3, done.stderr
    told = run("inspect", path)
    assert told.returncode == OK and all(op in told.stdout for op in ("Frobnicate", "FooBar", "Attention"))


@pytest.mark.parametrize("op, says", [("Rleu", "there is no operator Rleu; did you mean Relu?"), ("maxpool", "did you mean MaxPool?"),
                                      ("Zyzzyva", "there is no operator Zyzzyva in ONNX, and Tenon has none of that name; `tenon operators` lists those it has. "
                                                  "Define it as nests in a text (--nests FILE), or in C in a library (--library FILE)"),
                                      ("N" * 200, "in ONNX, and Tenon has none of that name")])
def test_names_of_operators(save, op, says):
    """A mistyped name gets the nearest one."""
    fails(UNSUPPORTED, save(make([node(op, "x", name="n")])), says, "tenon operators" if "did you" not in says else "n")


def test_operator_of_another_domain(save):
    fails(UNSUPPORTED, save(make([helper.make_node("Inverse", ["x"], ["y"], name="n", domain="com.microsoft")])),
          "there is no operator com.microsoft.Inverse in ONNX, and Tenon has none of that name", "tenon operators")


def test_opsets(save):
    fails(UNSUPPORTED, save(make([node("Relu", "x")], opset=99)), "opset 99", "export")
    model = make([node("Relu", "x")])
    model.opset_import[0].version = -1
    fails(MODEL, save(model), "opset -1")


def test_a_domain_nobody_uses_is_no_error(save):
    model = make([node("Relu", "x")])
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    accepted(save(model))


@pytest.mark.parametrize("attrs, says", [
    (dict(alpha="much"), ["\"alpha\"", "a float", "not a string"]),
    (dict(alpha=[1.0, 2.0]), ["\"alpha\"", "a float", "not floats"]),
])
def test_attributes_of_a_wrong_kind(save, attrs, says):
    fails(MODEL, save(make([node("LeakyRelu", "x", name="leak", **attrs)])), "leak", *says)


def test_attributes_of_a_wrong_kind_elsewhere(save):
    fails(MODEL, save(make([node("Transpose", "x", perm=[1.5, 0.0])])), "\"perm\"", "must be integers, not floats")
    fails(MODEL, save(make([node("Softmax", "x", axis=0.5)])), "\"axis\"", "must be an integer, not a float")
    fails(MODEL, save(make([node("Softmax", "x", axis="last")])), "\"axis\"", "must be an integer, not a string")
    broken = make([node("Softmax", "x", axis=1)])
    broken.graph.node[0].attribute[0].type = 0
    assert check(save(broken)).returncode in (OK, MODEL)
    broken.graph.node[0].attribute[0].type = 4
    fails(MODEL, save(broken), "\"axis\"", "must be an integer")


@pytest.mark.parametrize("op, attrs, says", [
    ("LeakyRelu", dict(alpha=3), "\"alpha\" is an integer where ONNX has a float"),
    ("LeakyRelu", dict(alpha=[0.5]), "\"alpha\" is floats where ONNX has a float"),
    ("Softmax", dict(axis=0.0), "\"axis\" is a float where ONNX has an integer"),
    ("MaxPool", dict(kernel_shape=1), "\"kernel_shape\" is an integer where ONNX has integers"),
])
def test_numbers_of_another_kind_that_mean_the_same(save, op, attrs, says):
    model = make([node(op, "x", **attrs)], inputs=[value("x", [1, 2, 4])])
    assert says in accepted(save(model)).stderr


def test_unknown_attributes(save):
    fails(UNSUPPORTED, save(make([node("Relu", "x", name="r", colour=3)])), "\"colour\"", "Relu", "\"r\"")


def test_missing_attributes(save):
    fails(MODEL, save(make([node("Cast", "x", name="convert")])), "\"to\"", "convert")
    fails(MODEL, save(make([node("Concat", "x x", name="join")])), "axis", "join")
    fails(MODEL, save(make([node("Einsum", "x x", name="sum")])), "equation", "sum")
    fails(MODEL, save(make([node("Constant", "", name="none")])), "value", "none")


@pytest.mark.parametrize("made, says", [
    (node("Add", "x", name="n1"), ["Add", "takes 2 inputs", "has 1", "n1"]),
    (node("Relu", "x x", name="n1"), ["Relu", "has 2 inputs", "1 are needed", "n1"]),
    (node("Relu", "", name="n1"), ["Relu", "has 0 inputs", "1 are needed", "n1"]),
    (helper.make_node("MatMul", ["", "x"], ["y"], name="n1"), ["MatMul", "input 0", "n1"]),
    (node("Relu", "x", "y z", name="n1"), ["Relu", "n1"]),
    (node("Clip", "", name="n1"), ["Clip", "n1"]),
    (node("Split", "", "y z", name="n1"), ["Split", "n1"]),
    (node("Concat", "", name="n1", axis=0), ["Concat", "n1"]),
])
def test_arity(save, made, says):
    done = check(save(make([made])))
    assert done.returncode in (MODEL, UNSUPPORTED), (done.returncode, done.stderr)
    for part in says:
        assert part in done.stderr, done.stderr


def test_no_outputs_of_a_node(save):
    model = make([helper.make_node("Relu", ["x"], [], name="deaf"), node("Relu", "x")])
    accepted(save(model))


@pytest.mark.parametrize("made, says", [
    (node("MatMul", "z w", name="p"), ["p", "8", "3"]),
    (node("Reshape", "x s", name="p"), ["p", "shape"]),
    (node("Reshape", "x minus", name="p"), ["p", "-3"]),
    (node("Reshape", "x unsure", name="p"), ["p", "-1", "one is allowed"]),
    (node("Reshape", "z prime", name="p"), ["p", "7", "shape"]),
    (node("Transpose", "x", perm=[0, 0], name="p"), ["p", "perm"]),
    (node("Transpose", "x", perm=[0, 7], name="p"), ["p", "perm"]),
    (node("Transpose", "x", perm=[1 << 40, -1 << 62], name="p"), ["p", "perm"]),
    (node("Softmax", "x", axis=9, name="p"), ["p", "axis", "9"]),
    (node("Softmax", "x", axis=-(1 << 63), name="p"), ["p", "axis"]),
    (node("Concat", "x x", axis=1 << 40, name="p"), ["p", "axis"]),
    (node("Flatten", "x", axis=-9, name="p"), ["p", "axis"]),
    (node("Cast", "x", to=77, name="p"), ["p", "77"]),
    (node("Einsum", "x", equation="a[->]", name="p"), ["p", "equation"]),
    (node("Einsum", "x x", equation="ab,bc,cd->ad", name="p"), ["p", "equation"]),
    (node("Einsum", "x", equation="..." * 5000 + "->", name="p"), ["p", "equation"]),
    (node("Einsum", "x", equation="ab->" + "ab" * 5000, name="p"), ["p", "equation", "12 axes"]),
    (node("Einsum", "x x x x x x x", equation="ab,cd,ef,gh,ij,kl,mn", name="p"), ["p", "equation", "12 axes"]),
    (node("MaxPool", "x", kernel_shape=[2, 2], name="p"), ["p"]),
    (node("MaxPool", "z", kernel_shape=[0, 2], name="p"), ["p", "kernel_shape"]),
    (node("MaxPool", "z", kernel_shape=[2, 2], strides=[0, 1], name="p"), ["p", "strides"]),
    (node("MaxPool", "z", kernel_shape=[2, 2], strides=[-1, 1], name="p"), ["p", "strides"]),
    (node("MaxPool", "z", kernel_shape=[2, 2], dilations=[0, 1], name="p"), ["p", "dilations"]),
    (node("MaxPool", "z", kernel_shape=[2, 2], pads=[1], name="p"), ["p", "pads"]),
    (node("MaxPool", "z", kernel_shape=[2, 2], pads=[-9, 0, -9, 0], name="p"), ["p", "pads"]),
    (node("MaxPool", "z", kernel_shape=[1 << 62, 1 << 62], name="p"), ["p"]),
    (node("MaxPool", "z", kernel_shape=[100, 100], name="p"), ["p", "100"]),
    (node("MaxPool", "z", kernel_shape=[2, 2], pads=[1 << 62, 0, 1 << 62, 0], name="p"), ["p"]),
    (node("MaxPool", "z", kernel_shape=[2, 2], auto_pad="SIDEWAYS", name="p"), ["p", "SIDEWAYS"]),
    (node("Conv", "z w", name="p"), ["p"]),
    (node("Conv", "z w", group=0, name="p"), ["p", "group"]),
    (node("Conv", "z w", group=-3, name="p"), ["p", "group"]),
    (node("Conv", "z w", group=1 << 62, name="p"), ["p", "group"]),
    (node("DepthToSpace", "z", blocksize=0, name="p"), ["p", "blocksize"]),
    (node("DepthToSpace", "z", blocksize=1 << 40, name="p"), ["p", "blocksize"]),
    (node("SpaceToDepth", "z", blocksize=5, name="p"), ["p", "5"]),
    (node("LRN", "z", size=0, name="p"), ["p", "size"]),
    (node("Squeeze", "z zero", name="p"), ["p"]),
    (node("Unsqueeze", "z axes", name="p"), ["p"]),
    (node("Tile", "z zero", name="p"), ["p", "repeats"]),
    (node("Tile", "x minus", name="p"), ["p", "repeats"]),
    (node("Expand", "x minus", name="p"), ["p"]),
    (node("Slice", "x zero zero axes", name="p"), ["p"]),
    (node("Slice", "x zero zero zero zero", name="p"), ["p", "step"]),
    (node("Pad", "x minus", name="p"), ["p", "pads"]),
    (node("Gather", "x i", axis=5, name="p"), ["p", "axis"]),
    (node("GatherND", "x i", batch_dims=-1, name="p"), ["p", "batch_dims"]),
    (node("GatherND", "x open", name="p"), ["p", "i64[n, w]", "f32[n, 4]", "--dim"]),
    (node("OneHot", "i minus v", name="p"), ["p", "depth"]),
    (node("Split", "x minus", "y q", name="p"), ["p"]),
    (node("LayerNormalization", "x s", axis=4, name="p"), ["p", "axis"]),
    (node("Resize", "z roi none sizes", mode="cubism", name="p"), ["p"]),
    (node("ConstantOfShape", "minus", name="p"), ["p", "-3"]),
    (node("CumSum", "x nine", name="p"), ["p", "9"]),
    (node("TopK", "x nine", "y j", name="p"), ["p", "TopK"]),
    (node("Range", "one nine nothing", name="p"), ["p", "delta"]),
])
def test_operators_given_nonsense(save, made, says):
    model = make([made], inputs=[value("x", ["n", 4]), value("z", [2, 3, 8, 8]), value("i", [2], I), value("open", ["n", "w"], I)],
                 weights=[tensor("w", np.ones((3, 2, 3, 3), np.float32)), tensor("s", np.ones(4, np.float32)),
                          tensor("zero", np.array([0, 0])), tensor("axes", np.array([9, -9])), tensor("minus", np.array([-3, -2])),
                          tensor("v", np.ones(2, np.float32)), tensor("sizes", np.ones(4, np.int64)), tensor("none", np.zeros(0, np.float32)),
                          tensor("roi", np.zeros(0, np.float32)), tensor("nine", np.int64(9)), tensor("one", np.int64(1)),
                          tensor("nothing", np.int64(0)), tensor("unsure", np.array([5, -1, -1])),
                          tensor("prime", np.array([7, -1]))])
    done = check(save(model), "emit")
    assert done.returncode in (MODEL, UNSUPPORTED, LIMIT), (done.returncode, done.stderr)
    for part in says:
        assert part in done.stderr, done.stderr


@pytest.mark.parametrize("pattern, code, says", [
    ("|" * 300000, UNSUPPORTED, "too long a program"),
    ("a" + "{1}" * 200000, UNSUPPORTED, "a repetition of a repetition"),
    ("a**", UNSUPPORTED, "a repetition of a repetition"),
    ("((((){1000}){1000}){1000}){1000}", OK, ""),
    ("(a|b|c|){2}[{]a{", OK, ""),
])
def test_regular_expressions_that_are_long(save, pattern, code, says):
    model = make([node("RegexFullMatch", "x", pattern=pattern)], inputs=[value("x", ["n"], TensorProto.STRING)], opset=20)
    done = check(save(model))
    assert done.returncode == code and says in done.stderr, done.stderr[-200:]


@pytest.mark.parametrize("op, inputs, outputs, attrs, says", [
    ("LSTM", "x w", "y", {}, ["3 inputs", "has 2"]),
    ("RNN", "x w r . . h h", "y", {}, ["6 inputs", "has 7"]),
    ("GRU", "x w3 r3", "y h c", {}, ['output 2 ("c")']),
    ("LSTM", "i w r", "y", {}, ["X is i32[t, 2, 3]", "floats"]),
    ("LSTM", "x double r", "y", {}, ["X is f32[t, 2, 3]", "W is f64[1, 16, 3]"]),
    ("LSTM", "x w3 r", "y", {}, ["axis 1 of input 1 (W) and gates*n differ: 12 and 16"]),
    ("LSTM", "x w r short", "y", {}, ["axis 1 of input 3 (B) and 2*gates*n differ: 31 and 32"]),
    ("LSTM", "x w r . three", "y", {}, ["axis 0 of input 4 (sequence_lens) and axis 1 of X differ: 3 and 2"]),
    ("LSTM", "x w r . . h3", "y", {}, ["axis 1 of input 5 (initial_h) and axis 1 of X differ: 3 and 2"]),
    ("LSTM", "x w r", "y", {"hidden_size": 5}, ["hidden_size is 5", "R has 4"]),
    ("LSTM", "x w r", "y", {"direction": "up"}, ['"up"', "forward, reverse, bidirectional"]),
    ("LSTM", "x w r", "y", {"activations": ["Tanh", "Sine", "Tanh"]}, ['"activations"', '"Sine"']),
])
def test_recurrent_networks_given_nonsense(save, op, inputs, outputs, attrs, says):
    names = ["" if i == "." else i for i in inputs.split()]
    model = make([helper.make_node(op, names, outputs.split(), name="p", **attrs)], inputs=[value("x", ["t", 2, 3]), value("i", ["t", 2, 3], TensorProto.INT32)],
                 weights=[tensor("w", np.ones((1, 16, 3), "f4")), tensor("r", np.ones((1, 16, 4), "f4")), tensor("w3", np.ones((1, 12, 3), "f4")),
                          tensor("r3", np.ones((1, 12, 4), "f4")), tensor("double", np.ones((1, 16, 3))), tensor("short", np.ones((1, 31), "f4")),
                          tensor("three", np.ones(3, "i4")), tensor("h", np.ones((1, 2, 4), "f4")), tensor("h3", np.ones((1, 3, 4), "f4"))])
    done = check(save(model))
    assert done.returncode in (MODEL, UNSUPPORTED), (done.returncode, done.stderr)
    for part in ["p", *says]:
        assert part in done.stderr, done.stderr


@pytest.mark.parametrize("inputs, body, says", [
    ("float t, bool c", "more = Identity (go)", ["number of iterations", "f32[]", "i64"]),
    ("int64[2] t, bool c", "more = Identity (go)", ["number of iterations", "i64[2]"]),
    ("int64 t, float c", "more = Identity (go)", ["condition", "f32[]", "bool"]),
    ("int64 t, bool c", "more = Neg (v)", ["first result", "f32", "bool"]),
    ("int64 t, bool c", "more = Greater (v, v)", ["first result", "bool[", "one bool"]),
])
def test_what_a_loop_is_told_is_one_number(save, inputs, body, says):
    model = onnx.parser.parse_model(f'''<ir_version: 8, opset_import: ["" : 17]> m ({inputs}, float[n] x) => (float[n] y) {{
        y = Loop (t, c, x) <body = b (int64 i, bool go, float[n] v) => (bool more, float[n] w) {{ w = Add (v, v) {body} }}> }}''')
    fails(MODEL, save(model), "Loop", *says)


@pytest.mark.parametrize("op, inputs, attrs, says", [
    ("MultiHeadAttention", "r r r . . . . . i", dict(num_heads=1), ["input 8 (length)", "export the model without it"]),
    ("LongformerAttention", "r r r r r r i", dict(num_heads=1), ["\"window\" is 0; 1 or more is needed"]),
    ("MatMulNBits", "x i x . i", dict(K=4, N=4), ["input 4 (g_idx)", "export the model without it"]),
    ("CausalConvWithState", "r r", dict(ndim=2), ["\"ndim\" is 2; only 1 is supported"]),
    ("CDist", "x x", dict(metric="cosine"), ["\"metric\" is \"cosine\"; these exist: sqeuclidean, euclidean"]),
    ("RotaryEmbedding", "x i x x", {}, ["input 0 (x) is f32[n, 4]; [_, _, _, ...] is needed"]),
    ("GroupQueryAttention", "r . . . . i i", dict(num_heads=2**63 - 2, kv_num_heads=2**62 + 1), ["has 4 columns for 9223372036854775806 heads"]),
    ("RestorePadding", "r i", {}, ["input 0 (rows) is f32[n, 4, 4]; [t, n] is needed"]),
    ("GatedRMSNorm", "x s x", {}, ["axis 0 of input 1 (scale), f32[s], has to be known"]),
])
def test_what_operators_require(save, op, inputs, attrs, says):
    names = ["" if i == "." else i for i in inputs.split()]
    made = helper.make_node(op, names, ["y"], name="p", domain="com.microsoft", **attrs)
    model = make([made], inputs=[value("x", ["n", 4]), value("r", ["n", 4, 4]), value("i", ["n", 4], I), value("s", ["s"])])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    done = check(save(model))
    assert done.returncode in (MODEL, UNSUPPORTED), (done.returncode, done.stderr)
    for part in ["p", *says]:
        assert part in done.stderr, done.stderr


def test_an_attribute_that_a_text_needs(save):
    fails(MODEL, save(make([node("RandomUniform", "", name="r")])), "needs the attribute \"shape\"", "r")


def test_a_text_has_no_strings_of_a_file(save):
    """What a text reads as a number may be a string in the file, even one that names itself."""
    for words in ("$sample_size", "1])\\ny = x", "%s"):
        fails(MODEL, save(make([node("Multinomial", "x", name="m", sample_size=words)])), "\"sample_size\"", "in numbers", "m")


def of_integers():
    """(domain, operator, input) of what the schemas of ONNX and of ONNX Runtime take integers of 32 or 64 bits for, and nothing else."""
    wide = {"tensor(int32)", "tensor(int64)"}
    rows = [line.split("|")[1].strip() for line in run("operators").stdout.splitlines() if line.startswith("| ")]
    known = {*rows, "SequenceAt", "SequenceInsert", "SequenceErase", "SplitToSequence"}
    schemas = [(s.domain, s.name, [set(x.types) for x in s.inputs]) for s in onnx.defs.get_all_schemas()]
    for s in onnxruntime_schemas():
        allowed = {t.type_param_str: set(t.allowed_type_strs) for t in s.type_constraints}
        schemas += [(s.domain, s.name, [allowed.get(x.typeStr, {x.typeStr}) for x in s.inputs])] if s.domain == "com.microsoft" else []
    return [(domain, op, i) for domain, op, inputs in schemas if (f"{domain}.{op}" if domain else op) in known
            for i, types in enumerate(inputs) if types and types <= wide]


@pytest.mark.parametrize("domain, op, at", of_integers())
def test_what_counts_or_places_is_integers(save, domain, op, at):
    made = helper.make_node(op, [""] * at + ["x"], ["y"], name=op, domain=domain)
    model = make([made], inputs=[value("x", [2])], opset=25)
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    full = f"{domain}.{op}" if domain else op
    fails(MODEL, save(model), f"input {at} of {full} is f32[2], and has to be of integers")


# ---- types and tensors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims, code, says", [
    ([1 << 62, 1 << 62], LIMIT, ["\"x\"", "memory"]),
    ([1 << 31, 1 << 31, 1 << 31], LIMIT, ["\"x\""]),
    ([1 << 50], LIMIT, ["\"x\""]),
    ([1] * 13, LIMIT, ["\"x\"", "rank 13", "12"]),
])
def test_dimensions_of_an_input(save, dims, code, says):
    fails(code, save(make([node("Relu", "x")], inputs=[value("x", dims)])), *says)


@pytest.mark.parametrize("none", [-1, -7, "?", "", "-1", "None", "unk__5"])
def test_dimensions_without_a_name_are_sizes_of_their_own(save, tmp_path, none):
    """Both of them, and none is that of another input called as they are then; each can be fixed."""
    path = save(make([node("Relu", "x"), node("Neg", "z", "w")], [value("x", [none, none, 2]), value("z", ["x_0"])], [value("y", [none, none, 2]), value("w", [none])]))
    for shape, code in (([2, 3, 2], OK), ([2, 2, 2], OK), ([2, 3, 1], USAGE)):
        sizes = ["--shape", f"x={'x'.join(map(str, shape))}", "--shape", "z=5"]
        done = run("verify", path, *sizes)
        assert done.returncode == code, done.stderr
    assert run("compile", path, "-o", tmp_path / "m.so", *sizes[2:]).returncode == OK
    for rows, columns in ((2, 3), (1, 1), (3, 2)):
        np.save(tmp_path / "x.npy", np.ones((rows, columns, 2), np.float32))
        done = run("run", tmp_path / "m.so", "--input", f"x=@{tmp_path / 'x.npy'}")
        assert done.returncode == OK and f"y: f32[{rows}, {columns}, 2]" in done.stdout, done.stderr
    assert run("compile", path, "-o", tmp_path / "m.so", "--shape", "x=2x3x2", "--shape", "z=5").returncode == OK
    assert "f32[2, 3, 2]" in run("inspect", tmp_path / "m.so").stdout


def test_dimensions_that_overflow_on_the_way(save):
    path = save(make([node("Expand", "x s", "h"), node("Relu", "h")], inputs=[value("x", [1])],
                     weights=[tensor("s", np.array([1 << 40, 1 << 40]))]))
    done = check(path, "emit")
    assert done.returncode in (MODEL, LIMIT) and "expand" in done.stderr, done.stderr


def claimed(dims, data_type=F, **fields):
    return onnx.TensorProto(name="w", dims=dims, data_type=data_type, **fields)


@pytest.mark.parametrize("weight, code, says", [
    (claimed([-4]), MODEL, ["dimension 0 is -4"]),
    (claimed([1 << 62, 16]), MODEL, ["\"w\"", "2^59"]),
    (claimed([1 << 40], raw_data=b"1234"), MODEL, ["\"w\"", "4", str(1 << 42)]),
    (claimed([1 << 40]), MODEL, ["\"w\"", "0", str(1 << 40)]),
    (claimed([4], raw_data=bytes(15)), MODEL, ["\"w\"", "15", "16"]),
    (claimed([4], float_data=[1, 2, 3]), MODEL, ["\"w\"", "3", "4"]),
    (claimed([1] * 13, float_data=[1]), LIMIT, ["\"w\"", "rank 13", "12"]),
    (claimed([1 << 58], TensorProto.STRING), MODEL, ["\"w\"", "it has 0 strings"]),
    (claimed([2], TensorProto.STRING, string_data=[b"a", b"b"]), MODEL, ["Add", "str[2]", "does not take strings"]),
    (claimed([2], TensorProto.COMPLEX64, float_data=[1, 2, 3, 4]), UNSUPPORTED, ["\"w\"", "complex64"]),
    (claimed([2], 99, raw_data=bytes(8)), MODEL, ["\"w\"", "99"]),
    (claimed([2], 0), MODEL, ["\"w\""]),
])
def test_weights(save, weight, code, says):
    fails(code, save(make([node("Add", "x w")], weights=[weight])), *says)


@pytest.mark.parametrize("indices,dims,says", [
    ([4], [4], ["\"w\"", "index 4", "4"]),
    ([-1], [4], ["\"w\"", "index -1", "4"]),
    ([[1, 2]], [2, 2], ["\"w\"", "index 2", "2"]),
    ([1, 2], [4], ["\"w\"", "f32[1]", "i64[2]"]),
    ([[1, 2, 3]], [4, 4], ["\"w\"", "i64[1, 3]", "[n, 2]"]),
    ([1], [-4], ["\"w\"", "dimension 0", "-4"]),
    ([1], [1 << 40, 1 << 40], ["\"w\"", "dimension 1", "2^59"]),
])
def test_sparse_weights(save, indices, dims, says):
    sparse = helper.make_sparse_tensor(tensor("w", np.ones(1, np.float32)), tensor("i", np.array(indices)), dims)
    fails(MODEL, save(make([node("Add", "x w")], sparse_initializer=[sparse])), *says)


def test_inputs_that_are_no_tensors(save):
    fails(UNSUPPORTED, save(make([node("Relu", "x")], inputs=[helper.make_tensor_sequence_value_info("x", F, [1])])), "\"x\"", "sequence")
    fails(MODEL, save(make([node("Relu", "x")], inputs=[value("x", [2], TensorProto.STRING)])), "Relu", "str[2]", "does not take strings")
    fails(MODEL, save(make([node("Relu", "x")], inputs=[onnx.ValueInfoProto(name="x")])), "\"x\"", "type")
    fails(UNSUPPORTED, save(make([node("Relu", "x")], inputs=[value("x", None)])), "\"x\"", "rank", "--shape")


def test_types_that_do_not_go_together(save):
    done = fails(MODEL, save(make([node("Add", "x i", name="mixed")], inputs=[value("x", [4]), value("i", [4], I)])), "mixed", "f32", "i64")
    fails(MODEL, save(make([node("Add", "x z", name="sum")], inputs=[value("x", [4]), value("z", [5])])), "sum", "4", "5")


def test_tensors_without_elements(save, tmp_path):
    empty = tensor("w", np.zeros((0, 4), np.float32))
    path = save(make([node("Concat", "x w", "c", axis=0), node("ReduceSum", "c", "y", keepdims=0)], weights=[empty]))
    done = run("verify", path, "--dim", "n=0")
    assert done.returncode == OK, done.stderr


# ---- small files that ask for much -----------------------------------------------------------------------------------------


def bounded(path, stage="emit", memory=2 << 30):
    """Refused or compiled, in little time and memory."""
    def limit():
        if not SANITIZED:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    done = subprocess.run([TENON, "compile", str(path), f"--stop-after={stage}"], capture_output=True, text=True, timeout=SECONDS, preexec_fn=limit)
    assert done.returncode in (OK, MODEL, UNSUPPORTED, LIMIT), (done.returncode, done.stderr)
    return done


BIG = 1 << 36


@pytest.mark.parametrize("nodes", [
    [node("ConstantOfShape", "big", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s")],
    [node("Expand", "one big", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s")],
    [node("Tile", "one1 big", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s")],
    [node("Range", "zero far step", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Cast", "s", "f", to=F), node("Add", "x f")],
    [node("ConstantOfShape", "wide", "a"), node("MatMul", "a a", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s")],
    [node("ConstantOfShape", "wide", "a"), node("CumSum", "a zero", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s")],
    [node("OneHot", "i far v", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s")],
    [node("Pad", "one1 pads", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s")],
])
def test_folding_is_bounded(save, nodes):
    weights = [tensor("big", np.array([BIG])), tensor("one", np.float32(1)), tensor("one1", np.ones(1, np.float32)),
               tensor("zero", np.int64(0)), tensor("far", np.int64(BIG)), tensor("step", np.int64(1)), tensor("wide", np.array([7000, 7000])),
               tensor("i", np.array([1, 2])), tensor("v", np.ones(2, np.float32)), tensor("pads", np.array([BIG, BIG]))]
    bounded(save(make(nodes, weights=weights)))


@pytest.mark.parametrize("dims, steps", [(["a", "b", "c"], 24), (["a"], 26)])
def test_a_chain_of_products_of_dimensions(save, dims, steps):
    """The dimension doubles its degree at each step: (a + b)^(2^20) would have a million terms, a^(2^26) has many million factors."""
    nodes = [node("Shape", "x", "s"), node("ReduceSum", "s", "d0", keepdims=1)]
    for k in range(steps):
        nodes.append(node("Mul", f"d{k} d{k}", f"d{k + 1}"))
    nodes += [node("Expand", f"one d{steps}", "e"), node("ReduceSum", "e", "y", keepdims=0)]
    bounded(save(make(nodes, inputs=[value("x", dims)], weights=[tensor("one", np.float32(1))])))


def test_a_long_chain_is_no_deep_stack(save):
    n = 3000
    nodes = [node("Relu" if k % 2 else "Abs", f"v{k}" if k else "x", f"v{k + 1}" if k + 1 < n else "y", name=f"n{k}") for k in range(n)]
    bounded(save(make(list(reversed(nodes)))), "lower")


def test_too_many_nodes(save):
    path = save(mlp())
    done = run("compile", path, "--stop-after=rules", "--max-nodes", "2")
    assert done.returncode == LIMIT and "--max-nodes" in done.stderr
    done = run("compile", path, "--stop-after=rules", "--max-model", "10")
    assert done.returncode == LIMIT and "--max-model" in done.stderr, done.stderr


# ---- data beside the model ----------------------------------------------------------------------------------------------------


def external(location, offset=None, length=None, dims=(4,)):
    w = onnx.TensorProto(name="w", dims=dims, data_type=F, data_location=TensorProto.EXTERNAL)
    for key, v in (("location", location), ("offset", offset), ("length", length)):
        if v is not None:
            w.external_data.add(key=key, value=str(v))
    return make([node("Add", "x w")], weights=[w])


@pytest.fixture
def beside(tmp_path):
    """A folder with a model's weights, and a secret outside."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "inner.bin").symlink_to("weights.bin")
    (folder / "out").symlink_to(tmp_path)
    (folder / "deep").mkdir()
    (folder / "deep" / "weights.bin").write_bytes(bytes(16))

    def to(model):
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path
    return to


@pytest.mark.parametrize("location, how", [
    ("weights.bin", {}), ("weights.bin", dict(offset=16)), ("weights.bin", dict(offset=3, length=16)), ("deep/weights.bin", {}),
    ("./weights.bin", {}), ("inner.bin", {}), ("deep/../weights.bin", {}),
])
def test_external_data_in_the_folder(beside, location, how):
    accepted(beside(external(location, **how)))


@pytest.mark.parametrize("location, code, says", [
    ("../secret.bin", MODEL, ["\"../secret.bin\"", "out of the model's folder"]),
    ("deep/../../secret.bin", MODEL, ["out of the model's folder"]),
    ("link.bin", MODEL, ["\"link.bin\"", "out of the model's folder"]),
    ("out/secret.bin", MODEL, ["out of the model's folder"]),
    ("/etc/passwd", MODEL, ["absolute path", "model's folder"]),
    ("nowhere.bin", MODEL, ["\"nowhere.bin\"", "not there", "beside the model"]),
    ("", MODEL, ["location"]),
    (None, MODEL, ["location"]),
    ("deep", MODEL, ["\"w\"", "deep"]),
    (".", MODEL, ["\"w\""]),
    ("x" * 5000, MODEL, ["\"w\""]),
])
def test_external_data_elsewhere(beside, location, code, says):
    fails(code, beside(external(location)), *says)


@pytest.mark.parametrize("how, says", [
    (dict(offset=20), ["20", "36", "32"]),
    (dict(offset=1 << 62), ["weights.bin"]),
    (dict(offset=(1 << 64) - 8), ["weights.bin"]),
    (dict(length=12), ["12", "16"]),
    (dict(offset="-4"), ["offset", "-4"]),
    (dict(offset="four"), ["offset", "four"]),
    (dict(length="99999999999999999999999"), ["length", "99999999999999999999999"]),
])
def test_external_data_that_is_too_short(beside, how, says):
    fails(MODEL, beside(external("weights.bin", **how)), "\"w\"", *says)


def test_external_data_with_huge_dimensions(beside):
    fails(MODEL, beside(external("weights.bin", dims=(1 << 40,))), "\"w\"", "weights.bin")


# ---- lists of open length ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made, dims, right, wrong, says", [
    (node("Reshape", "x s"), ["a", "b"], [2, 3], [6], "the length of the shape: r has to be 2; here the sides are 1 and 2"),
    (node("Expand", "x s"), ["a", "b", "c"], [2, 1, 3], [2, 3], "the length of the shape: r has to be 3; here the sides are 2 and 3"),
    (node("Expand", "x s"), ["a", "b"], [3], [1, 2, 3], "the length of the shape: r has to be at most 2; here the sides are 2 and 3"),
    (node("Tile", "x s"), ["a", "b"], [2, 1], [2], "the length of the repeats: r has to be 2; here the sides are 1 and 2"),
    (node("Slice", "x s e"), ["a", "b"], [1, 1], [1], "the length of the starts: r has to be 2; here the sides are 1 and 2"),
    (node("ReduceSum", "x s", keepdims=0), ["a"], [-1], [0, 1], "the length of the axes: r has to be 1; here the sides are 2 and 1"),
    (node("Unsqueeze", "x s"), ["a", "b", "c"], [1], [0, 1], "the length of the axes: r has to be 1; here the sides are 2 and 1"),
    (node("Pad", "x s"), ["a", "b"], [1, 0, 0, 1], [1, 1], "the length of the pads: r has to be 4; here the sides are 2 and 4"),
    (node("Split", "x s", "y z", axis=1), ["a", "b"], [1, 2], [1, 1, 1], "the length of the sizes: r has to be 2; here the sides are 3 and 2"),
    (helper.make_node("Resize", ["x", "", "", "s"], ["y"]), ["a", "b"], [4, 6], [4], "the length of the sizes: r has to be 2; here the sides are 1 and 2"),
    (node("TopK", "x s", "y z"), ["a", "b"], [2], [2, 2], "the length of input 1, one number: r has to be 1; here the sides are 2 and 1"),
    (node("CumSum", "x s"), ["a", "b"], [1], [0, 1], "the length of input 1, one number: r has to be 1; here the sides are 2 and 1"),
])
def test_a_list_of_an_open_length(save, tmp_path, made, dims, right, wrong, says):
    path = save(make([made], [value("x", [2, 3]), value("s", ["r"], I)], [value("y", dims)], [tensor("e", np.array([2, 3]))]))
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    for given, code in ((right, OK), (wrong, USAGE)):
        np.save(tmp_path / "s.npy", np.array(given))
        for verb in ("run", "verify"):
            done = run(verb, path, *(a for n in "xs" for a in ("--input", f"{n}=@{tmp_path / n}.npy")))
            assert done.returncode == code, done.stderr
        assert code == OK or says.split(";")[0] in done.stderr
    done = run("run", path, *(a for n in "xs" for a in ("--input", f"{n}=@{tmp_path / n}.npy")))
    assert says in done.stderr


def test_a_rank_that_nothing_says(save):
    fails(UNSUPPORTED, save(make([node("Reshape", "x s", "r"), node("ReduceSum", "r", keepdims=0)], [value("x", [2, 3]), value("s", ["r"], I)])),
          "shape is of type i64[r], and nothing in the model says how many they are", "--shape s=N", "declare the rank of the result")
    done = run("compile", save(make([node("Reshape", "x s", "r"), node("ReduceSum", "r", keepdims=0)], [value("x", [2, 3]), value("s", ["r"], I)])),
               "--shape", "s=2", "--stop-after=rules")
    assert done.returncode == OK, done.stderr


# ---- mistakes in branches ------------------------------------------------------------------------------------------


def branches(then, other):
    """y = If(c): nodes over x of the one, or of the other, each of which make y."""
    parts = [helper.make_graph(nodes, name, [], [value("y", None)]) for name, nodes in (("t", then), ("e", other))]
    return make([node("If", "c", name="choice", then_branch=parts[0], else_branch=parts[1])], [value("c", [], TensorProto.BOOL), value("x", [2, 3])],
                weights=[tensor("w", np.ones((2, 2), np.float32))])


FITS, WRONG, UNKNOWN = node("Neg", "x"), node("MatMul", "x w"), node("NoSuchOperator", "x")


@pytest.mark.parametrize("bad, says", [(WRONG, "inner extents"), (UNKNOWN, "no operator NoSuchOperator")])
@pytest.mark.parametrize("taken", [True, False])
def test_a_mistake_in_a_branch_refuses_who_takes_it(save, tmp_path, bad, says, taken):
    path = save(branches([FITS], [bad]) if taken else branches([bad], [FITS]))
    compiled = run("compile", path, "-o", tmp_path / "m.so")
    refused = f"a run that takes the {'else' if taken else 'then'} branch is refused: node 0"
    assert compiled.returncode == OK and 'If "choice"' in compiled.stderr and f"note: {refused}" in compiled.stderr and says in compiled.stderr
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    for c in (True, False):
        np.save(tmp_path / "c.npy", np.array(c))
        for verb in ("run", "verify"):
            done = run(verb, tmp_path / "m.so" if verb == "run" else path, *(a for n in "cx" for a in ("--input", f"{n}=@{tmp_path / n}.npy")))
            assert done.returncode == (OK if c == taken else USAGE), done.stderr
            assert c == taken or (refused in done.stderr and says in done.stderr), done.stderr


def test_mistakes_in_both_branches_are_all_reported(save):
    fails(UNSUPPORTED, save(branches([UNKNOWN], [node("NoneSuchEither", "x")])), "NoSuchOperator", "NoneSuchEither")


def test_a_mistake_in_a_branch_inside_a_branch(save):
    inner = branches([FITS], [WRONG]).graph.node[0]
    accepted(save(branches([FITS], [inner])))
    fails(MODEL, save(branches([WRONG], [branches([WRONG], [WRONG]).graph.node[0]])), "inner extents")


def test_a_limit_in_a_branch_is_no_mistake_of_it(save):
    done = run("compile", save(branches([FITS], [node("Neg", "x", "a"), node("Neg", "a", "b"), node("Neg", "b")])), "--max-nodes", "3", "--stop-after=rules")
    assert done.returncode == LIMIT, done.stderr


@pytest.mark.parametrize("bad, code", [(node("MatMul", "v w", "u"), USAGE), (node("NoSuchOperator", "v", "u"), UNSUPPORTED)])
@pytest.mark.parametrize("turns, cond", [(0, None), (-1, True), (None, False), (5, False)])
def test_a_mistake_in_a_loop_without_a_turn_is_none(save, tmp_path, turns, cond, bad, code):
    def run_looped(turns, cond):
        body = helper.make_graph([node("Identity", "go", "more"), bad, node("Identity", "u", "s")], "b",
                                 [value("i", [], I), value("go", [], TensorProto.BOOL), value("v", None)],
                                 [value("more", [], TensorProto.BOOL), value("u", None), value("s", [2, 3])])
        names = ["" if turns is None else "m", "" if cond is None else "c", "x"]
        path = save(make([helper.make_node("Loop", names, ["y", "s"], body=body), node("Neg", "y", "z")], [value("x", [2, 3])], [value("z", None), value("s", None)],
                         [tensor("w", np.ones((2, 2), np.float32)), tensor("m", np.int64(turns or 0)), tensor("c", np.array(bool(cond)))]))
        arguments = ["--input", f"x=@{tmp_path / 'x.npy'}"]
        return run("verify", path, *arguments), run("run", path, *arguments, "--output-dir", tmp_path)
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    for done in run_looped(turns, cond):
        assert done.returncode == OK, done.stderr
    assert np.load(tmp_path / "z.npy").tolist() == [[-1] * 3] * 2 and np.load(tmp_path / "s.npy").shape[0] == 0
    for done in run_looped(1, True):
        assert done.returncode == code, done.stderr


# ---- running ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def bert_like(tmp_path_factory):
    """y = words[ids] + positions[0 : seq]: seq may be at most 16, ids below 10."""
    folder = tmp_path_factory.mktemp("bert")
    model = make([node("Shape", "ids", "s"), node("Slice", "s one two", "seq"), node("Slice", "positions zero seq", "p"),
                  node("Gather", "words ids", "e"), node("Add", "e p", name="embed")],
                 inputs=[value("ids", ["batch", "seq"], I)],
                 weights=[tensor("words", np.ones((10, 4), np.float32)), tensor("positions", np.ones((16, 4), np.float32)),
                          tensor("zero", np.array([0])), tensor("one", np.array([1])), tensor("two", np.array([2]))])
    (folder / "bert.onnx").write_bytes(model.SerializeToString())
    done = run("compile", folder / "bert.onnx", "-o", folder / "bert.so")
    assert done.returncode == OK, done.stderr
    return folder / "bert.so"


def with_ids(artefact, folder, ids, *more):
    np.save(folder / "ids.npy", ids)
    return run("run", artefact, f"--input=ids=@{folder / 'ids.npy'}", *more)


def test_runs_that_are_right(bert_like, tmp_path):
    for shape in ((1, 1), (2, 16), (0, 3)):
        done = with_ids(bert_like, tmp_path, np.zeros(shape, np.int64))
        assert done.returncode == OK, done.stderr


@pytest.mark.parametrize("ids, says", [
    (np.zeros((1, 17), np.int64), ["embed", "17", "16"]),
    (np.zeros((2, 3), np.int32), ["ids", "i32", "i64"]),
    (np.zeros((2, 3), np.float64), ["ids", "f64", "i64"]),
    (np.zeros(3, np.int64), ["ids", "rank"]),
    (np.zeros((2, 3, 1), np.int64), ["ids", "rank"]),
])
def test_wrong_inputs(bert_like, tmp_path, ids, says):
    done = with_ids(bert_like, tmp_path, ids)
    assert done.returncode == USAGE, (done.returncode, done.stderr)
    for part in says:
        assert part in done.stderr, done.stderr


@pytest.mark.parametrize("bad", [10, -11, 1 << 40, -(1 << 63)])
def test_indices_outside_their_tensor(bert_like, tmp_path, bad):
    done = with_ids(bert_like, tmp_path, np.array([[0, bad, 1]]))
    assert done.returncode == USAGE, (done.returncode, done.stderr)
    assert "Gather" in done.stderr or "gather" in done.stderr, done.stderr


def test_a_wrong_name(bert_like, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 1), np.int64))
    done = run("run", bert_like, f"--input=idz=@{tmp_path / 'x.npy'}")
    assert done.returncode == USAGE and "idz" in done.stderr and "ids" in done.stderr


def test_a_file_that_is_not_there(bert_like, tmp_path):
    done = run("run", bert_like, f"--input=ids=@{tmp_path / 'none.npy'}")
    assert done.returncode == USAGE and "none.npy" in done.stderr


def test_items_of_another_rank(tmp_path):
    """A sequence whose items have no declared rank gets one of rank 1: its own have to have that too, or it is empty."""
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None))
    model = make([node("SequenceInsert", "s x", "o")], [helper.make_value_info("s", sequence), value("x", ["n"])], [helper.make_value_info("o", sequence)])
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones(3, "f4"))
    for items, sizes, code in ((6, [[6]], OK), (0, np.zeros((0, 0)), OK), (6, [[2, 3]], USAGE)):
        np.save(tmp_path / "items.npy", np.zeros(items, "f4"))
        np.save(tmp_path / "sizes.npy", np.asarray(sizes, "i8"))
        done = run("run", tmp_path / "m.onnx", *(a for n, f in (("x", "x"), ("s.items", "items"), ("s.sizes", "sizes")) for a in ("--input", f"{n}=@{tmp_path}/{f}.npy")))
        assert done.returncode == code, done.stderr
        assert code == OK or "items of the sequence have rank 1, or there are none" in done.stderr
