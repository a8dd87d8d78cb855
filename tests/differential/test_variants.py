"""A kernel with several trees: the host program runs the one whose guard holds, and each computes the same.

Products whose rows are counted by symbols: pinned variants at every size around their guards, in a model and in a
loop's body; and what is chosen by price for a model with such a product.
"""
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

PINS = """%y when batch == 1, seq == 1 {
  split k by 8 -> kb l, order i j kb k1 l, hold o at kb -> acc reg, run l vector, run i parallel
}
%y when 1 <= batch <= 2, seq <= 3 {
  split k by 16 -> kb kv, split kv by 8 -> kr l, order i j kb k1 kr l, hold o at kb -> acc reg
  run kr unroll, run l vector, run i parallel
}
"""


def product(depth=24, columns=40, constant=True):
    rng = np.random.default_rng(1)
    w = rng.standard_normal((depth, columns), dtype=np.float32)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", depth]),
              helper.make_tensor_value_info("w", TensorProto.FLOAT, [depth, columns])]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "variants", inputs[:2 - constant],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", columns])],
                              [numpy_helper.from_array(w, "w")] * constant)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), w


def tenon(*words):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def agree(folder, artefact, w, *others, flat=False):
    """flat: batch and seq are one axis of the output."""
    for batch in (0, 1, 2, 3):
        for seq in (0, 1, 2, 3, 4, 7):
            x = np.random.default_rng(batch * 100 + seq).standard_normal((batch, seq, w.shape[0]), dtype=np.float32)
            np.save(folder / "x.npy", x)
            tenon("run", artefact, "--input", f"x=@{folder}/x.npy", *others, "--output-dir", folder, "--threads", 2)
            want = x.reshape(-1, w.shape[0]) @ w if flat else x @ w
            np.testing.assert_allclose(np.load(folder / "y.npy"), want, rtol=1e-4, atol=1e-4, err_msg=f"{batch} x {seq}")


def dump(folder, stage, *words):
    return tenon("compile", folder / "m.onnx", f"--dump={stage}", f"--stop-after={stage}", *words)


def test_pinned(tmp_path):
    m, w = product()
    onnx.save(m, tmp_path / "m.onnx")
    (tmp_path / "pins").write_text(PINS)
    scheduled = dump(tmp_path, "schedule", "--choices", tmp_path / "pins")
    assert "variant batch == 1, seq == 1 {" in scheduled and "variant 1 <= batch <= 2, seq <= 3 {" in scheduled
    tenon("compile", tmp_path / "m.onnx", "--choices", tmp_path / "pins", "-o", tmp_path / "m.so")
    agree(tmp_path, tmp_path / "m.so", w)


def seconds(text):
    """What the cheapest program of the first kernel is said to take."""
    amount, unit = re.search(r"programs; ([0-9.]+) (\S*s)", text).groups()
    return float(amount) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit.rstrip(";")]


def test_hinted(tmp_path):
    """Prices are those of the sizes that users expect, their mean where they are several; every other size runs, and gives the same."""
    m, w = product(48, 64)
    onnx.save(m, tmp_path / "m.onnx")
    few, many, both = (seconds(dump(tmp_path, "choose", "--target", "x86-64-v3", "--dim-hint", "batch=1", "--dim-hint", f"seq={sizes}")) for sizes in ("2", "4096", "2,4096"))
    assert many > 50 * few and 0.45 * many < both < 0.55 * (many + few)
    tenon("compile", tmp_path / "m.onnx", "--dim-hint", "batch=1,2", "--dim-hint", "seq=1,3", "-o", tmp_path / "m.so")
    agree(tmp_path, tmp_path / "m.so", w)


def test_chosen(tmp_path):
    m, w = product(48, 64, constant=False)
    onnx.save(m, tmp_path / "m.onnx")
    np.save(tmp_path / "w.npy", w)
    text = dump(tmp_path, "choose", "--target", "x86-64-v3")
    assert "variant batch == 1, seq == 1 {" in text and "another, " in text
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    agree(tmp_path, tmp_path / "m.so", w, "--input", f"w=@{tmp_path}/w.npy")


