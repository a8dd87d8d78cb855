"""--weights: what products multiply by is stored in fewer bits, 4 of them two in a byte, and gives what those bits say.

The graph after lowering, with the narrow constants in it, is a model itself: the interpreter says what it means, and what was
compiled of the original has to give that. How far it is from the original follows from the bits. With activations=int8, and for int4 unless activations=f32 is
said, what they are multiplied by is narrow too, and sums are of integers where groups allow it.
"""
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
CACHE = ["--cache-dir", BUILD / "conformance" / "cache"]
HOW = ["bf16", "f16", "int8", "int4,activations=f32", "int8,group=32", "int4,group=128,activations=f32", "int4,group=24,activations=f32", "int4,group=20",
       "int4,group=64,activations=f32", "int8,activations=int8", "int4", "int8,group=20,activations=int8", "int4,group=64,activations=int8"]
BITS = {"bf16": 16, "f16": 16, "int8": 8, "int4": 4}
# The largest error of an element, as a share of the tensor's largest: half of the last bit, half of a step of 8 bits; of 4 bits
# a whole one, where both ends of the range are met and there is one step less on one side.
MOST = {"bf16": 1 / 256, "f16": 1 / 2048, "int8": 0.52 / 127, "int4": 1 / 8}
# Products by their shapes: even and odd sums, a sum that no group divides, a prime one, columns that fill no vector, convolutions, a sum whose
# groups end inside of words.
SHAPES = {"matmul": (320, 200), "odd": (321, 99), "ragged": (250, 130), "prime": (257, 128), "gemm": (200, 320), "conv": (72, 36, 3, 3), "grouped conv": (64, 48, 3, 3), "halves": (252, 99)}


