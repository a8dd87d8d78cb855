"""SparseAttention and LongformerAttention of ONNX Runtime against float64.

SparseAttention against its CPU kernel as well.
"""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from session import Session

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
FLOAT, INT, CPU = TensorProto.FLOAT, TensorProto.INT32, ["CPUExecutionProvider"]


def model(op, inputs, outputs, weights=(), **attributes):
    """inputs, outputs: {name: (kind, shape)}, in order; -NAME is left out. weights: constants."""
    names = [n if n[0] != "-" else "" for n in inputs]
    node = helper.make_node(op, names, list(outputs), domain="com.microsoft", **attributes)
    given = {n: t for n, t in inputs.items() if n[0] != "-" and n not in weights}
    info = helper.make_tensor_value_info
    values = [[info(n, *t) for n, t in v.items()] for v in (given, outputs)]
    stored = [numpy_helper.from_array(w, n) for n, w in dict(weights).items()]
    graph = helper.make_graph([node], "sparse", *values, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def compile_model(folder, m, *options):
    onnx.save(m, folder / "m.onnx")
    command = [TENON, "compile", folder / "m.onnx", "-o", folder / "m.so", *options]
    return subprocess.run(command, capture_output=True, text=True)


def compiled(folder, m, *options):
    done = compile_model(folder, m, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def chosen(folder, *options):
    """What is chosen for a target whose prices take tables, whatever processor this is."""
    command = [TENON, "compile", folder / "m.onnx", "--target", "x86-64-v4-bf16", "--dump=choose",
               "--stop-after=choose", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(folder, given):
    inputs = [i.name for i in onnx.load(folder / "m.onnx").graph.input]
    for name in inputs:
        np.save(folder / f"{name}.npy", given[name])
    inputs = [w for n in inputs for w in ("-i", f"{n}=@{folder}/{n}.npy")]
    command = [TENON, "run", folder / "m.so", *inputs, "--output-dir", folder]
    return subprocess.run(command, capture_output=True, text=True)


def run(folder, given):
    done = start(folder, given)
    assert done.returncode == 0, done.stderr
    return lambda name: np.load(folder / f"{name}.npy")


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- SparseAttention -----------------------------------------------------------------------


def csr(table):
    """bool[layouts, blocks, blocks] as row ends and columns; shorter layouts end in -1."""
    ends = np.concatenate([np.zeros((len(table), 1), int), table.sum(-1).cumsum(-1)], 1)
    columns = np.full((len(table), ends[:, -1].max()), -1)
    for own, layout in zip(columns, table, strict=True):
        own[:layout.sum()] = np.nonzero(layout)[1]
    return ends.astype("i4"), columns.astype("i4")


def layouts(count, blocks, near=2, stride=4):
    """Blocks nearby and every so many, elsewhere in each layout, as Phi-3-small has them."""
    i, j = np.arange(blocks)[:, None], np.arange(blocks)
    far = [(j + n + 1) % stride == 0 for n in range(count)]
    return np.stack([(j <= i) & ((i - j < near) | f) for f in far])


def turned(x, at, cosine, sine, interleaved):
    """x [b, s, heads, size] by the rows of the tables that at [b, s] names."""
    half = cosine.shape[1]
    c, s = cosine[at][:, :, None], sine[at][:, :, None]
    first, second = slice(half), slice(half, 2 * half)
    if interleaved:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    out = x.copy()
    out[..., first] = x[..., first] * c - x[..., second] * s
    out[..., second] = x[..., second] * c + x[..., first] * s
    return out


class Sparse:
    """Sizes of a SparseAttention, its model, and what it computes."""

    def __init__(self, heads=4, shared=2, size=16, block=16, blocks=8, count=2, cache=128,
                 packed=False, rotary=None, scale=None):
        self.heads, self.shared, self.size = heads, shared, size
        self.block, self.cache, self.table = block, cache, layouts(count, blocks)
        self.packed, self.rotary, self.scale = packed, rotary, scale
        self.rows, self.columns = csr(self.table)
        self.rng = np.random.default_rng(heads * 100 + count)
        half = rotary[0] if rotary else 0
        angle = self.rng.uniform(0, 6, (block * blocks, half))
        self.cosine, self.sine = np.cos(angle).astype("f4"), np.sin(angle).astype("f4")

    def model(self, batch="b", tokens="s", constant=True, total=None):
        wide = [n * self.size for n in (self.heads, self.shared, self.shared)]
        rows = {"qkv": (FLOAT, (batch, tokens, sum(wide))), "-k": None, "-v": None}
        if not self.packed:
            rows = {n: (FLOAT, (batch, tokens, w)) for n, w in zip("qkv", wide, strict=True)}
        past = (FLOAT, (batch, self.shared, self.cache, self.size))
        inputs = rows | {"past_key": past, "past_value": past}
        inputs |= {"rows": (INT, self.rows.shape), "columns": (INT, self.columns.shape)}
        inputs |= {"total": (INT, (1,)), "lengths": (INT, (batch,))}
        attributes = {"num_heads": self.heads, "kv_num_heads": self.shared}
        attributes |= {"sparse_block_size": self.block}
        weights = {"rows": self.rows, "columns": self.columns} if constant else {}
        weights |= {"total": np.array([total], "i4")} if total else {}
        if self.rotary:
            inputs |= {n: (FLOAT, self.cosine.shape) for n in ("cosine", "sine")}
            weights |= {"cosine": self.cosine, "sine": self.sine}
            attributes |= {"do_rotary": 1, "rotary_interleaved": self.rotary[1]}
        if self.scale:
            attributes["scale"] = self.scale
        y = (FLOAT, (batch, tokens, wide[0]))
        outputs = {"y": y, "present_key": past, "present_value": past}
        return model("SparseAttention", inputs, outputs, weights, **attributes)

    def given(self, lengths, tokens, prompt):
        """Random rows and a past of anything where nothing is held."""
        batch, total = len(lengths), tokens if prompt else max(lengths)
        f = lambda *shape: self.rng.standard_normal(shape).astype("f4")
        heads = {"q": self.heads, "k": self.shared, "v": self.shared}
        x = {n: f(batch, tokens, h * self.size) for n, h in heads.items()}
        x = {"qkv": np.concatenate(list(x.values()), 2)} if self.packed else x
        x |= {n: f(batch, self.shared, self.cache, self.size) for n in ("past_key", "past_value")}
        x |= {"rows": self.rows, "columns": self.columns, "cosine": self.cosine, "sine": self.sine}
        return x | {"total": np.array([total], "i4"), "lengths": np.array(lengths, "i4")}

    def computed(self, x):
        """y, present keys and values, in float64; and which rows of y are not padding."""
        wide = [n * self.size for n in (self.heads, self.shared)]
        parts = np.split(x["qkv"], np.cumsum(wide), 2) if self.packed else [x[n] for n in "qkv"]
        batch, tokens = parts[0].shape[:2]
        q, k, v = (p.reshape(batch, tokens, -1, self.size).astype("f8") for p in parts)
        lengths, total = x["lengths"].astype(int), int(x["total"][0])
        begin = np.zeros(batch, int) if total == tokens else lengths - tokens
        at = begin[:, None] + np.arange(tokens)
        if self.rotary:
            q, k = (turned(p, at, self.cosine, self.sine, self.rotary[1]) for p in (q, k))
        present = [x["past_key"].astype("f8"), x["past_value"].astype("f8")]
        for b in range(batch):
            for p, new in zip(present, (k, v), strict=True):
                p[b, :, begin[b]:begin[b] + tokens] = new[b].swapaxes(0, 1)
        keys, values = (np.repeat(p[:, :, :total], self.heads // self.shared, 1) for p in present)
        s = np.einsum("bihd,bhjd->bhij", q, keys) * (self.scale or self.size ** -0.5)
        i, j, own = at[:, :, None], np.arange(total), np.arange(self.heads) % len(self.table)
        shown = self.table[own][:, i // self.block, j // self.block].swapaxes(0, 1)
        seen = shown & (j <= i)[:, None]
        y = np.einsum("bhij,bhjd->bihd", softmax(np.where(seen, s, -np.inf)), values)
        return y.reshape(batch, tokens, -1), present, at < lengths[:, None]

    def check(self, folder, x):
        y = run(folder, x)
        want, present, real = self.computed(x)
        np.testing.assert_allclose(y("y")[real], want[real], rtol=1e-4, atol=1e-5)
        for name, p in zip(("present_key", "present_value"), present, strict=True):
            for b, n in enumerate(x["lengths"]):
                np.testing.assert_allclose(y(name)[b, :, :n], p[b, :, :n], rtol=1e-5, atol=1e-6)


KINDS = {
    "plain": {},
    "one layout": {"count": 1},
    "a layout a head": {"count": 4, "shared": 1},
    "small blocks": {"block": 5, "blocks": 20, "cache": 90},
    "more cache than blocks": {"blocks": 5, "cache": 111},
    "packed": {"packed": True},
    "scale": {"scale": 0.3, "heads": 6, "shared": 6, "count": 3},
    "rotary": {"rotary": (8, 0)},
    "rotary in pairs, packed": {"rotary": (8, 1), "packed": True},
    "rotary of some columns": {"rotary": (8, 0), "size": 32},
}
PROMPTS = [([1], 1), ([33, 33], 33), ([64], 64), ([7, 40, 70], 70)]
STEPS = [([34, 2], 1), ([70], 1), ([65, 30, 17], 5)]


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_and_steps(kind, tmp_path):
    """Batches whose sequences differ in length; in a step the past of each does."""
    sparse = Sparse(**KINDS[kind])
    compiled(tmp_path, sparse.model())
    for lengths, tokens in PROMPTS:
        sparse.check(tmp_path, sparse.given(lengths, tokens, True))
    for lengths, tokens in STEPS:
        sparse.check(tmp_path, sparse.given(lengths, tokens, False))


@pytest.mark.parametrize("kind", ["plain", "one layout"])
def test_layouts_from_data(kind, tmp_path):
    sparse = Sparse(**KINDS[kind])
    compiled(tmp_path, sparse.model(constant=False))
    sparse.check(tmp_path, sparse.given([40, 70], 70, True))
    sparse.check(tmp_path, sparse.given([40, 70], 3, False))


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "small blocks"])
def test_onnxruntime_agrees(kind, tmp_path):
    """Without padding, where its kernel mixes up sequences. Its past and present share memory."""
    sparse = Sparse(**KINDS[kind])
    m = sparse.model()
    compiled(tmp_path, m)
    session = onnxruntime.InferenceSession(m.SerializeToString(), providers=CPU)
    for length, tokens in ((40, 40), (55, 1), (77, 6)):
        x = sparse.given([length, length], tokens, length == tokens)
        y, bound = run(tmp_path, x), session.io_binding()
        bound.bind_output("y")
        for name in [i.name for i in session.get_inputs()]:
            shared = onnxruntime.OrtValue.ortvalue_from_numpy(x[name].copy())
            bound.bind_ortvalue_input(name, shared)
            if name.startswith("past"):
                bound.bind_ortvalue_output(name.replace("past", "present"), shared)
        session.run_with_iobinding(bound)
        want = bound.get_outputs()[0].numpy()
        np.testing.assert_allclose(y("y"), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block, total", [(64, 1024), (64, None), (16, None), (128, None)])
def test_hidden_blocks_are_omitted(block, total, tmp_path):
    """By a table that takes a look at blocks of keys; nothing is stored of pairs of tokens."""
    sparse = Sparse(heads=8, size=64, block=block, blocks=1024 // block, count=4, cache=1024)
    compiled(tmp_path, sparse.model(1, 1024, total=total))
    text = chosen(tmp_path)
    assert re.search(r"^ *omit ", text, re.M)
    assert not re.search(r"^  %.* 1024, 1024\].* = call", text, re.M), "the mask is stored"
    assert total or re.search(rf"_seen: u8\[8, 64, {1024 // 16}\] = call", text)
    sparse.check(tmp_path, sparse.given([1024], 1024, True))


def test_omitted_blocks_of_any_length(tmp_path):
    """The sizes are open, and no multiple of what a table counts by."""
    sparse = Sparse(block=32, blocks=20, count=2, cache=600)
    hints = [w for d in ("b=1", "s=512") for w in ("--dim-hint", d)]
    compiled(tmp_path, sparse.model(), *hints)
    assert re.search(r"^ *omit ", chosen(tmp_path, *hints), re.M)
    for lengths, tokens in (([600], 600), ([333, 7], 333), ([50, 600], 50)):
        sparse.check(tmp_path, sparse.given(lengths, tokens, tokens == max(lengths)))


def test_a_cache_that_grows(tmp_path):
    """As a state of the session it has as many rows as there were tokens."""
    sparse = Sparse(rotary=(8, 0))
    m = sparse.model()
    for kind in ("key", "value"):
        changed(m, f"past_{kind}", ("b", 2, "past", 16))
        changed(m, f"present_{kind}", ("b", 2, "now", 16))
    onnx.save(m, tmp_path / "m.onnx")
    assert compile_model(tmp_path, m, "--state", "past_*=present_*").returncode == 0
    session, rows = Session(tmp_path / "m.so"), 0
    sparse.cache, kept = 0, None
    for new in (40, 1, 1, 7):
        rows += new
        x = sparse.given([rows, rows], new, False)
        room = np.zeros((2, 2, new, 16), "f4")
        past = {n: room if kept is None else np.concatenate([k, room], 2)
                for n, k in zip(("past_key", "past_value"), kept or (0, 0), strict=True)}
        want, kept, _ = sparse.computed(x | past)
        y = session.run({n: x[n] for n in ("q", "k", "v", "total", "lengths")})["y"]
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def changed(m, name, shape):
    """The model with another shape of an input, or another value of an attribute."""
    for x in [*m.graph.input, *m.graph.output]:
        if x.name == name:
            x.CopyFrom(helper.make_tensor_value_info(name, x.type.tensor_type.elem_type, shape))
    for a in m.graph.node[0].attribute:
        if a.name == name:
            a.i = shape
    return m


@pytest.mark.parametrize("name, to, words", [
    ("k", ("b", "s", 40), "axis 2 of input 1 (k) and shared*size differ: 40 and 32"),
    ("v", ("b", "s"), "input 2 (v) is f32[b, s]; [b, s, shared*size] is needed"),
    ("q", ("b", "s", 66), "the query has 66 columns for 4 heads"),
    ("past_key", ("b", 3, 128, 16), "axis 1 of input 3 (past_key) and shared differ: 3 and 2"),
    ("past_value", ("b", 2, 100, 16), "axis 2 of input 4 (past_value) and axis 2 of past_key differ: 100 and 128"),
    ("columns", (3, 26), "axis 0 of input 6 (columns) and axis 0 of ends differ: 3 and 2"),
    ("rows", ("layouts", 9), "axis 0 of input 5 (ends), i32[layouts, 9], has to be known"),
    ("lengths", ("b", 1), "input 8 (lengths) is i32[b, 1]; [b] is needed"),
    ("kv_num_heads", 3, "4 heads of queries are no multiple of the 3 heads of keys"),
    ("sparse_block_size", 0, "\"sparse_block_size\" is 0; 1 or more is needed"),
])
def test_sizes_that_do_not_fit(name, to, words, tmp_path):
    done = compile_model(tmp_path, changed(Sparse().model(constant=False), name, to))
    assert done.returncode in (3, 4) and words in done.stderr, done.stderr
    assert done.stderr.count("error:") == 1, done.stderr


def test_layouts_that_do_not_fit_heads(tmp_path):
    done = compile_model(tmp_path, Sparse(count=3).model())
    assert done.returncode == 3, done.stderr
    assert "4 heads with block_row_indices of type i32[3, 9]" in done.stderr


@pytest.mark.parametrize("cache, total, words", [(256, 129, "than the 8 blocks of 16 tokens"),
                                                 (100, 101, "than the cache")])
def test_lengths_that_do_not_fit(cache, total, words, tmp_path):
    sparse = Sparse(cache=cache)
    compiled(tmp_path, sparse.model())
    done = start(tmp_path, sparse.given([total], 1, False))
    assert done.returncode == 2 and words in done.stderr, done.stderr


# ---- LongformerAttention -------------------------------------------------------------------


class Longformer:
    """Sizes of a LongformerAttention, its weights, its model, and what it computes."""

    def __init__(self, heads=2, size=8, window=4, apart=False, kind="f4"):
        self.heads, self.wide, self.window, self.apart = heads, heads * size, window, apart
        self.kind, self.rng = kind, np.random.default_rng(heads * 100 + window)
        n, f = self.wide, lambda *shape: self.rng.standard_normal(shape).astype(kind)
        self.weights = (f(6, n, n) * n ** -0.5).astype(kind)         # q, k, v; global q, k, v
        self.biases = f(6, n)

    def model(self, batch="b", tokens="s"):
        n, (w, b) = self.wide, (self.weights, self.biases)
        float_ = helper.np_dtype_to_tensor_dtype(np.dtype(self.kind))
        side = lambda w: np.concatenate(list(w), -1)
        if self.apart:
            weights = {"w": w[:3], "bias": side(b[[0, 1, 2, 4, 5]]), "gw": w[3:], "gbias": b[3]}
        else:
            weights = {"w": side(w[:3]), "bias": side(b[:3])}
            weights |= {"gw": side(w[3:]), "gbias": side(b[3:])}
        flags, x = (INT, (batch, tokens)), (float_, (batch, tokens, n))
        inputs = {"x": x} | {k: (float_, v.shape) for k, v in weights.items()} | {"flags": flags}
        mask = {"mask": (float_, (batch, tokens))}
        inputs = {k: (inputs | mask)[k] for k in ("x", "w", "bias", "mask", "gw", "gbias", "flags")}
        attributes = {"num_heads": self.heads, "window": self.window}
        return model("LongformerAttention", inputs, {"y": x}, weights, **attributes)

    def given(self, lengths, tokens, flags):
        """flags: of each sequence, the tokens that are global."""
        there = np.arange(tokens) < np.array(lengths)[:, None]
        x = self.rng.standard_normal((len(lengths), tokens, self.wide)).astype(self.kind)
        marks = np.zeros(there.shape, "i4")
        for own, places in zip(marks, flags, strict=True):
            own[places] = 1
        return {"x": x, "mask": np.where(there, 0, -10000).astype(self.kind), "flags": marks}

    def computed(self, given):
        x, mask, flags = given["x"].astype("f8"), given["mask"].astype("f8"), given["flags"] != 0
        w, c = self.weights.astype("f8"), self.biases.astype("f8")
        heads = (*mask.shape, self.heads, -1)
        q, k, v, *others = ((x @ m + a).reshape(heads) for m, a in zip(w, c, strict=True))
        y = np.zeros(q.shape)
        for b, i in zip(*np.nonzero(mask >= 0), strict=True):
            own, keys, values = (p[b] for p in (others if flags[b, i] else (q, k, v)))
            seen = (abs(np.arange(q.shape[1]) - i) <= self.window) | flags[b] | flags[b, i]
            scores = np.einsum("hd,jhd->hj", own[i], keys[seen]) * q.shape[-1] ** -0.5
            scores += mask[b, seen]
            y[b, i] = np.einsum("hj,jhd->hd", softmax(scores), values[seen])
        return y.reshape(x.shape)

    def check(self, folder, x, tolerance=(1e-4, 1e-5)):
        got, (relative, absolute) = run(folder, x)("y"), tolerance
        np.testing.assert_allclose(got, self.computed(x), rtol=relative, atol=absolute)


BATCHES = [
    ([16], 16, [[0]]),                                   # one token that all see
    ([24, 24], 24, [[], []]),                            # none
    ([40, 17, 9], 40, [[0, 1], [3, 16], [8]]),           # at other places, beside padding
    ([32, 32], 32, [[], [5, 31]]),                       # of one sequence alone
    ([30, 12], 31, [range(31), range(6)]),               # all of them, padding too; an odd length
    ([1], 1, [[]]),
]


@pytest.mark.parametrize("sizes", [(2, 8, 4, False), (3, 16, 1, True), (1, 4, 64, False)])
def test_tokens_near_and_global(sizes, tmp_path):
    longformer = Longformer(*sizes)
    compiled(tmp_path, longformer.model())
    for lengths, tokens, flags in BATCHES:
        longformer.check(tmp_path, longformer.given(lengths, tokens, flags))


def test_halves(tmp_path):
    longformer = Longformer(kind="f2")
    compiled(tmp_path, longformer.model())
    longformer.check(tmp_path, longformer.given([40, 17], 40, [[0], [3, 16]]), (2e-2, 2e-2))


def test_blocks_far_away_are_omitted(tmp_path):
    longformer = Longformer(heads=4, size=64, window=128)
    text = compiled(tmp_path, longformer.model(2, 2048), "--dump=choose")
    assert re.search(r"^ *(omit|skip) ", text, re.M)
    assert not re.search(r"^  %.* 2048, 2048\].* = call", text, re.M), "the mask is stored"
    longformer.check(tmp_path, longformer.given([2048, 1500], 2048, [[0], [0, 700]]))


@pytest.mark.parametrize("name, to, words", [
    ("x", ("b", 8), "input 0 (x) is f32[b, 8]; [b, s, n] is needed"),
    ("x", ("b", 8, 24), "axis 0 of input 1 (weight) and axis 2 of x differ: 16 and 24"),
    ("mask", ("b", 8, 1), "input 3 (mask) is f32[b, 8, 1]; [b, s] is needed"),
    ("flags", ("b", 7), "axis 1 of input 6 (global) and axis 1 of x differ: 7 and 8"),
    ("num_heads", 3, "3 heads for 16 columns"),
    ("window", 0, "\"window\" is 0; 1 or more is needed"),
])
def test_longformer_sizes_that_do_not_fit(name, to, words, tmp_path):
    done = compile_model(tmp_path, changed(Longformer().model("b", 8), name, to))
    assert done.returncode in (3, 4) and words in done.stderr, done.stderr
    assert done.stderr.count("error:") == 1, done.stderr