def test_matrix_times_vector(tmp_path):
    """Its rows are rows although they are the innermost axis of the result: there is a program for one."""
    w = np.random.default_rng(1).standard_normal(247, dtype=np.float32)
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["y"])], "scores",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 247])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch"])],
                              [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert "variant batch == 1 {" in dump(tmp_path, "choose", "--target", "x86-64-v3")
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    for batch in (0, 1, 2, 70):
        x = np.random.default_rng(batch).standard_normal((batch, 247), dtype=np.float32)
        np.save(tmp_path / "x.npy", x)
        tenon("run", tmp_path / "m.so", "--input", f"x=@{tmp_path}/x.npy", "--output-dir", tmp_path)
        assert np.allclose(np.load(tmp_path / "y.npy"), np.exp(x) @ w, rtol=1e-4, atol=1e-4)


def test_samples_beside_the_points_of_an_image(tmp_path):
    """Rows are channels, of constant number, and columns the 16 points of each sample: one sample has a program."""
    w = np.random.default_rng(1).standard_normal((64, 32, 4, 4), dtype=np.float32)
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "shape"], ["i"]), helper.make_node("ConvTranspose", ["i", "w"], ["y"], strides=[2, 2], pads=[1] * 4)], "up",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1024])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array([-1, 64, 4, 4]), "shape")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert "variant batch == 1 {" in dump(tmp_path, "choose", "--target", "x86-64-v3")


def test_as_many_as_are_allowed(tmp_path):
    """A kernel has its own program, and of the others those that gain most."""
    m, w = product(48, 64, constant=False)
    onnx.save(m, tmp_path / "m.onnx")
    np.save(tmp_path / "w.npy", w)
    gains = [sorted(map(float, re.findall(r"another, ([0-9.]+) times", dump(tmp_path, "choose", "--target", "x86-64-v3", "--variants", n)))) for n in (1, 2, 3, 9)]
    assert [len(g) for g in gains[:3]] == [0, 1, 2] and len(gains[3]) > 2 and gains[1] == gains[3][-1:] and gains[2] == gains[3][-2:]
    tenon("compile", tmp_path / "m.onnx", "--variants", 1, "-o", tmp_path / "m.so")
    agree(tmp_path, tmp_path / "m.so", w, "--input", f"w=@{tmp_path}/w.npy")


