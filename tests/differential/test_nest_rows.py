"""Every row of part 1 of doc/nest.md, written as text and compared with NumPy in three ways.

A row is one nest, or several that are wired by the names of their parameters; each becomes a graph
of calls. The interpreter runs the graph of each row, and again what is printed of it; then all rows
together are one model, compiled by the simplest schedule and by the best one. A row that cannot be
said, or means something else than NumPy does on any of these ways, fails here.
"""
import math
import os
import pathlib
import re
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
TOOL = BUILD / "tests" / "tool_ref"
rng = np.random.default_rng(7)
erf = np.vectorize(math.erf)
view = np.lib.stride_tricks.sliding_window_view

def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)

def whole(*shape, most=9):
    """Small whole numbers: sums of them are exact, in whatever order."""
    return rng.integers(-most, most, shape).astype(np.float32)

# ---- rows ------------------------------------------------------------------------------------------

@dataclass(eq=False)
class Row:
    name: str
    text: str                        # nests
    inputs: list
    outputs: list                    # what NumPy says
    exact: bool

ROWS: list[Row] = []

def row(text, *inputs, exact=False):
    """A function that computes a row's outputs from its inputs; its name is the row's."""

    def add(function):
        want = function(*inputs)
        want = list(want) if isinstance(want, tuple) else [want]
        ROWS.append(Row(function.__name__, text, list(inputs), want, exact))
        return function

    return add

def gelu(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))

def f64(x):
    return x.astype(np.float64)

def softmax_of(x):
    e = np.exp(f64(x) - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)

# elementwise, broadcast

@row("""nest bias_gelu(x: f32[n, m], b: f32[m]) -> (o: f32[n, m]) {
          o[i, j] = let v = x[i, j] + b[j] in 0.5 * v * (1 + erf(v * 0.70710678118654752))
        }""", floats(5, 37), floats(37))
def bias_and_gelu(x, b):
    return gelu(f64(x) + b).astype(np.float32)

@row("nest add(x: f32[a, 1, c], y: f32[b, c]) -> (o: f32[a, b, c]) { o[i, j, k] = x[i, 0, k] + y[j, k] }",
     floats(4, 1, 19), floats(5, 19), exact=True)
def broadcast(x, y):
    return x + y

@row("nest add(x: f32[a, b], y: f32[]) -> (o: f32[b]) { o[j] = x[1, j] * y[] }", floats(4, 3), np.array(2.5, np.float32), exact=True)
def rank_zero(x, y):
    return x[1] * y

@row("nest sum(x: f32[a, b]) -> (o: f32[]) { o[] = sum i, j: x[i, j] }", whole(7, 33), exact=True)
def everything_into_rank_zero(x):
    return x.sum()

# reductions

@row("""nest m(x: f32[n, k]) -> (m: f32[n]) { m[i] = max j: x[i, j] }
        nest e(x: f32[n, k], m: f32[n]) -> (e: f32[n, k]) { e[i, j] = exp(x[i, j] - m[i]) }
        nest s(e: f32[n, k]) -> (s: f32[n]) { s[i] = sum j: e[i, j] }
        nest d(e: f32[n, k], s: f32[n]) -> (o: f32[n, k]) { o[i, j] = e[i, j] / s[i] }""", floats(3, 41))
def softmax(x):
    return softmax_of(x)

@row("""nest mean(x: f32[n, k]) -> (mean: f32[n]) { mean[i] = (sum j: x[i, j]) / f32(k) }
        nest var(x: f32[n, k], mean: f32[n]) -> (var: f32[n]) {
          var[i] = (sum j: let d = x[i, j] - mean[i] in d * d) / f32(k)
        }
        nest norm(x: f32[n, k], mean: f32[n], var: f32[n], g: f32[k], b: f32[k]) -> (o: f32[n, k]) {
          o[i, j] = (x[i, j] - mean[i]) / sqrt(var[i] + 1e-5) * g[j] + b[j]
        }""", floats(3, 50), floats(50), floats(50))
def layer_norm(x, g, b):
    y = f64(x)
    return ((y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5) * g + b).astype(np.float32)