def model(r, kind):
    shape = SHAPES[kind]
    w = (r.standard_normal(shape) / 8).astype("f4")
    if kind == "gemm":
        node, x = helper.make_node("Gemm", ["x", "w"], ["y"], "gemm", transB=1), ("n", shape[1])
    elif "conv" in kind:
        group = 2 if "grouped" in kind else 1
        node, x = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1] * 4, group=group), ("n", shape[1] * group, 7, 9)
    else:
        node, x = helper.make_node("MatMul", ["x", "w"], ["y"], "product"), ("n", shape[0])
    graph = helper.make_graph([node], "weights", [helper.make_tensor_value_info("x", T.FLOAT, x)], [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), x, w


def tenon(*arguments, fails=False):
    done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def run(so, x, folder):
    np.save(folder / "x.npy", x)
    tenon("run", so, "--input", f"x=@{folder / 'x.npy'}", "--output-dir", folder)
    return np.load(folder / "y.npy")


# Whose sums are of integers on both sides: one axis, which groups divide, of quads of bytes and words of four bits.
DOTS = {("int8,activations=int8", k) for k in ("matmul", "gemm", "halves")} | {("int4", k) for k in ("matmul", "gemm")} | \
       {("int8,group=20,activations=int8", k) for k in ("matmul", "gemm")} | {("int4,group=64,activations=int8", k) for k in ("matmul", "gemm")}

CASES = [(how, kind, cc) for how in HOW for kind in SHAPES for cc in ("gcc", "clang")]
BY_DAY = [c for i, c in enumerate(CASES) if i // 2 % 4 == 0 and i % 2 == i // 8 % 2]      # each way and each shape with one compiler or the other


@pytest.mark.parametrize("how, kind, cc", CASES if os.environ.get("TENON_NIGHTLY") else BY_DAY)
def test_weights(how, kind, cc, tmp_path):
    r = np.random.default_rng([HOW.index(how), list(SHAPES).index(kind)])
    made, dims, w = model(r, kind)
    name, group = how.split(",")[0], int(re.search("group=([0-9]+)", how)[1]) if "group" in how else 32 if "int4" in how else 0
    onnx.save(made, tmp_path / "m.onnx")
    arguments = ["compile", tmp_path / "m.onnx", "--weights", how, "--exact", "--quick", "--cc", cc, *CACHE]
    told = tenon(*arguments, "-o", tmp_path / "m.so", "--dump=lower", "--dump-dir", tmp_path)
    assert ("; 1 integer product" in told) == ((how, kind) in DOTS and "x86-64-v4-" in told), told
    relative, largest = map(float, re.search(r"^  w +(\S+) (\S+)$", told, re.M).groups())
    assert 0 < relative < 2 * MOST[name] and 0 < largest <= MOST[name], told
    [lowered] = tmp_path.glob("*lower.tn")
    told = json.loads(tenon("compile", lowered, "-o", tmp_path / "narrow.so", "--exact", "--quick", "--cc", cc, "--json", *CACHE))
    number, unit = re.search(r"([0-9.]+) ([KM]?B) weights", told["summary"]).groups()
    if kind in ("matmul", "gemm", "conv"):                           # no dimension is odd: 4 bits are two in a byte
        stored = w.size * BITS[name] / 8 + (w.size / group * 2 if group else 4 * max(w.shape))
        assert float(number) * {"B": 1, "KB": 1 << 10, "MB": 1 << 20}[unit] < 1.35 * stored + 4096
    for n in (1, 2, 5, 33):
        x = r.standard_normal([n if d == "n" else d for d in dims]).astype("f4")
        got, want = run(tmp_path / "m.so", x, tmp_path), run(tmp_path / "narrow.so", x, tmp_path)
        if n in (1, 33):
            tenon("verify", lowered, "--input", f"x=@{tmp_path / 'x.npy'}", "--exact", "--quick", "--cc", cc, *CACHE)
        assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_no_quads(tmp_path):
    """A target that multiplies no quads multiplies floats, and that is told."""
    made, _, _ = model(np.random.default_rng(5), "matmul")
    onnx.save(made, tmp_path / "m.onnx")
    done = subprocess.run([TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--weights", "int4,activations=int8", "--target", "x86-64-v3"], capture_output=True, text=True)
    assert "note: --weights int4,activations=int8: x86-64-v3 has no int8 dot product" in done.stderr and "integer product" not in done.stdout
    assert "integer product" not in tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--weights", "int4", "--target", "x86-64-v3")


def test_activations(tmp_path):
    """What integers are multiplied by is off by half a step of its group's scale at most; a group of zeros is zeros, and a number that is none makes its row so."""
    r = np.random.default_rng(5)
    made, _, w = model(r, "matmul")
    onnx.save(made, tmp_path / "m.onnx")
    x = r.standard_normal((6, 320)).astype("f4")
    x[1], x[2, 32:64], x[3], x[4, 5] = 0, 0, x[3] * 1e30, np.nan
    for so, how in (("f.so", "int8,group=32"), ("i.so", "int8,group=32,activations=int8")):
        if "x86-64-v4-" not in tenon("compile", tmp_path / "m.onnx", "--weights", how, "-o", tmp_path / so, *CACHE):
            pytest.skip("this processor multiplies no quads of bytes")
    want, got = run(tmp_path / "f.so", x, tmp_path), run(tmp_path / "i.so", x, tmp_path)
    step = np.abs(x.reshape(6, -1, 32)).max(-1) / 127
    most = step @ np.abs(w).reshape(-1, 32, 200).sum(1) / 2
    assert np.isnan(got[4]).all() and (got[1] == 0).all()
    for i in (0, 2, 3, 5):
        assert (np.abs(got[i] - want[i]) <= 1.02 * most[i] + 1e-5 * np.abs(want[i]).max()).all() and np.abs(got[i] - want[i]).max() > 0


def lowered(tmp_path, depth, columns, *how):
    """A product in Tenon's text, its integers said as they are."""
    r = np.random.default_rng(columns)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    w = numpy_helper.from_array((r.standard_normal((depth, columns)) / 8).astype("f4"), "w")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", T.FLOAT, ("b", "n", depth))], [helper.make_empty_tensor_value_info("y")], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    tenon("compile", tmp_path / "m.onnx", "--weights", "int4", "--target", "x86-64-v4-vnni", "--dump=lower", "--dump-dir", tmp_path, "--stop-after=lower", *how)
    return next(tmp_path.glob("*lower.tn"))


@pytest.mark.parametrize("rows", ([], ["--dim", "n=1", "--dim", "b=1"]), ids=("open", "one row"))
def test_groups_are_one_kernel(rows, tmp_path):
    """Sums of groups are scaled where they are made: no kernel stores them; quads are masked words, and nothing else of them is computed."""
    text = tenon("compile", lowered(tmp_path, 576, 1536, *rows), "--target", "x86-64-v4-vnni", "--dump=choose", "--stop-after=choose")
    product = text[text.index("%y: f32["):].split(" variant ")[0]
    assert '%"y.dots":' not in text and product.count("put o_2 at") == 2 and re.search("hold o_2 at o.k1? -> acc reg", product)
    assert "dot4(and(shr(w[" in product and ", 252645135)" in product


@pytest.mark.parametrize("columns", (720, 776))              # whole vectors of 16, and of 8 alone
def test_programs_of_groups(columns, tmp_path):
    """Each program that is listed for sums of groups gives what plain loops give, at rows around its tiles and of several matrices."""
    model = lowered(tmp_path, 96, columns)
    told = tenon("compile", model, "--dump=choose", "--stop-after=choose", "--alternatives", 60)
    listed = ["".join(re.findall(r"^;     (.*\n)", p, re.M)) for p in re.split(r"^;   \S+ s, alone .*\n", told[told.index("; %y: "):], flags=re.M)[1:]]
    r = np.random.default_rng(1)
    inputs = {}
    tenon("compile", model, "--plain", "--quick", "-o", tmp_path / "plain.so", *CACHE)
    for b, n in (1, 1), (1, 2), (2, 15), (3, 33), (1, 0), (1, 130):
        x = r.standard_normal((b, n, 96)).astype("f4")
        inputs[b, n] = x, run(tmp_path / "plain.so", x, tmp_path)
    np.save(tmp_path / "x.npy", inputs[2, 15][0])
    tenon("verify", model, "--plain", "--quick", "--input", f"x=@{tmp_path / 'x.npy'}", *CACHE)
    assert listed
    for program in listed if os.environ.get("TENON_NIGHTLY") else listed[::3]:
        (tmp_path / "pins").write_text(f"%y {{\n{program}}}\n")
        tenon("compile", model, "--choices", tmp_path / "pins", "--quick", "-o", tmp_path / "m.so", *CACHE)
        for x, want in inputs.values():
            np.testing.assert_allclose(run(tmp_path / "m.so", x, tmp_path), want, rtol=1e-5, atol=1e-5)


def layers(tmp_path):
    r = np.random.default_rng(9)
    w = [(r.standard_normal((256, 256)) / 16).astype("f4") for _ in range(3)]
    w[2][7, 9] = np.inf
    nodes = [helper.make_node("Gather", ["table", "x"], ["h"], "embed"), helper.make_node("MatMul", ["h", "w0"], ["a"], "layers.0/up"),
             helper.make_node("MatMul", ["a", "w1"], ["b"], "layers.0/down"), helper.make_node("MatMul", ["b", "w2"], ["y"], "head")]
    constants = [numpy_helper.from_array(x, f"w{k}") for k, x in enumerate(w)] + [numpy_helper.from_array(r.standard_normal((500, 256)).astype("f4"), "table")]
    graph = helper.make_graph(nodes, "layers", [helper.make_tensor_value_info("x", T.INT64, ("n",))], [helper.make_empty_tensor_value_info("y")], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_kept(tmp_path):
    """What is named stays, by the constant or by the operator; an embedding does anyhow, and what the type does not hold."""
    told = tenon("compile", layers(tmp_path), "-o", tmp_path / "m.so", "--weights", "int4", "--weights-keep", "*/up", *CACHE)
    assert "weights as int4: 1 tensor," in told and "table" not in told
    assert re.search(r"^  w0 +kept: --weights-keep names it$", told, re.M) and re.search(r"^  w2 +kept: it has elements that are no finite numbers of i4$", told, re.M)
    assert "weights as bf16: 2 tensors," in tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--weights", "bf16", *CACHE)


def test_kept_for_one_reader(tmp_path):
    """A weight of two operators stays for the one that is named, and is narrow for the other; a pattern may be a name with brackets."""
    w = numpy_helper.from_array(np.random.default_rng(3).standard_normal((256, 256)).astype("f4"), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "layers[0]"), helper.make_node("Relu", ["a"], ["b"], "relu"), helper.make_node("MatMul", ["b", "w"], ["y"], "layers[1]")]
    graph = helper.make_graph(nodes, "shared", [helper.make_tensor_value_info("x", T.FLOAT, (4, 256))], [helper.make_empty_tensor_value_info("y")], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    for name in ("layers[0]", "layers[1]"):
        told = tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--weights", "bf16", "--weights-keep", name, *CACHE)
        assert "weights as bf16: 1 tensor," in told and re.search(r"^  w +kept: --weights-keep names it$", told, re.M)


@pytest.mark.parametrize("arguments, message", [
    (["--weights", "int3"], "--weights int3: bf16, f16, int8 and int4 are possible"),
    (["--weights", "bf16,group=32"], "--weights bf16,group=32: floats have no scales, so they have no groups"),
    (["--weights", "int4,group=4"], "group=N is possible, with N from 8 to 1048576"),
    (["--weights", "int4,grp=32"], "behind the comma group=N, activations=int8 and activations=f32 are possible, not grp=32"),
    (["--weights", "int4,group=32,activations=int4"], "behind the comma group=N, activations=int8 and activations=f32 are possible, not activations=int4"),
    (["--weights", "bf16,activations=int8"], "--weights bf16,activations=int8: floats have no scales"),
    (["--weights", "int8", "--weights-keep", "w0,w7"], "--weights-keep w7: no product's weight is called so"),
    (["--weights-keep", "w0"], "--weights-keep w0: nothing is narrowed without --weights"),
])
def test_refused(arguments, message, tmp_path):
    assert message in tenon("compile", layers(tmp_path), "-o", tmp_path / "m.so", *arguments, *CACHE, fails=True)
    assert not (tmp_path / "m.so").exists()
