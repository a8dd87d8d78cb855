"""Attention under masks that only data know: blocks of keys that no row of a task sees are passed over, by tables made of the mask; values are those
of float64, whatever the mask."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_masks import DEPTH, HEADS, LOWEST, attention, dump, expected, run, tenon

SIZES = [(1, 1), (7, 9), (16, 64), (64, 64), (65, 130), (200, 200), (31, 400), (129, 65)]


def omits(folder, *words):
    return bool(re.search(r"^ *omit ", dump(folder, "choose", *words), re.M))


def seen_by(rng, kind, nq, nk):
    """bool [nq, nk]: a run of keys of each row, some keys at random, blocks, documents, rows that see nothing."""
    i, j = np.mgrid[:nq, :nk]
    if kind == "runs":
        begin = rng.integers(0, nk, nq)[:, None]
        return (j >= begin) & (j < begin + rng.integers(1, 20, nq)[:, None])
    if kind == "few":
        return rng.random((nq, nk)) < 0.02
    if kind == "blocks":
        return np.kron(rng.random((nq // 16 + 1, nk // 32 + 1)) < 0.3, np.ones((16, 32), bool))[:nq, :nk]
    if kind == "documents":
        return i // 50 == j // 50
    return np.zeros((nq, nk), bool) | ((i > nq // 2) & (j == nk - 1))


KINDS = ["runs", "few", "blocks", "documents", "last key"]


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def low_of(low):
    return [numpy_helper.from_array(np.float32(0), "none"), numpy_helper.from_array(np.float32(low), "low")]


def in_bool(low):
    """Where(seen, 0, low), added."""
    return [helper.make_node("Where", ["seen", "none", "low"], ["mask"])], low_of(low), [value("seen", TensorProto.BOOL, ["nq", "nk"])], lambda seen: {"seen": seen}


def in_whole_numbers(low):
    """(1 - seen) * low, as BERT's exporters write it."""
    nodes = [helper.make_node("Cast", ["seen"], ["f"], to=TensorProto.FLOAT), helper.make_node("Sub", ["unit", "f"], ["hidden"]), helper.make_node("Mul", ["hidden", "low"], ["mask"])]
    weights = [numpy_helper.from_array(np.float32(1), "unit"), numpy_helper.from_array(np.float32(low), "low")]
    return nodes, weights, [value("seen", TensorProto.INT64, ["nq", "nk"])], lambda seen: {"seen": seen.astype(np.int64)}


def in_floats(low):
    return [], [], [value("mask", TensorProto.FLOAT, ["nq", "nk"])], lambda seen: {"mask": np.where(seen, 0, low).astype(np.float32)}


def each_row(mask, low):
    """What a softmax makes of rows that see nothing depends on how they are hidden: the mean of what is given, or NaN."""
    return np.where(mask, 0, np.float32(low)).astype(np.float64)