def combiner(name, fold, x):
    dtype = {"float32": "f32", "bool": "bool", "int64": "i64", "int8": "i8", "float64": "f64", "uint8": "u8"}[x.dtype.name]
    text = "nest r(x: %s[n, k]) -> (o: %s[n]) { o[i] = %s j: x[i, j] }" % (dtype, dtype, name)
    columns = "nest r(x: %s[k, n]) -> (o: %s[n]) { o[i] = %s j: x[j, i] }" % (dtype, dtype, name)
    for text, x in (text, x), (columns, np.ascontiguousarray(x.T)):
        axis = 1 if text.endswith("x[i, j] }") else 0
        want = fold(x, axis=axis).astype(x.dtype)
        ROWS.append(Row(f"{name}_{dtype}_{axis}", text, [x], [want], name != "prod"))

for x in (whole(4, 37), rng.integers(-99, 99, (4, 37)), rng.integers(-9, 9, (4, 37)).astype(np.float64)):
    combiner("sum", np.sum, x)
    combiner("max", np.max, x)
    combiner("min", np.min, x)
for x in rng.integers(-128, 128, (3, 21), np.int8), rng.integers(0, 256, (3, 21), np.uint8):
    combiner("max", np.max, x)
    combiner("min", np.min, x)
combiner("prod", np.prod, floats(4, 6))
combiner("any", np.any, rng.random((8, 3)) < 0.3)
combiner("all", np.all, rng.random((8, 3)) < 0.7)
combiner("any", np.any, rng.random((40, 33)) < 0.02)

@row("nest r(x: f32[n, k]) -> (o: f32[n]) { o[i] = max j: x[i, j] }",
     np.where(np.arange(74).reshape(2, 37) == 50, np.nan, floats(2, 37)).astype(np.float32), exact=True)
def maximum_keeps_nan(x):
    return x.max(1)

@row("nest r(x: f32[n, k]) -> (v: f32[n], a: i64[n]) { (v, a)[i] = argmax j: (x[i, j], j) }",
     rng.integers(0, 4, (20, 9)).astype(np.float32), exact=True)
def argmax_first_on_ties(x):
    return x.max(1), np.argmax(x, axis=1)

@row("nest r(x: i32[k, n]) -> (v: i32[n], a: i64[n]) { (v, a)[i] = argmin j: (x[j, i], j) }",
     rng.integers(0, 4, (9, 20)).astype(np.int32), exact=True)
def argmin_of_columns(x):
    return x.min(0), np.argmin(x, axis=0)

# convolution, pooling

@row("""nest conv(x: f32[b, c, h, v], w: f32[f, c, 3, 3]) -> (o: f32[b, f, (h - 1) // 2 + 1, (v - 1) // 2 + 1]) {
          o[n, k, y, z] = sum q, r, s: x[n, q, 2*y + r - 1, 2*z + s - 1 | 0] * w[k, q, r, s]
        }""", whole(2, 3, 7, 38), whole(4, 3, 3, 3), exact=True)
