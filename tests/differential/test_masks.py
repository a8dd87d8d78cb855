"""Attention under masks: what a mask hides is left out where that is proved, is as ONNX defines it, and masks that follow from indices are not stored."""
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
LOWEST = float(np.finfo(np.float32).min)
HEADS, DEPTH = 2, 16


def tenon(*words):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dump(folder, stage, *words):
    return tenon("compile", folder / "m.onnx", f"--dump={stage}", f"--stop-after={stage}", *words)


MASKS = {                                             # by query i and key j: what is seen
    "causal": lambda i, j: j <= i,
    "causal window": lambda i, j: (j <= i) & (j > i - 9),
    "window": lambda i, j: (j <= i + 5) & (j >= i - 5),
    "future": lambda i, j: j >= i,
    "prefix": lambda i, j: (j < 7) & (i >= 0),
}


def index_nodes(name):
    """Nodes that make bool %seen [nq, nk] of ranges, as exporters do."""
    ranges = [helper.make_node("Shape", ["q"], ["sq"], start=2, end=3), helper.make_node("Squeeze", ["sq"], ["nq"]), helper.make_node("Range", ["zero", "nq", "one"], ["rq"]),
              helper.make_node("Shape", ["k"], ["sk"], start=2, end=3), helper.make_node("Squeeze", ["sk"], ["nk"]), helper.make_node("Range", ["zero", "nk", "one"], ["j"]),
              helper.make_node("Unsqueeze", ["rq", "axis"], ["i"])]
    tests = {"causal": [("LessOrEqual", "j", "i")], "future": [("GreaterOrEqual", "j", "i")], "prefix": [("Less", "j", "seven"), ("GreaterOrEqual", "i", "zero")],
             "causal window": [("LessOrEqual", "j", "i"), ("Greater", "j", "i-9")], "window": [("LessOrEqual", "j", "i+5"), ("GreaterOrEqual", "j", "i-5")]}[name]
    shifts = [helper.make_node("Add", ["i", f"by{s}"], [f"i{s}"]) for s in ("-9", "-5", "+5") if any(f"i{s}" in t for t in tests)]
    out = ["a", "b"] if len(tests) == 2 else ["seen"]
    compared = [helper.make_node(op, [x, y], [o]) for (op, x, y), o in zip(tests, out)]
    both = [helper.make_node("And", ["a", "b"], ["seen"])] if len(tests) == 2 else []
    return ranges + shifts + compared + both


def attention(folder, nodes, nq, nk, constants=(), inputs=(), add="mask", batch="b"):
    """softmax(q k^T / 4 + mask) v behind nodes that make the mask."""
    nodes = [*nodes, helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["s1"]),
             helper.make_node("Add", ["s1", add], ["s2"]), helper.make_node("Softmax", ["s2"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    numbers = {"zero": 0, "one": 1, "seven": 7, "by-9": -9, "by-5": -5, "by+5": 5}
    weights = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()]
    weights += [numpy_helper.from_array(np.array([1], np.int64), "axis"), numpy_helper.from_array(np.array(0.25, np.float32), "scale"), *constants]
    shapes = {"q": [batch, HEADS, nq, DEPTH], "k": [batch, HEADS, nk, DEPTH], "v": [batch, HEADS, nk, DEPTH]}
    graph = helper.make_graph(nodes, "masked", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()] + list(inputs),
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["q"])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "m.onnx")


def where(low):
    return [helper.make_node("Where", ["seen", "none", "low"], ["mask"])], [numpy_helper.from_array(np.float32(0), "none"), numpy_helper.from_array(np.float32(low), "low")]


def expected(q, k, v, mask):
    s = np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64) / 4 + mask
    with np.errstate(invalid="ignore"):
        e = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("bhij,bhjd->bhid", e / e.sum(-1, keepdims=True), v.astype(np.float64))


def run(folder, nq, nk, batch=1, so="m.so", **more):
    rng = np.random.default_rng(nq + nk)
    q, k, v = (rng.standard_normal((batch, HEADS, n, DEPTH)).astype(np.float32) for n in (nq, nk, nk))
    given = {"q": q, "k": k, "v": v, **more}
    for name, x in given.items():
        np.save(folder / f"{name}.npy", x)
    words = [w for name in given for w in ("-i", f"{name}=@{folder}/{name}.npy")]
    tenon("run", folder / so, *words, "--output-dir", folder, "--threads", 1 + nq % 2)
    return q, k, v, np.load(folder / "y.npy")


def has_skip(text):
    return bool(re.search(r"^ *skip ", text, re.M))


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_schedules_leave_out_what_is_hidden(target, tmp_path):
    for name in ("causal", "window"):
        mask, numbers = where(-np.inf)
        attention(tmp_path, index_nodes(name) + mask, 256, 256, numbers)
        text = dump(tmp_path, "choose", "--target", target)
        assert has_skip(text), name
        assert "256, 256] = call" not in text, "the mask is stored"


