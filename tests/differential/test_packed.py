"""Batches without padding, as ONNX Runtime's Packed operators have them, against float64: no other engine runs them on a CPU."""
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
HEADS, SIZE, WIDE = 2, 8, 12                              # of queries and keys, of input rows
LENGTHS = [[3], [0], [1], [5, 0, 7], [9, 9, 9], [0, 0, 5, 0], [1, 64, 17, 65], [40, 3, 2, 1]]


def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, domain="com.microsoft", **attributes)


def compiled(folder, nodes, inputs, outputs, weights=(), options=("--dim-hint", "t=500")):
    graph = helper.make_graph(nodes, "packed", inputs, outputs, [numpy_helper.from_array(w, n) for n, w in weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9), folder / "m.onnx")
    done = subprocess.run([TENON, "compile", folder / "m.onnx", "-o", folder / "m.so", "--dump=choose", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(folder, **given):
    for name, x in given.items():
        np.save(folder / f"{name}.npy", x)
    done = subprocess.run([TENON, "run", folder / "m.so", *[w for n in given for w in ("-i", f"{n}=@{folder}/{n}.npy")], "--output-dir", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return lambda name: np.load(folder / f"{name}.npy")


def offsets_of(lengths, longest):
    there = (np.arange(longest)[None] < np.array(lengths)[:, None]).ravel()
    return np.concatenate([np.flatnonzero(there), np.flatnonzero(~there)]).reshape(len(lengths), longest).astype("i4")


def sums_of(lengths):
    return np.cumsum([0, *lengths]).astype("i4")


def attended(q, k, v, lengths, scale=None, bias=None):
    """Each sequence alone. bias [b, heads, s, s]."""
    out, at = np.zeros((len(q), HEADS, v.shape[1] // HEADS)), 0
    for b, n in enumerate(lengths):
        part = [x[at:at + n].reshape(n, HEADS, x.shape[1] // HEADS).astype("f8") for x in (q, k, v)]
        s = np.einsum("ihd,jhd->hij", part[0], part[1]) * (scale or SIZE ** -0.5)
        s += 0 if bias is None else bias[b % len(bias), :, :n, :n]
        e = np.exp(s - s.max(-1, keepdims=True, initial=-1e30))
        out[at:at + n] = np.einsum("hij,jhd->ihd", e / e.sum(-1, keepdims=True), part[2])
        at += n
    return out.reshape(len(q), v.shape[1])


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("bias", [None, (1, 1), (1, HEADS), ("b", 1), ("b", HEADS)])
def test_attention_of_rows(scale, bias, tmp_path):
    rng = np.random.default_rng(0)
    attributes = {"num_heads": HEADS} | ({"scale": scale} if scale else {})
    names = ["q", "k", "v", "", "offsets", "sums"] + (["bias"] if bias else [])
    compiled(tmp_path, [node("PackedMultiHeadAttention", names, ["y"], **attributes)],
             [*(value(x, TensorProto.FLOAT, "t", HEADS * SIZE) for x in "qkv"), value("offsets", TensorProto.INT32, "b", "s"), value("sums", TensorProto.INT32, "b1")]
             + ([value("bias", TensorProto.FLOAT, *bias, "s", "s")] if bias else []), [value("y", TensorProto.FLOAT, "t", HEADS * SIZE)])
    for lengths in LENGTHS:
        t, longest = sum(lengths), max(lengths)
        q, k, v = (rng.standard_normal((t, HEADS * SIZE)).astype("f4") for _ in "qkv")
        added = rng.standard_normal([len(lengths) if d == "b" else d for d in bias] + [longest] * 2).astype("f4") if bias else None
        y = run(tmp_path, q=q, k=k, v=v, offsets=offsets_of(lengths, longest), sums=sums_of(lengths), **({"bias": added} if bias else {}))
        np.testing.assert_allclose(y("y"), attended(q, k, v, lengths, scale, added), rtol=1e-4, atol=1e-5, err_msg=str(lengths))


def test_heads_side_by_side_and_a_bias(tmp_path):
    rng = np.random.default_rng(1)
    bias = rng.standard_normal(3 * HEADS * SIZE).astype("f4")
    compiled(tmp_path, [node("PackedMultiHeadAttention", ["qkv", "", "", "bias", "offsets", "sums"], ["y"], num_heads=HEADS)],
             [value("qkv", TensorProto.FLOAT, "t", HEADS, 3, SIZE), value("offsets", TensorProto.INT32, "b", "s"), value("sums", TensorProto.INT32, "b1")],
             [value("y", TensorProto.FLOAT, "t", HEADS * SIZE)], [("bias", bias)])
    for lengths in LENGTHS:
        qkv = rng.standard_normal((sum(lengths), HEADS, 3, SIZE)).astype("f4")
        q, k, v = (qkv[:, :, i].reshape(len(qkv), HEADS * SIZE) + bias[i * HEADS * SIZE:(i + 1) * HEADS * SIZE] for i in range(3))
        y = run(tmp_path, qkv=qkv, offsets=offsets_of(lengths, max(lengths)), sums=sums_of(lengths))
        np.testing.assert_allclose(y("y"), attended(q, k, v, lengths), rtol=1e-4, atol=1e-5, err_msg=str(lengths))


@pytest.mark.parametrize("wide", [None, (HEADS * SIZE, HEADS * SIZE, HEADS * 3)])
def test_a_layer_packs_and_unpacks(wide, tmp_path):
    """Padding removed, attention, padding restored: rows of padding are 0, whatever stood in them."""
    rng = np.random.default_rng(2)
    all_ = sum(wide) if wide else 3 * HEADS * SIZE
    w, b = rng.standard_normal((WIDE, all_)).astype("f4"), rng.standard_normal(all_).astype("f4")
    attributes = {"num_heads": HEADS} | ({"qkv_hidden_sizes": wide} if wide else {})
    out = wide[2] if wide else HEADS * SIZE
    compiled(tmp_path, [node("RemovePadding", ["x", "lengths"], ["rows", "offsets", "sums", "longest"]), node("PackedAttention", ["rows", "w", "b", "offsets", "sums"], ["a"], **attributes),
                        node("RestorePadding", ["a", "offsets"], ["y"])],
             [value("x", TensorProto.FLOAT, "b", "s", WIDE), value("lengths", TensorProto.INT32, "b")],
             [value("y", TensorProto.FLOAT, "b", "s", out), value("rows", TensorProto.FLOAT, "t", WIDE), value("offsets", TensorProto.INT32, "b", "s"), value("sums", TensorProto.INT32, "b1"),
              value("longest", TensorProto.INT32, 1)], [("w", w), ("b", b)], ())
    for lengths in LENGTHS:
        s = max(lengths) + 2
        x = rng.standard_normal((len(lengths), s, WIDE)).astype("f4")
        there = np.arange(s)[None] < np.array(lengths)[:, None]
        x[~there] = np.nan
        y = run(tmp_path, x=x, lengths=np.array(lengths, "i4"))
        np.testing.assert_array_equal(y("rows"), x[there])
        np.testing.assert_array_equal(y("offsets"), offsets_of(lengths, s))
        np.testing.assert_array_equal(y("sums"), sums_of(lengths))
        np.testing.assert_array_equal(y("longest"), [max(lengths)])
        at = np.cumsum(wide or [HEADS * SIZE] * 3)[:2]
        want = np.zeros((len(lengths), s, out))
        want[there] = attended(*np.split(x[there].astype("f8") @ w + b, at, 1), lengths)
        np.testing.assert_allclose(y("y"), want, rtol=1e-3, atol=1e-4, err_msg=str(lengths))


def test_blocks_of_other_sequences_are_omitted(tmp_path):
    """As a layer has it: a product behind the attention."""
    w = np.ones((HEADS * SIZE, 16), "f4")
    text = compiled(tmp_path, [node("PackedMultiHeadAttention", ["q", "k", "v", "", "offsets", "sums"], ["a"], num_heads=HEADS), helper.make_node("MatMul", ["a", "w"], ["y"])],
                    [*(value(x, TensorProto.FLOAT, "t", HEADS * SIZE) for x in "qkv"), value("offsets", TensorProto.INT32, "b", "s"), value("sums", TensorProto.INT32, "b1")],
                    [value("y", TensorProto.FLOAT, "t", 16)], [("w", w)], ("--dim-hint", "t=4000"))
    assert re.search(r"^ *omit ", text, re.M)


def test_refusals(tmp_path):
    for inputs, words in ((["q", "", ""], "without queries or sums"), (["q", "k", "", "", "offsets", "sums"], "three of rank 2, or one of rank 4")):
        graph = helper.make_graph([node("PackedMultiHeadAttention", inputs, ["y"], num_heads=HEADS)], "packed",
                                  [value(x, TensorProto.FLOAT, "t", HEADS * SIZE) for x in "qk"] + [value("offsets", TensorProto.INT32, "b", "s"), value("sums", TensorProto.INT32, "b1")],
                                  [value("y", TensorProto.FLOAT, "t", HEADS * SIZE)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)], ir_version=9), tmp_path / "m.onnx")
        done = subprocess.run([TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so"], capture_output=True, text=True)
        assert done.returncode and words in done.stderr, done.stderr