@pytest.mark.parametrize("low", [-np.inf, LOWEST, -1e4])
@pytest.mark.parametrize("form", [in_bool, in_whole_numbers, in_floats])
def test_masks_that_are_given(form, low, tmp_path):
    if form is in_whole_numbers and np.isinf(low):
        low = -1e38                                            # 0 * inf is NaN
    nodes, weights, inputs, given = form(low)
    attention(tmp_path, nodes, "nq", "nk", weights, inputs)
    hints = ["--dim-hint", "nq=512", "--dim-hint", "nk=512"]
    assert omits(tmp_path, *hints)
    assert not omits(tmp_path, *hints, "--exact")
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", *hints)
    for nq, nk in SIZES:
        for kind in KINDS:
            seen = seen_by(np.random.default_rng(nq), kind, nq, nk)
            q, k, v, y = run(tmp_path, nq, nk, 2, **given(seen))
            np.testing.assert_allclose(y, expected(q, k, v, each_row(seen, low)), rtol=1e-4, atol=2e-3 if low == -1e4 else 1e-5, err_msg=f"{kind} {nq} {nk}")


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("shape", [(300, 300), (HEADS, 300, 300), (3, 1, 1, 300), (1, HEADS, 1, 300), (3, HEADS, 300, 300)])
def test_constants(shape, target, tmp_path):
    """A mask of each head, each sequence, of keys alone: none of them is a band."""
    rng = np.random.default_rng(len(shape))
    last = np.repeat(rng.random(shape[:-1] + (10,)) < 0.3, 30, -1)
    last[..., 64:192] = False
    last[..., 7] = True
    attention(tmp_path, [], 300, 300, [numpy_helper.from_array(np.where(last, 0, -np.inf).astype(np.float32), "mask")], batch=3)
    assert omits(tmp_path, "--target", target)
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    q, k, v, y = run(tmp_path, 300, 300, 3)
    mask = np.where(last, 0, -np.inf)
    want = np.concatenate([expected(q[b:b + 1], k[b:b + 1], v[b:b + 1], mask[b] if mask.ndim == 4 and len(mask) == 3 else mask) for b in range(3)])
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def tiles_shown(seen, rows, keys):
    """Of tiles of so many rows and keys, in 200, those that show something."""
    padded = np.zeros([-(-n // by) * by for n, by in zip(seen.shape, (rows, keys))], bool)
    padded[:seen.shape[0], :seen.shape[1]] = seen
    share = padded.reshape(padded.shape[0] // rows, rows, -1, keys).any((1, 3)).mean()
    return int(np.ceil(share * 200))


def test_density_is_priced(tmp_path):
    """A kernel's text says how full a constant mask is, and its price counts that: the fuller, the dearer."""
    rng = np.random.default_rng(3)
    price = []
    for share in (0.05, 0.2, 0.5, 0.9):
        seen = np.kron((rng.random((32, 32)) < share) | np.eye(32, dtype=bool), np.ones((32, 32), bool))
        seen[0, 900:1000:2] = False                            # no band
        attention(tmp_path, [], 1024, 1024, [numpy_helper.from_array(np.where(seen, 0, -np.inf).astype(np.float32), "mask")])
        text = dump(tmp_path, "choose", "--target", "x86-64-v4")
        counts = re.search(r"u8\[64, 64\] density ([0-9 ]+), ([0-9 ]+), ([0-9 ]+)", text)
        for keys, numbers in zip((16, 32, 64), counts.groups()):
            assert [int(x) for x in numbers.split()] == [tiles_shown(seen, rows, keys) for rows in (16, 32, 64, 128)]
        number, unit = re.search(r"programs; ([0-9.]+) (us|ms)", text).groups()
        price.append(float(number) * (1000 if unit == "ms" else 1))
    assert sorted(price) == price and price[0] < 0.25 * price[3], price


def test_density_of_masks_that_are_given(tmp_path):
    """--density is in a kernel's text and in its price; without it nothing is known."""
    nodes, weights, inputs, _ = in_bool(-np.inf)
    attention(tmp_path, nodes, "nq", "nk", weights, inputs)
    hints, price = ["--dim-hint", "nq=1024", "--dim-hint", "nk=1024", "--target", "x86-64-v4"], []
    for words in ("--density", "0.1"), ("--density", "0.5"), ("--density", "1"), ():
        text = dump(tmp_path, "choose", *hints, *words)
        said = " ".join([str(round(200 * float(words[1])))] * 4) if words else None
        assert (f"density {said}, {said}, {said}" in text) if words else "density" not in text
        unit = {"us": 1, "ms": 1000}
        prices = re.findall(r"programs; ([0-9.]+) (us|ms)", text)
        price.append(max(float(number) * unit[u] for number, u in prices))    # the attention
    assert price[0] < 0.5 * price[1] and price[1] < price[2], price
    assert price[3] == price[1], price


def test_a_mask_is_bits(tmp_path):
    seen = seen_by(np.random.default_rng(0), "few", 256, 256)
    attention(tmp_path, [], 256, 256, [numpy_helper.from_array(np.where(seen, 0, -np.inf).astype(np.float32), "mask")])
    text = dump(tmp_path, "choose")
    assert "i32[8, 256]" in text and "f32[256, 256]" not in text


def test_a_mask_that_hides_nothing(tmp_path):
    """One number everywhere is no constant to read."""
    mask = numpy_helper.from_array(np.zeros((256, 256), np.float32), "mask")
    attention(tmp_path, [], 256, 256, [mask])
    text = dump(tmp_path, "choose")
    assert "const" not in text and not omits(tmp_path)


def test_documents(tmp_path):
    """Tokens see those of their own document: a comparison of two given lists."""
    nodes = [helper.make_node("Unsqueeze", ["rows", "axis1"], ["a"]), helper.make_node("Unsqueeze", ["keys", "axis0"], ["c"]), helper.make_node("Equal", ["a", "c"], ["seen"]),
             helper.make_node("Where", ["seen", "none", "low"], ["mask"])]
    weights = low_of(-np.inf) + [numpy_helper.from_array(np.array([a], np.int64), f"axis{a}") for a in (0, 1)]
    attention(tmp_path, nodes, "nq", "nk", weights, [value("rows", TensorProto.INT64, ["nq"]), value("keys", TensorProto.INT64, ["nk"])])
    hints = ["--dim-hint", "nq=512", "--dim-hint", "nk=512"]
    assert omits(tmp_path, *hints)
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", *hints)
    for n in (1, 63, 64, 200, 513):
        rows = np.sort(np.random.default_rng(n).integers(0, 1 + n // 60, n))
        q, k, v, y = run(tmp_path, n, n, 1, rows=rows, keys=rows)
        np.testing.assert_allclose(y, expected(q, k, v, np.where(rows[:, None] == rows[None], 0, -np.inf)), rtol=1e-4, atol=1e-5, err_msg=str(n))


def test_what_is_omitted_is_not_read(tmp_path):
    """NaN in keys that no row sees, a block of them: the values are those without them; --exact keeps what 0 * NaN is."""
    n = 512
    seen = np.zeros((n, n), bool)
    seen[:, :64] = seen[:, 448:] = True
    seen[3, 9] = False
    attention(tmp_path, [], n, n, [numpy_helper.from_array(np.where(seen, 0, -np.inf).astype(np.float32), "mask")])
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, HEADS, n, DEPTH)).astype(np.float32) for _ in "qkv")
    v[:, :, 100:400] = np.frombuffer(np.array(0x7FA00000, np.uint32).tobytes(), np.float32)          # signalling
    for name, x in dict(q=q, k=k, v=v).items():
        np.save(tmp_path / f"{name}.npy", x)
    for exact in ([], ["--exact"]):
        tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", *exact)
        tenon("run", tmp_path / "m.so", *[w for name in "qkv" for w in ("-i", f"{name}=@{tmp_path}/{name}.npy")], "--output-dir", tmp_path)
        y = np.load(tmp_path / "y.npy")
        if exact:
            assert np.isnan(y).all()
        else:
            v[:, :, 100:400] = 0
            np.testing.assert_allclose(y, expected(q, k, v, np.where(seen, 0, -np.inf)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_attention_of_onnx(kind, causal, tmp_path):
    """A row that sees nothing gives 0."""
    mask = value("mask", TensorProto.BOOL if kind == "bool" else TensorProto.FLOAT, ["nq", "nk"])
    graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"], is_causal=causal, scale=0.25)], "masked",
                              [value("q", TensorProto.FLOAT, ["b", HEADS, "nq", DEPTH]), *(value(x, TensorProto.FLOAT, ["b", HEADS, "nk", DEPTH]) for x in "kv"), mask],
                              [value("y", TensorProto.FLOAT, ["b", HEADS, "nq", DEPTH])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), tmp_path / "m.onnx")
    hints = ["--dim-hint", "nq=512", "--dim-hint", "nk=512"]
    assert omits(tmp_path, *hints)
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", *hints)
    for nq, nk in [(1, 1), (65, 65), (200, 200), (130, 70)]:
        for shape in KINDS:
            seen = seen_by(np.random.default_rng(nq), shape, nq, nk)
            q, k, v, y = run(tmp_path, nq, nk, 2, mask=seen if kind == "bool" else np.where(seen, 0, -np.inf).astype(np.float32))
            i, j = np.mgrid[:nq, :nk]
            want = expected(q, k, v, np.where(seen & ((j <= i) | (not causal)), 0, -np.inf))
            np.testing.assert_allclose(y, np.nan_to_num(want), rtol=1e-4, atol=1e-5, err_msg=f"{shape} {nq} {nk}")


@pytest.mark.parametrize("low", [-np.inf, LOWEST])
def test_weights_that_are_no_numbers_are_zero(low, tmp_path):
    """PyTorch's export: where(isnan(softmax), 0, softmax). Rows of nothing but -inf, and those with a NaN or an infinity, are 0."""
    nodes, weights, inputs, given = in_bool(low)
    attention(tmp_path, nodes, "nq", "nk", weights, inputs)
    model = onnx.load(tmp_path / "m.onnx")
    product = model.graph.node.pop()
    model.graph.node.extend([helper.make_node("IsNaN", ["p"], ["bad"]), helper.make_node("Where", ["bad", "none", "p"], ["w"]), helper.make_node("MatMul", ["w", "v"], product.output)])
    onnx.save(model, tmp_path / "m.onnx")
    hints = ["--dim-hint", "nq=512", "--dim-hint", "nk=512"]
    assert omits(tmp_path, *hints)
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", *hints)
    for nq, nk in SIZES:
        for kind in KINDS:
            seen = seen_by(np.random.default_rng(nq), kind, nq, nk)
            q, k, v, y = run(tmp_path, nq, nk, 2, **given(seen))
            np.testing.assert_allclose(y, np.nan_to_num(expected(q, k, v, each_row(seen, low))), rtol=1e-4, atol=1e-5, err_msg=f"{kind} {nq} {nk}")
    for q in (np.nan, np.inf):
        rows = np.ones((1, HEADS, 130, DEPTH), np.float32)
        rows[:, :, 7] = q
        _, _, _, y = run(tmp_path, 130, 65, 1, q=rows, **given(np.ones((130, 65), bool)))
        assert (y[:, :, 7] == 0).all() and np.isfinite(y).all() and (y[:, :, 6] != 0).all()


@pytest.mark.parametrize("heads, shared", [(4, 2), (6, 1), (4, 4)])
def test_heads_that_share_keys(heads, shared, tmp_path):
    """One kernel that omits, whether the tables' blocks divide the lengths or not."""
    for n in (256, 300):
        seen = np.kron(np.random.default_rng(n).random((n // 60 + 1, n // 60 + 1)) < 0.2, np.ones((60, 60), bool))[:n, :n] | np.eye(n, dtype=bool)
        graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"], scale=0.25)], "masked",
                                  [value("q", TensorProto.FLOAT, ["b", heads, n, DEPTH]), *(value(x, TensorProto.FLOAT, ["b", shared, n, DEPTH]) for x in "kv")],
                                  [value("y", TensorProto.FLOAT, ["b", heads, n, DEPTH])], [numpy_helper.from_array(seen, "mask")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), tmp_path / "m.onnx")
        assert omits(tmp_path)
        assert "1 kernel," in tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
        rng = np.random.default_rng(0)
        q, k, v = (rng.standard_normal((2, h, n, DEPTH)).astype(np.float32) for h in (heads, shared, shared))
        for name, x in dict(q=q, k=k, v=v).items():
            np.save(tmp_path / f"{name}.npy", x)
        tenon("run", tmp_path / "m.so", *[w for name in "qkv" for w in ("-i", f"{name}=@{tmp_path}/{name}.npy")], "--output-dir", tmp_path)
        want = expected(q, np.repeat(k, heads // shared, 1), np.repeat(v, heads // shared, 1), np.where(seen, 0, -np.inf))
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [64, 200, "n"])
def test_rows_of_heads(n, tmp_path):
    """Queries, keys and values as rows [b, n, heads * size], and so is what comes of them: one kernel."""
    wide = HEADS * DEPTH
    graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v"], ["y"], scale=0.25, q_num_heads=HEADS, kv_num_heads=HEADS)], "rows",
                              [value(x, TensorProto.FLOAT, ["b", n, wide]) for x in "qkv"], [value("y", TensorProto.FLOAT, ["b", n, wide])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), tmp_path / "m.onnx")
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    fused = dump(tmp_path, "fuse", "--target", "x86-64-v4-bf16")          # what is one kernel is a matter of price
    assert n == "n" or len(re.findall(r"^ *kernel ", fused, re.M)) == 1
    for rows in (1, 63, 130) if n == "n" else (n,):
        q, k, v = (np.random.default_rng(i).standard_normal((2, rows, wide)).astype(np.float32) for i in range(3))
        for name, x in dict(q=q, k=k, v=v).items():
            np.save(tmp_path / f"{name}.npy", x)
        tenon("run", tmp_path / "m.so", *[w for name in "qkv" for w in ("-i", f"{name}=@{tmp_path}/{name}.npy")], "--output-dir", tmp_path)
        heads = [x.reshape(2, rows, HEADS, DEPTH).transpose(0, 2, 1, 3) for x in (q, k, v)]
        want = expected(*heads, np.zeros((rows, rows))).transpose(0, 2, 1, 3).reshape(2, rows, wide)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2, "b"])
@pytest.mark.parametrize("masked", [False, True])
def test_one_kernel(batch, masked, tmp_path):
    seen = seen_by(np.random.default_rng(0), "blocks", 512, 512) | np.eye(512, dtype=bool)
    low = np.where(seen, 0, -np.inf if masked else 0).astype(np.float32)
    attention(tmp_path, [], 512, 512, [numpy_helper.from_array(low, "mask")], batch=batch)
    assert re.search(r" 1 kernel( \(\d+ functions?\))?,", tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so"))


@pytest.mark.parametrize("n", [40, 256])
def test_a_choice_hides_what_is_no_number(n, tmp_path):
    """Keys of padding hold NaN; Where chooses -inf there, so nothing of them may reach a score, in a block that is used or not; nor a maximum."""
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Where", ["seen", "s", "low"], ["s2"]),
             helper.make_node("ReduceMax", ["s2"], ["most"], axes=[3], keepdims=0), helper.make_node("Softmax", ["s2"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    graph = helper.make_graph(nodes, "chosen", [*(value(x, TensorProto.FLOAT, [1, HEADS, n, DEPTH]) for x in "qkv"), value("seen", TensorProto.BOOL, [n, n])],
                              [value("y", TensorProto.FLOAT, [1, HEADS, n, DEPTH]), value("most", TensorProto.FLOAT, [1, HEADS, n])], low_of(-np.inf)[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, HEADS, n, DEPTH)).astype(np.float32) for _ in "qkv")
    seen = np.broadcast_to(np.arange(n)[None] < 30, (n, n))
    for name, x in dict(q=q, k=np.where(np.arange(n)[:, None] < 30, k, np.nan).astype(np.float32), v=v, seen=seen).items():
        np.save(tmp_path / f"{name}.npy", x)
    tenon("run", tmp_path / "m.so", *[w for name in ("q", "k", "v", "seen") for w in ("-i", f"{name}=@{tmp_path}/{name}.npy")], "--output-dir", tmp_path)
    s = np.where(seen, np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64), -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.einsum("bhij,bhjd->bhid", e / e.sum(-1, keepdims=True), v), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "most.npy"), s.max(-1), rtol=1e-4, atol=1e-5)


COMPARISONS = {"LessOrEqual": np.less_equal, "Less": np.less,
               "GreaterOrEqual": np.greater_equal, "Greater": np.greater}


@pytest.mark.parametrize("size, low", [(16, -np.inf), (32, LOWEST), (64, LOWEST), (128, -np.inf),
                                       (48, LOWEST)])
@pytest.mark.parametrize("compare", COMPARISONS)
def test_blocks_and_a_bound(compare, size, low, tmp_path):
    """Blocks of keys that are seen at once, up to a key of each row, or from one: one look each."""
    nq, nk, rng = 100, 200, np.random.default_rng(size)
    count = -(-nk // size)
    sizes = {"last": [-1], "each": [1, 1, size], "row": [0, -1], "from": [0], "to": [nk]}
    weights = [numpy_helper.from_array(np.array(x, "i8"), n) for n, x in sizes.items()]
    weights += [*low_of(low), numpy_helper.from_array(np.arange(nk), "j")]
    nodes = [helper.make_node(*node) for node in (
        ("Unsqueeze", ["blocks", "last"], ["block"]), ("Expand", ["block", "each"], ["many"]),
        ("Reshape", ["many", "row"], ["rows"]),
        ("Slice", ["rows", "from", "to", "axis"], ["shown"]),
        (compare, ["j", "bound"], ["there"]), ("And", ["shown", "there"], ["seen"]),
        ("Where", ["seen", "none", "low"], ["mask"]))]
    inputs = [value("blocks", TensorProto.BOOL, [nq, count]),
              value("bound", TensorProto.INT64, [nq, 1])]
    attention(tmp_path, nodes, nq, nk, weights, inputs)
    table = rf"^ *%\S*_seen: u8\[{-(-nq // 16)}, {-(-nk // 16)}\] = call"
    assert re.search(table, dump(tmp_path, "choose"), re.M)
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    blocks, bound = rng.random((nq, count)) < 0.4, rng.integers(-1, nk + 1, (nq, 1))
    seen = np.repeat(blocks, size, 1)[:, :nk] & COMPARISONS[compare](np.arange(nk), bound)
    q, k, v, y = run(tmp_path, nq, nk, 2, blocks=blocks, bound=bound)
    np.testing.assert_allclose(y, expected(q, k, v, each_row(seen, low)), rtol=1e-4, atol=1e-5)