@pytest.mark.parametrize("low", [-np.inf, LOWEST])
@pytest.mark.parametrize("name", MASKS)
def test_masks_of_indices(name, low, tmp_path):
    mask, numbers = where(low)
    attention(tmp_path, index_nodes(name) + mask, "nq", "nk", numbers)
    assert has_skip(dump(tmp_path, "choose", "--dim-hint", "nq=256", "--dim-hint", "nk=256")) or name in ("future", "prefix", "window")
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dim-hint", "nq=256", "--dim-hint", "nk=256")
    for nq, nk in [(1, 1), (2, 2), (7, 7), (63, 63), (64, 64), (65, 65), (130, 130), (200, 200), (16, 48), (48, 20), (1, 70), (97, 64)]:
        i, j = np.mgrid[:nq, :nk]
        q, k, v, y = run(tmp_path, nq, nk)
        np.testing.assert_allclose(y, expected(q, k, v, np.where(MASKS[name](i, j), 0, low)), rtol=1e-4, atol=1e-5, err_msg=f"{name} {nq} {nk}")


@pytest.mark.parametrize("n", [1, 2, 7, 63, 64, 65, 130, 512])
@pytest.mark.parametrize("name", MASKS)
def test_stored_masks(name, n, tmp_path):
    """A constant [n, n] of two numbers is a band again, where it is one."""
    i, j = np.mgrid[:n, :n]
    mask = np.where(MASKS[name](i, j), 0, -np.inf).astype(np.float32)
    attention(tmp_path, [], n, n, [numpy_helper.from_array(mask, "mask")])
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    q, k, v, y = run(tmp_path, n, n, 2)
    np.testing.assert_allclose(y, expected(q, k, v, mask), rtol=1e-4, atol=1e-5)
    if n == 512 and name != "prefix":
        assert has_skip(dump(tmp_path, "choose")) and f"f32[{n}, {n}]" not in dump(tmp_path, "choose")


@pytest.mark.parametrize("change", [(5, 70), (99, 3), (64, 64)])
def test_nearly_a_band(change, tmp_path):
    """One element off: the mask stays what it is."""
    i, j = np.mgrid[:100, :100]
    mask = np.where(j <= i, 0, -np.inf).astype(np.float32)
    mask[change] = 0 if np.isinf(mask[change]) else -np.inf
    attention(tmp_path, [], 100, 100, [numpy_helper.from_array(mask, "mask")])
    assert not has_skip(dump(tmp_path, "choose"))
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    q, k, v, y = run(tmp_path, 100, 100)
    np.testing.assert_allclose(y, expected(q, k, v, mask), rtol=1e-4, atol=1e-5)


def test_rows_of_which_all_is_hidden(tmp_path):
    """A softmax of nothing but -inf is NaN, of nothing but the lowest number the mean: nothing may be left out there."""
    i, j = np.mgrid[:80, :80]
    for low in (-np.inf, LOWEST):
        mask = np.where((j <= i - 4), 0, low).astype(np.float32)                 # rows 0 to 3 see nothing
        attention(tmp_path, [], 80, 80, [numpy_helper.from_array(mask, "mask")])
        skips = re.findall(r"^ *skip .*", dump(tmp_path, "choose"), re.M)
        assert len(skips) <= np.isinf(low), skips                                # a maximum of nothing is -inf all the same; no sum may
        tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
        q, k, v, y = run(tmp_path, 80, 80)
        np.testing.assert_allclose(y, expected(q, k, v, mask.astype(np.float64)), rtol=1e-4, atol=1e-5)
        assert np.isnan(y[:, :, :4]).all() == np.isinf(low)


def test_the_lowest_number_beside_another_mask(tmp_path):
    """Padding from data may hide all that a causal mask shows of a row: its mean is over all keys, so none is left out. With -inf they may be."""
    n, padding = 96, helper.make_tensor_value_info("padding", TensorProto.FLOAT, ["b", 1, 1, 96])
    i, j = np.mgrid[:n, :n]
    for low in (LOWEST, -np.inf):
        mask, numbers = where(low)
        both = [helper.make_node("Add", ["mask", "padding"], ["masks"])]
        attention(tmp_path, index_nodes("causal") + mask + both, n, n, numbers, [padding], "masks")
        assert has_skip(dump(tmp_path, "choose")) == np.isinf(low)
        tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
        given = np.zeros((2, 1, 1, n), np.float32)
        given[1, ..., :5] = -1e9
        q, k, v, y = run(tmp_path, n, n, 2, padding=given)
        want = expected(q, k, v, np.where(j <= i, 0, low).astype(np.float32).astype(np.float64) + given)
        np.testing.assert_allclose(y[:, :, 5:], want[:, :, 5:], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(y[0], want[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [0, 1])
def test_lengths(causal, tmp_path):
    """Keys beyond a length that is given are left out; a length of 0 gives 0 (Attention of ONNX)."""
    n = 150
    graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v", "", "", "", "lengths"], ["y"], is_causal=causal, scale=0.25)], "lengths",
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["b", HEADS, n, DEPTH]) for x in "qkv"] + [helper.make_tensor_value_info("lengths", TensorProto.INT64, ["b"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", HEADS, n, DEPTH])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11), tmp_path / "m.onnx")
    assert has_skip(dump(tmp_path, "choose"))
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    lengths = np.array([0, 1, 2, 63, 64, 65, 149, 150], np.int64)
    q, k, v, y = run(tmp_path, n, n, len(lengths), lengths=lengths)
    i, j = np.mgrid[:n, :n]
    for b, length in enumerate(lengths):
        seen = (j < length) & ((j <= i) if causal and length == n else (j <= i + length - n) if causal else True)
        want = expected(q[b:b + 1], k[b:b + 1], v[b:b + 1], np.where(seen, 0, -np.inf))
        np.testing.assert_allclose(y[b], np.nan_to_num(want[0]), rtol=1e-4, atol=1e-5, err_msg=str(length))