def test_rows_that_were_two_axes(tmp_path):
    """A row of a reshaped input is read where it lies, its digits put together again: nothing is copied, nothing divided for each element."""
    m, w = product(64, 96)
    m.graph.node.insert(0, helper.make_node("Reshape", ["x", "shape"], ["rows"]))
    m.graph.node[1].input[0] = "rows"
    m.graph.initializer.append(numpy_helper.from_array(np.array([-1, 64]), "shape"))
    del m.graph.output[0].type.tensor_type.shape.dim[:]
    m.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(m, tmp_path / "m.onnx")
    tree = dump(tmp_path, "schedule", "--target", "x86-64-v4")
    assert "// seq, " in tree and "stage lhs" not in tree
    products = [line for line in dump(tmp_path, "emit", "--target", "x86-64-v4").splitlines() if "tn_splat_f32x16(b" in line]
    assert products and not any("tn_div" in line or "tn_mod" in line for line in products)
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    agree(tmp_path, tmp_path / "m.so", w, flat=True)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_one_row(tmp_path, masked):
    """Attention is one kernel for a prompt; a token's row has a tree of its own in it, that adds scores up in lanes. Beside a mask lanes are
    keys: queries that are scaled on the way are so once for a task."""
    def heads(name, rows):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3, rows, 64])
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "t"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    inputs, constants = [heads("q", "new"), heads("k", "all"), heads("v", "all")], []
    if masked:
        nodes[1:2] = [helper.make_node("Mul", ["q", "c"], ["x"]), helper.make_node("MatMul", ["x", "t"], ["d"]), helper.make_node("Add", ["d", "m"], ["s"])]
        inputs.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, ["batch", 1, "new", "all"]))
        constants.append(numpy_helper.from_array(np.float32(0.125), "c"))
    graph = helper.make_graph(nodes, "attention", inputs, [heads("y", "new")], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    hints = ["--target", "x86-64-v3", "--must-fuse", "s,y", "--dim-hint", "batch=1", "--dim-hint", "new=1,1024", "--dim-hint", "all=1024", *["--exact"] * masked]    # without a table of what is seen
    text = dump(tmp_path, "choose", *hints)
    assert text.count("kernel ") == 1 and "variant new == 1 {" in text and re.search(r"over (o_2.u )?o_2.l_", text)
    assert not masked or "stage o_2.lhs at task -> o_2.rows scratch of o_2.k o_2.k1\n" in text
    tenon("compile", tmp_path / "m.onnx", *hints, "-o", tmp_path / "m.so")
    for batch, new, keys in ((1, 1, 1), (1, 1, 70), (2, 1, 33), (2, 3, 17), (1, 40, 40), (0, 1, 4)):
        r = np.random.default_rng(keys)
        data = {name: r.standard_normal((batch, 3, rows, 64), dtype=np.float32) for name, rows in (("q", new), ("k", keys), ("v", keys))}
        s = data["q"] @ data["k"].transpose(0, 1, 3, 2)
        if masked:
            data["m"] = r.standard_normal((batch, 1, new, keys), dtype=np.float32)
            s = np.float32(0.125) * s + data["m"]
        for name, x in data.items():
            np.save(tmp_path / f"{name}.npy", x)
        tenon("run", tmp_path / "m.so", *[w for name in data for w in ("--input", f"{name}=@{tmp_path}/{name}.npy")], "--output-dir", tmp_path, "--threads", 2)
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), e / e.sum(axis=-1, keepdims=True) @ data["v"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target, hints", [("x86-64-v3", ""), ("x86-64-v4", ""), ("x86-64-v4", "--dim-hint batch=1 --dim-hint new=1,512 --dim-hint all=512")])
def test_heads_that_share_keys(tmp_path, target, hints):
    """Nine query heads over three of keys: one kernel, its rows being those of each head of a group, beside three that make the table of what is seen."""
    def heads(name, n, rows):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", n, rows, 64])
    nodes = []
    for x in "kv":
        nodes += [helper.make_node("Unsqueeze", [x, "two"], [f"{x}_one"]), helper.make_node("Expand", [f"{x}_one", "thrice"], [f"{x}_three"]),
                  helper.make_node("Reshape", [f"{x}_three", "nine"], [f"{x}_all"])]
    nodes += [helper.make_node("Transpose", ["k_all"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("Mul", ["q", "c"], ["x"]), helper.make_node("MatMul", ["x", "t"], ["d"]),
              helper.make_node("Where", ["seen", "d", "hidden"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v_all"], ["y"])]
    constants = {"two": np.array([2]), "thrice": np.array([1, 1, 3, 1, 1]), "nine": np.array([0, 9, -1, 64]), "c": np.float32(0.125), "hidden": np.float32(-1e9)}
    inputs = [heads("q", 9, "new"), heads("k", 3, "all"), heads("v", 3, "all"), helper.make_tensor_value_info("seen", TensorProto.BOOL, ["batch", 1, "new", "all"])]
    graph = helper.make_graph(nodes, "groups", inputs, [heads("y", 9, "new")], [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    if target == "x86-64-v4" and "avx512vl" not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("no AVX-512 here")
    assert dump(tmp_path, "fuse", "--target", target, *hints.split()).count("    kernel ") == 4
    tenon("compile", tmp_path / "m.onnx", "--target", target, *hints.split(), "-o", tmp_path / "m.so")
    for batch, new, keys in ((1, 1, 1), (1, 1, 70), (2, 1, 33), (2, 3, 17), (1, 40, 41), (0, 1, 4)):
        r = np.random.default_rng(keys)
        data = {name: r.standard_normal((batch, n, rows, 64), dtype=np.float32) for name, n, rows in (("q", 9, new), ("k", 3, keys), ("v", 3, keys))}
        data["seen"] = r.random((batch, 1, new, keys)) < 0.7
        data["seen"][..., 0] = True
        k, v = (np.repeat(data[name], 3, axis=1) for name in "kv")
        s = np.where(data["seen"], np.float32(0.125) * data["q"] @ k.transpose(0, 1, 3, 2), np.float32(-1e9))
        for name, x in data.items():
            np.save(tmp_path / f"{name}.npy", x)
        tenon("run", tmp_path / "m.so", *[w for name in data for w in ("--input", f"{name}=@{tmp_path}/{name}.npy")], "--output-dir", tmp_path, "--threads", 2)
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), e / e.sum(axis=-1, keepdims=True) @ v, rtol=1e-4, atol=1e-5, err_msg=f"{batch} x {new} over {keys}")


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_features_that_are_rows(tmp_path, target):
    """Keys whose product stores them transposed have their weights in panels as high as a tile of many tokens: one token reads the same
    panels, lanes being features, and a few tokens do in tiles that are no wider than they need."""
    heads, size, rng = 6, 64, np.random.default_rng(3)
    wide = heads * size
    weights = {name: rng.standard_normal((wide, wide), dtype=np.float32) for name in ("wq", "wk")}
    nodes = [helper.make_node("MatMul", ["x", "wq"], ["q"]), helper.make_node("MatMul", ["x", "wk"], ["k"]), helper.make_node("Add", ["k", "bias"], ["kb"]),
             helper.make_node("Reshape", ["kb", "heads"], ["kh"]), helper.make_node("Transpose", ["kh"], ["y"], perm=[0, 2, 3, 1])]
    bias = rng.standard_normal(wide, dtype=np.float32)
    inits = [numpy_helper.from_array(a, name) for name, a in (weights | {"bias": bias, "heads": np.array([0, 0, heads, size])}).items()]
    graph = helper.make_graph(nodes, "keys", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", wide])],
                              [helper.make_tensor_value_info("q", TensorProto.FLOAT, ["batch", "seq", wide]),
                               helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", heads, size, "seq"])], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    text = dump(tmp_path, "choose", "--target", target)
    own, row, few = (part.split("alone o_2")[1] for part in text.split("variant ")[:3])
    high = int(re.search(r"lay \w+ as \[1/(\d+)", own)[1])
    assert high % (16 if target == "x86-64-v4" else 8)
    assert f"as [1/{high}, 0, 1%{high}]" in row and f"split j_ by {high} -> jp jv exact" in row
    assert f"as [1/{high}, 0, 1%{high}]" in few and int(re.search(r"split j_ by (\d+) -> jp jv", few)[1]) < int(re.search(r"split j_ by (\d+) -> jp jv", own)[1])
    if target == "x86-64-v4" and "avx512vl" not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("no AVX-512 here")
    tenon("compile", tmp_path / "m.onnx", "--target", target, "-o", tmp_path / "m.so")
    for batch, seq in ((1, 1), (1, 2), (1, 15), (1, 16), (2, 1), (3, 17)):
        x = rng.standard_normal((batch, seq, wide), dtype=np.float32)
        np.save(tmp_path / "x.npy", x)
        tenon("run", tmp_path / "m.so", "--input", f"x=@{tmp_path}/x.npy", "--output-dir", tmp_path, "--threads", 2)
        want = (x @ weights["wk"] + bias).reshape(batch, seq, heads, size).transpose(0, 2, 3, 1)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-4, atol=1e-3, err_msg=f"{batch} x {seq}")


def test_rows_that_strides_leave(tmp_path):
    """Of rows that are (n - 5) // 3 + 1 there is not one where n is 1, but less than none: no tree is made for that. There is one where n is 5, 6
    or 7, and the convolution may have a tree for the largest of these."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], strides=[3]), helper.make_node("Transpose", ["c"], ["q"], perm=[0, 2, 1]), helper.make_node("MatMul", ["q", "c"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "q"], ["y"])]
    weights = (np.random.default_rng(1).standard_normal((32, 4, 5)) * 0.2).astype(np.float32)
    graph = helper.make_graph(nodes, "strides", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, "n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert set(re.findall(r"variant .*\bn == (\d+)", dump(tmp_path, "choose", "--target", "x86-64-v4"))) <= {"7"}
    tenon("verify", tmp_path / "m.onnx", "--dim", "batch=2", "--dim", "n=100", "--target", "x86-64-v3")


def test_threads(tmp_path):
    """One thread may have another program than several: each gives what NumPy gives, at sizes around those of a size's variant, and which
    of them runs is the session's affair."""
    m, w = product(96, 96)
    onnx.save(m, tmp_path / "m.onnx")
    (tmp_path / "pins").write_text("""%y when "$threads" == 1 {
  split k by 16 -> kb kv, split kv by 8 -> kr l, order i j kb k1 kr l, hold o at kb -> acc reg
  run kr unroll, run l vector, run i parallel
}
%y when 2 <= "$threads" {
  split k by 8 -> kb l, order i j kb k1 l, hold o at kb -> acc reg, run l vector, run i parallel
}
""")
    text = dump(tmp_path, "schedule", "--choices", tmp_path / "pins")
    assert 'variant "$threads" == 1 {' in text and 'variant 2 <= "$threads" {' in text
    tenon("compile", tmp_path / "m.onnx", "--choices", tmp_path / "pins", "-o", tmp_path / "m.so")
    for threads in (1, 2):
        for batch, seq in ((0, 2), (1, 1), (2, 3)):
            x = np.random.default_rng(seq).standard_normal((batch, seq, 96), dtype=np.float32)
            np.save(tmp_path / "x.npy", x)
            tenon("run", tmp_path / "m.so", "--input", f"x=@{tmp_path}/x.npy", "--output-dir", tmp_path, "--threads", threads)
            np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x @ w, rtol=1e-4, atol=1e-4)
    source = dump(tmp_path, "emit", "--choices", tmp_path / "pins")
    assert "sizes->threads > 0" in source