def convolution_stride_2_pad_1(x, w):
    windows = view(np.pad(f64(x), ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    return np.einsum("bcyzrs,fcrs->bfyz", windows, w).astype(np.float32)

@row("nest pool(x: f32[n, m]) -> (o: f32[n, m]) { o[i, j] = max r<3>: x[i, j + r - 1 | -inf] }", floats(2, 39), exact=True)
def max_pooling(x):
    return view(np.pad(x, ((0, 0), (1, 1)), constant_values=-np.inf), 3, axis=1).max(-1)

@row("""nest pool(x: f32[n, m]) -> (o: f32[n, m]) {
          for i<n>, j<m>, reduce r<3>, reduce s<3>:
          o[i, j] = (sum r, s: x[i + r - 1, j + s - 1 | 0])
                  / (sum r, s: i + r >= 1 ? (i + r <= n ? (j + s >= 1 ? (j + s <= m ? f32(1) : 0) : 0) : 0) : 0)
        }""", floats(5, 22))
def average_pooling_without_padding_counted(x):
    total = view(np.pad(f64(x), 1), (3, 3)).sum((-1, -2))
    return (total / view(np.pad(np.ones_like(x), 1), (3, 3)).sum((-1, -2))).astype(np.float32)

# data movement

@row("nest t(x: f32[n, m]) -> (o: f32[m, n]) { o[i, j] = x[j, i] }", floats(18, 35), exact=True)
def transpose(x):
    return x.T

@row("nest t(x: f32[n, 5]) -> (o: f32[5*n]) { o[i] = x[i // 5, i % 5] }", floats(13, 5), exact=True)
def reshape(x):
    return x.reshape(-1)

@row("nest t(x: f32[n]) -> (o: f32[n // 3]) { o[i] = x[3*i + 2] }", floats(137), exact=True)
def slice_with_a_step(x):
    return x[2::3][:137 // 3]

@row("nest t(x: f32[n]) -> (o: f32[n]) { o[i] = x[n - 1 - i] }", floats(37), exact=True)
def slice_backwards(x):
    return x[::-1]

@row("nest t(x: f32[n], y: f32[m]) -> (o: f32[n + m]) { o[i] = i < n ? x[i] : y[i - n] }", floats(24), floats(16), exact=True)
def concat(x, y):
    return np.concatenate([x, y])

@row("nest t(x: u8[n, k], y: u8[m, k]) -> (o: u8[n + m, k]) { o[i, j] = i < n ? x[i, j] : y[i - n, j] }",
     rng.integers(0, 256, (2, 37), np.uint8), rng.integers(0, 256, (3, 37), np.uint8), exact=True)
def concat_of_rows(x, y):
    return np.concatenate([x, y])

# order

@row("nest t(x: f32[n, m]) -> (o: f32[n, m]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, j] }", whole(3, 28), exact=True)
def cumulative_sum(x):
    return np.cumsum(x, axis=1, dtype=np.float32)

@row("nest t(x: f32[m, n]) -> (o: f32[m, n]) { o[j, i] = scan j: o[j - 1, i | 0] + x[j, i] }", whole(6, 28), exact=True)
def cumulative_sum_of_columns(x):
    return np.cumsum(x, axis=0, dtype=np.float32)

# indices from data

GATHER = "nest t(x: f32[n, m], idx: i64[k]) -> (o: f32[k, m]) { o[i, j] = x[at(idx[i], n), j] }"

@row(GATHER, floats(6, 24), rng.integers(-6, 6, 11), exact=True)
def gather(x, idx):
    return x[idx]

@row("nest t(x: f32[n], idx: i32[k]) -> (o: f32[k]) { o[i] = x[at(idx[i], n)] }",
     floats(6), rng.integers(-6, 6, 37).astype(np.int32), exact=True)
def gather_of_elements(x, idx):
    return x[idx]

@row("""nest t(x: f32[n, m], idx: i64[k], u: f32[k, m]) -> (o: f32[n, m]) {
          for i<k>, j<m>:
          o[at(idx[i], n), j] sum= u[i, j] over x
        }""", whole(5, 21), rng.integers(0, 5, 12), whole(12, 21), exact=True)
def scatter_add_over_the_old_value(x, idx, u):
    want = x.copy()
    np.add.at(want, idx, u)
    return want

@row("""nest t(x: f32[n], idx: i64[k], u: f32[k]) -> (o: f32[n]) {
          for i<k>:
          o[at(idx[i], n)] last= u[i] over x
        }""", floats(5), np.array([1, 3, 1]), floats(3), exact=True)
def scatter_the_last_wins(x, idx, u):
    want = x.copy()
    want[idx] = u
    return want

@row("""nest t(x: f32[n]) -> (o: f32[30]) {
          o[i] = let p = max((f32(i) + 0.5) * f32(n) / 30 - 0.5, 0) in
                 let a = i64(floor(p)) in let b = min(a + 1, n - 1) in let f = p - f32(a) in
                 x[a] * (1 - f) + x[b] * f
        }""", floats(21))
def bilinear_resize_by_computed_indices(x):
    p = np.maximum((np.arange(30, dtype=np.float32) + np.float32(0.5)) * 21 / 30 - 0.5, 0)
    a = np.floor(p).astype(int)
    b = np.minimum(a + 1, 20)
    return (x[a] * (1 - (p - a)) + x[b] * (p - a)).astype(np.float32)

@row("nest t(x: f32[n, m]) -> (o: f32[2*n, 2*m]) { o[i, j] = x[i // 2, j // 2] }", floats(4, 19), exact=True)
def resize_by_an_integer_is_affine(x):
    return x.repeat(2, 0).repeat(2, 1)

# integers

@row("""nest t(x: i8[n, k], w: i8[k, m]) -> (o: u8[n, m]) {
          o[i, j] = u8(round(f32(sum q: i32(x[i, q]) * i32(w[q, j])) * 0.005) + 128)
        }""", rng.integers(-128, 128, (15, 9), np.int8), rng.integers(-128, 128, (9, 35), np.int8), exact=True)
def quantised_product(x, w):
    exact = (x.astype(np.int32) @ w.astype(np.int32)).astype(np.float32) * np.float32(0.005)
    return np.clip(np.rint(exact) + 128, 0, 255).astype(np.uint8)

@row("nest t(x: i64[n]) -> (o: i64[n], p: i64[n]) { o[i] = x[i] * x[i] - 3\n p[i] = x[i] < 0 ? -x[i] : 2*i }",
     rng.integers(-1 << 40, 1 << 40, 21) >> 12, exact=True)
def wide_integers_and_two_outputs(x):
    return x * x - 3, np.where(x < 0, -x, 2 * np.arange(21))

@row("""nest t(p: f32[r, 5], k: i64[n, 2], u: f32[5, 33], w: f32[5, 33]) -> (o: f32[n, 33]) {
          o[i, j] = tanh((sum q: (p[at(k[i, 0], r), q] * u[q, j])) - (sum q: (p[at(k[i, 1], r), q] * w[q, j])) / 8)
        }""", floats(9, 5), rng.integers(0, 9, (7, 2)), floats(5, 33), floats(5, 33))
def two_products(p, k, u, w):
    return np.tanh(p[k[:, 0]] @ u - p[k[:, 1]] @ w / 8)

# ragged, blocks, batches

@row("nest t(x: f32[n, m], len: i64[n]) -> (o: f32[n, m]) { o[i, j<len[i]>] = 2 * x[i, j] }",
     floats(4, 26), np.array([3, 0, 26, 17]), exact=True)
def ragged_rows(x, length):
    return np.where(np.arange(26) < length[:, None], 2 * x, np.float32(0))

@row("nest t(x: f32[n, m], len: i64[n]) -> (o: f32[n]) { o[i] = sum j<len[i]>: x[i, j] }",
     whole(4, 26), np.array([3, 0, 26, 17]), exact=True)
def ragged_sums(x, length):
    return np.array([x[i, :n].sum() for i, n in enumerate(length)], np.float32)

@row("""nest t(q: f32[n, d], k: f32[m, d], rows: i64[p], col: i64[t]) -> (o: f32[n, t, 4]) {
          o[i, b, r] = rows[i // 4] <= b ? (b < rows[i // 4 + 1] ? (sum e: q[i, e] * k[4*col[b] + r, e]) : 0) : 0
        }""", whole(8, 5), whole(12, 5), np.array([0, 2, 3]), np.array([0, 2, 1]), exact=True)
def block_sparse_scores(q, k, rows, col):
    want = np.zeros((8, 3, 4), np.float32)
    for i in range(8):
        for b in range(rows[i // 4], rows[i // 4 + 1]):
            want[i, b] = k[4 * col[b]:4 * col[b] + 4] @ q[i]
    return want

@row("nest t(x: f32[b, n, k], w: f32[k, m]) -> (o: f32[b, n, m]) { o[s, i, j] = sum q: x[s, i, q] * w[q, j] }",
     whole(3, 15, 5), whole(5, 36), exact=True)
def batch_of_instances_shares_what_does_not_differ(x, w):
    return x @ w

@row("nest t(x: f32[n, k]) -> (o: f32[n]) { o[i] = sum j: x[i, j] }", floats(0, 4), exact=True)
def no_points(x):
    return x.sum(1)

@row("nest t(x: f32[n, k]) -> (o: f32[n]) { o[i] = sum j: x[i, j] }", floats(3, 0), exact=True)
def no_terms(x):
    return x.sum(1)

# groups

@row("""nest conv(x: f32[b, c, h, v], w: f32[f, c, 3, 3]) -> (s: f32[b, f, h, v]) {
          s[n, k, y, z] = sum q, i, j: x[n, q, y + i - 1, z + j - 1 | 0] * w[k, q, i, j]
        }
        nest bias(s: f32[b, f, h, v], a: f32[f]) -> (t: f32[b, f, h, v]) { t[n, k, y, z] = s[n, k, y, z] + a[k] }
        nest relu(t: f32[b, f, h, v]) -> (o: f32[b, f, h, v]) { o[n, k, y, z] = max(t[n, k, y, z], 0) }""",
     whole(2, 5, 9, 37), whole(17, 5, 3, 3), whole(17), exact=True)
def convolution_bias_relu(x, w, c):
    windows = view(np.pad(f64(x), ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return np.maximum(np.einsum("bcyzrs,fcrs->bfyz", windows, w) + c[:, None, None], 0).astype(np.float32)

@row("""nest scores(q: f32[n, d], k: f32[m, d]) -> (s: f32[n, m]) { s[i, j] = 0.25 * (sum e: q[i, e] * k[j, e]) }
        nest m(s: f32[n, m]) -> (t: f32[n]) { t[i] = max j: s[i, j] }
        nest e(s: f32[n, m], t: f32[n]) -> (e: f32[n, m]) { e[i, j] = exp(s[i, j] - t[i]) }
        nest s(e: f32[n, m]) -> (z: f32[n]) { z[i] = sum j: e[i, j] }
        nest p(e: f32[n, m], z: f32[n]) -> (p: f32[n, m]) { p[i, j] = e[i, j] / z[i] }
        nest out(p: f32[n, m], v: f32[m, d]) -> (o: f32[n, d]) { o[i, c] = sum j: p[i, j] * v[j, c] }""",
     floats(15, 16), floats(21, 16), floats(21, 16))
def product_softmax_product(q, k, v):
    return (f64(softmax_of(0.25 * (f64(q) @ f64(k).T))) @ v).astype(np.float32)

# ---- rows as graphs ------------------------------------------------------------------------------------

HEAD = re.compile(r"nest\s+\w+\((.*?)\)\s*->\s*\((.*?)\)\s*\{")
PARAM = re.compile(r"(\w+):\s*(\w+)\[(.*?)\]")

class Part:
    """A row's nests as the calls of a graph, its symbols and values named apart from other rows'."""

    def __init__(self, r: Row, k: int):
        inputs, defined, calls = [], {}, []
        symbols = {s for _, _, dims in PARAM.findall(r.text) for s in re.findall(r"[a-zA-Z_]\w*", dims)}
        text = re.sub(r"\b[a-zA-Z_]\w*\b", lambda w: f"{w[0]}_{k}" if w[0] in symbols else w[0], r.text)
        nests = re.split(r"\n\s*(?=nest )", text)
        for nest in nests:
            head = HEAD.search(nest)
            ins, outs = PARAM.findall(head[1]), PARAM.findall(head[2])
            for name, dtype, dims in ins:
                if name not in defined:
                    defined[name] = f"%r{k}_{name}"
                    inputs.append(f"{defined[name]}: {dtype}[{dims}]")
            arguments = ", ".join(defined[name] for name, _, _ in ins)
            defined.update((name, f"%r{k}_{name}") for name, _, _ in outs)
            results = ", ".join(f"{defined[name]}: {dtype}[{dims}]" for name, dtype, dims in outs)
            calls.append(f"  {results} = call({arguments}) from \"{r.name}\"\n    {nest}\n")
        self.inputs, self.calls = inputs, "".join(calls)
        self.input_names = [i.split(":")[0][1:] for i in inputs]
        self.outputs = [defined[name][1:] for name, _, _ in outs]

def graph(parts):
    inputs = ", ".join(i for p in parts for i in p.inputs)
    outputs = ", ".join("%" + o for p in parts for o in p.outputs)
    return f"graph @rows({inputs}) -> ({outputs}) {{\n{''.join(p.calls for p in parts)}}}\n"

DIRTY = os.environ | {"MALLOC_PERTURB_": "171"}         # memory that nobody wrote holds no zeros

def call(*args):
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True, timeout=600, env=DIRTY)
    assert done.returncode == 0, f"{' '.join(map(str, args))}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout

def save_inputs(r: Row, part: Part, folder):
    files = {}
    for name, x in zip(part.input_names, r.inputs, strict=True):
        files[name] = folder / f"{name}.npy"
        np.save(files[name], x.copy(order="C"))
    return files

def check(r: Row, got, loose):
    assert len(got) == len(r.outputs)
    for g, want in zip(got, r.outputs):
        assert g.dtype == want.dtype and g.shape == want.shape
        if r.exact:
            np.testing.assert_array_equal(g, want)
        else:
            np.testing.assert_allclose(g, want, rtol=loose, atol=loose)

# ---- the interpreter -------------------------------------------------------------------------------------

def interpret(path, files, folder, names):
    call(TOOL, path, *files, "--out", folder)
    return [np.load(folder / f"{name}.npy") for name in names]

@pytest.mark.parametrize("r", ROWS, ids=lambda r: r.name)
def test_interpreted(r, tmp_path):
    part = Part(r, 0)
    (tmp_path / "row.tn").write_text(graph([part]))
    files = save_inputs(r, part, tmp_path).values()
    check(r, interpret(tmp_path / "row.tn", files, tmp_path / "out", part.outputs), 2e-6)

@pytest.mark.parametrize("r", ROWS, ids=lambda r: r.name)
def test_printed_and_parsed(r, tmp_path):
    part = Part(r, 0)
    (tmp_path / "row.tn").write_text(graph([part]))
    printed = [tmp_path / "row.tn"]
    for again in "once", "twice":
        folder = tmp_path / again
        folder.mkdir()
        call(TENON, "compile", printed[-1], "--stop-after", "import", "--dump", "import", "--dump-dir", folder)
        printed.append(next(folder.glob("*.tn")))
    assert printed[1].read_text() == printed[2].read_text()
    files = save_inputs(r, part, tmp_path).values()
    check(r, interpret(printed[2], files, tmp_path / "out", part.outputs), 2e-6)

# ---- compiled ------------------------------------------------------------------------------------------------

class Compiled:
    """All rows as one model: compiled once, run once."""

    def __init__(self, folder, *options):
        self.parts = [Part(r, k) for k, r in enumerate(ROWS)]
        (folder / "rows.tn").write_text(graph(self.parts))
        self.said = call(TENON, "compile", folder / "rows.tn", "-o", folder / "rows.so", *options)
        given = []
        for r, p in zip(ROWS, self.parts):
            for name, file in save_inputs(r, p, folder).items():
                given += ["--input", f"{name}=@{file}"]
        call(TENON, "run", folder / "rows.so", *given, "--output-dir", folder / "out")
        self.out = folder / "out"

    def check(self, r: Row):
        check(r, [np.load(self.out / f"{name}.npy") for name in self.parts[ROWS.index(r)].outputs], 1e-5)

@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return Compiled(tmp_path_factory.mktemp("plain"), "--plain", "--fuse", "none")

@pytest.fixture(scope="module")
def best(tmp_path_factory):
    return Compiled(tmp_path_factory.mktemp("best"))

@pytest.mark.parametrize("r", ROWS, ids=lambda r: r.name)
def test_plain_loops(r, plain):
    plain.check(r)

@pytest.mark.parametrize("r", ROWS, ids=lambda r: r.name)
def test_best_schedule(r, best):
    best.check(r)


GATHERED = [r for r in ROWS if r.name == "gather"][0]


@pytest.mark.parametrize("index", [6, -7])
def test_an_index_from_data_is_checked(index, tmp_path):
    part, x, idx = Part(GATHERED, 0), GATHERED.inputs[0], np.array([0, index])
    (tmp_path / "row.tn").write_text(graph([part]))
    files = save_inputs(Row("", "", [x, idx], [], True), part, tmp_path)
    told = f"index {index}"
    done = subprocess.run([TOOL, tmp_path / "row.tn", *files.values(), "--out", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 1 and told in done.stderr
    given = [word for name, file in files.items() for word in ("--input", f"{name}=@{file}")]
    done = subprocess.run([TENON, "run", tmp_path / "row.tn", *given], capture_output=True, text=True)
    assert 0 < done.returncode < 128 and told in done.stderr, done.stderr


# ---- groups: one kernel, nothing in memory between its parts -----------------------------------------------------


def compile_one_kernel(folder, text, *options):
    (folder / "row.tn").write_text(text)
    said = call(TENON, "compile", folder / "row.tn", "-o", folder / "row.so", *options)
    assert re.search(r" 1 kernel( \(\d+ functions?\))?,", said) and "arena 0 B" in said         # those for other numbers of rows as well


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "convolution_bias_relu"])
def test_one_kernel(name, tmp_path):
    compile_one_kernel(tmp_path, graph([Part(next(r for r in ROWS if r.name == name), 0)]))


ATTENTION = """graph @attention(%q: f32[n, 16], %k: f32[m, 16], %v: f32[m, 16]) -> (%o) {
  %o: f32[n, 16] = call(%q, %k, %v)
    kernel attention(q: f32[n, 16], k: f32[m, 16], v: f32[m, 16]) -> (o: f32[n, 16]) {
      shared 1
      local x: f32[n, m]
      local t: f32[n]
      local e: f32[n, m]
      local z: f32[n]
      part q, k -> x
      nest scores(q: f32[n, 16], k: f32[m, 16]) -> (x: f32[n, m]) { x[i, j] = 0.25 * (sum c: q[i, c] * k[j, c]) }
      part x -> t
      nest top(x: f32[n, m]) -> (t: f32[n]) { t[i] = max j: x[i, j] }
      part x, t -> e
      nest power(x: f32[n, m], t: f32[n]) -> (e: f32[n, m]) { e[i, j] = exp(x[i, j] - t[i]) }
      part e -> z
      nest total(e: f32[n, m]) -> (z: f32[n]) { z[i] = sum j: e[i, j] }
      part e, z, v -> o
      nest values(e: f32[n, m], z: f32[n], v: f32[m, 16]) -> (o: f32[n, 16]) { o[i, c] = sum j: e[i, j] / z[i] * v[j, c] }
    }
}
"""


@pytest.mark.parametrize("options", [[], ["--plain"]], ids=["best", "plain"])
def test_product_softmax_product_as_one_kernel(options, tmp_path):
    """Grouped by hand: alone, the greedy rule keeps products where their own schedule is better."""
    compile_one_kernel(tmp_path, ATTENTION, *options)
    arrays, given = {"q": floats(15, 16), "k": floats(21, 16), "v": floats(21, 16)}, []
    for name, x in arrays.items():
        np.save(tmp_path / f"{name}.npy", x)
        given += ["--input", f"{name}=@{tmp_path / name}.npy"]
    call(TENON, "run", tmp_path / "row.so", *given, "--output-dir", tmp_path / "out")
    np.testing.assert_allclose(np.load(tmp_path / "out" / "o.npy"), product_softmax_product(*arrays.values()), rtol=1e-5, atol=1e-5)


def test_tiles_turned_at_odd_sizes(tmp_path):
    """Each program listed in which an operand of a product is turned: neither rows, nor keys, nor what is summed fill the tiles."""
    compile_one_kernel(tmp_path, ATTENTION.replace("16]", "20]"))
    listed = call(TENON, "compile", tmp_path / "row.tn", "--dump=choose", "--stop-after=choose", "--alternatives", 60)
    programs = ["".join(re.findall(r"^;     (.*\n)", p, re.M)) for p in re.split(r"^;   \S+ s, alone .*\n", listed, flags=re.M)[1:]]
    programs = [p for p in programs if re.search(r"lhs at .* turned$", p, re.M)]
    assert programs
    for program in programs:
        (tmp_path / "pins").write_text(f"%o {{\n{program}}}\n")
        compile_one_kernel(tmp_path, ATTENTION.replace("16]", "20]"), "--choices", tmp_path / "pins")
        for n, m in (1, 1), (15, 21), (67, 131):
            arrays, given = {"q": floats(n, 20), "k": floats(m, 20), "v": floats(m, 20)}, []
            for name, x in arrays.items():
                np.save(tmp_path / f"{name}.npy", x)
                given += ["--input", f"{name}=@{tmp_path / name}.npy"]
            call(TENON, "run", tmp_path / "row.so", *given, "--output-dir", tmp_path / "out")
            np.testing.assert_allclose(np.load(tmp_path / "out" / "o.npy"), product_softmax_product(*arrays.values()), rtol=1e-5, atol=1e-5)


# ---- sizes known only when it runs -----------------------------------------------------------------------------------


DENSE = """graph @dense(%x: f32[m, 40], %w: f32[40, n], %b: f32[n]) -> (%y) {
  %y: f32[m, n] = call(%x, %w, %b)
    nest dense(x: f32[m, 40], w: f32[40, n], b: f32[n]) -> (o: f32[m, n]) {
      o[i, j] = let v = b[j] + (sum k: x[i, k] * w[k, j]) in 0.5 * v * (1 + erf(v * 0.70710678118654752))
    }
}
"""


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dense")
    (folder / "dense.tn").write_text(DENSE)
    for level in "plain", "best":
        call(TENON, "compile", folder / "dense.tn", "-o", folder / f"{level}.so", *(["--plain"] if level == "plain" else []))
    return folder


@pytest.mark.parametrize("n", [0, 1, 33])
@pytest.mark.parametrize("m", [0, 1, 13, 14, 15, 1000])
@pytest.mark.parametrize("level", ["plain", "best"])
def test_sizes_known_only_when_it_runs(dense, level, m, n, tmp_path):
    given = []
    arrays = {"x": floats(m, 40), "w": floats(40, n), "b": floats(n)}
    for name, x in arrays.items():
        np.save(tmp_path / f"{name}.npy", x)
        given += ["--input", f"{name}=@{tmp_path / name}.npy"]
    call(TENON, "run", dense / f"{level}.so", *given, "--output-dir", tmp_path / "out")
    got = np.load(tmp_path / "out" / "y.npy")
    want = f64(arrays["x"]) @ arrays["w"] + arrays["b"]
    assert got.shape == (m, n)
    np.testing.assert_allclose(got, gelu(want) if want.size else want, rtol=1e-5, atol=1e-5)


# ---- kernels as text: parts, and loop trees -------------------------------------------------------------------------


def run_text(text, *inputs, folder):
    (folder / "row.tn").write_text(text)
    for k, x in enumerate(inputs):
        np.save(folder / f"in{k}.npy", x)
    return interpret(folder / "row.tn", [folder / f"in{k}.npy" for k in range(len(inputs))], folder / "out", ["o"])[0]


SOFTMAX = """kernel softmax(x: f32[n, k]) -> (o: f32[n, k]) {
  local m: f32[n]
  local e: f32[n, k]
  local s: f32[n]
  part x -> m
  nest m(x: f32[n, k]) -> (m: f32[n]) { m[i] = max j: x[i, j] }
  part x, m -> e
  nest e(x: f32[n, k], m: f32[n]) -> (e: f32[n, k]) { e[i, j] = exp(x[i, j] - m[i]) }
  part e -> s
  nest s(e: f32[n, k]) -> (s: f32[n]) { s[i] = sum j: e[i, j] }
  part e, s -> o
  nest d(e: f32[n, k], s: f32[n]) -> (o: f32[n, k]) { o[i, j] = e[i, j] / s[i] }
}"""


def test_softmax_as_one_kernel(tmp_path):
    x = floats(3, 9)
    np.testing.assert_allclose(run_text(SOFTMAX, x, folder=tmp_path), softmax_of(x), rtol=2e-6)


TREE = """kernel dense(x: f32[m, k], w: f32[k, n], b: f32[n]) -> (o: f32[m, n]) {
  trips m
  grain 1
  parallel i < m {
    serial j < n step 4 {
      register acc: f32x4[1]
      %s
      serial q < k {
        acc[0] = acc[0] + splat4(x[i, q]) * load4 w[q, j if < n - j]
      }
      store4 o[i, j if < n - j] = max(acc[0] + load4 b[j if < n - j], splat4(0))
    }
  }
}"""


@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (3, 5, 4), (4, 2, 7), (2, 0, 5), (0, 3, 5)])
def test_a_loop_tree_with_masked_lanes(m, k, n, tmp_path):
    x, w, b = floats(m, k), floats(k, n), floats(n)
    got = run_text(TREE % "acc[0] = splat4(0)", x, w, b, folder=tmp_path)
    np.testing.assert_allclose(got, np.maximum(f64(x) @ w + b, 0), rtol=2e-6, atol=2e-6)


def test_a_register_that_was_not_set_shows(tmp_path):
    assert np.isnan(run_text(TREE % "", floats(2, 3), floats(3, 4), floats(4), folder=tmp_path)).all()


def test_a_graph_of_operators(tmp_path):
    x = floats(6, 4)
    got = run_text("""graph @mlp(%x: f32[batch, 4]) -> (%o) {
                        %w: f32[4, 2] = const [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0]
                        %h: f32[batch, 2] = matmul(%x, %w)
                        %o: f32[batch, 2] = relu(%h)
                      }""", x, folder=tmp_path)
    np.testing.assert_allclose(got, np.maximum(f64(x) @ np.array([[1, 2], [3, 4], [-1, -2], [-3, -4]]), 0), rtol=2e-6, atol=2e-6)
