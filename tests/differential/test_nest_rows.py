"""Every row of part 1 of doc/nest.md, kernels and a graph: run from their text, compared with NumPy.

Each test parses its text with the nest's own parser (through tests/tool_ref.c), so a row that cannot
be said, or means something else than NumPy does, fails here.
"""
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")) / "tests" / "tool_ref"
rng = np.random.default_rng(7)
erf = np.vectorize(math.erf)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.fixture
def run(tmp_path):
    def call(text, *inputs, expect_failure=None):
        (tmp_path / "row.tn").write_text(text)
        names = []
        for k, x in enumerate(inputs):
            names.append(str(tmp_path / f"in{k}.npy"))
            np.save(names[-1], np.ascontiguousarray(x))
        done = subprocess.run([TOOL, tmp_path / "row.tn", *names, "--out", tmp_path / "out"], capture_output=True, text=True)
        if expect_failure:
            assert done.returncode == 1 and expect_failure in done.stderr, done.stderr
            return None
        assert done.returncode == 0, done.stderr
        results = {p.stem: np.load(p) for p in (tmp_path / "out").glob("*.npy")}
        return next(iter(results.values())) if len(results) == 1 else results

    return call


def close(got, want, dtype=np.float32):
    assert got.dtype == dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def equal(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def gelu(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


# ---- elementwise, broadcast ---------------------------------------------------------------------


def test_bias_and_gelu(run):
    x, b = floats(5, 7), floats(7)
    o = run("""nest bias_gelu(x: f32[n, m], b: f32[m]) -> (o: f32[n, m]) {
                 o[i, j] = let v = x[i, j] + b[j] in 0.5 * v * (1 + erf(v * 0.70710678118654752))
               }""", x, b)
    close(o, gelu(x.astype(np.float64) + b))


def test_broadcast(run):
    x, y = floats(4, 1, 3), floats(5, 3)
    o = run("nest add(x: f32[a, 1, c], y: f32[b, c]) -> (o: f32[a, b, c]) { o[i, j, k] = x[i, 0, k] + y[j, k] }", x, y)
    equal(o, x + y)


# ---- reductions ----------------------------------------------------------------------------------


def test_softmax_as_four_nests(run):
    x = floats(3, 9)
    m = run("nest m(x: f32[n, k]) -> (o: f32[n]) { o[i] = max j: x[i, j] }", x)
    equal(m, x.max(1))
    e = run("nest e(x: f32[n, k], m: f32[n]) -> (o: f32[n, k]) { o[i, j] = exp(x[i, j] - m[i]) }", x, m)
    s = run("nest s(e: f32[n, k]) -> (o: f32[n]) { o[i] = sum j: e[i, j] }", e)
    o = run("nest d(e: f32[n, k], s: f32[n]) -> (o: f32[n, k]) { o[i, j] = e[i, j] / s[i] }", e, s)
    want = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    close(o, want / want.sum(1, keepdims=True))


def test_layer_norm_as_three_nests(run):
    x, g, b = floats(3, 16), floats(16), floats(16)
    mean = run("nest mean(x: f32[n, k]) -> (o: f32[n]) { o[i] = (sum j: x[i, j]) / f32(k) }", x)
    var = run("""nest var(x: f32[n, k], mean: f32[n]) -> (o: f32[n]) {
                   o[i] = (sum j: let d = x[i, j] - mean[i] in d * d) / f32(k)
                 }""", x, mean)
    o = run("""nest norm(x: f32[n, k], mean: f32[n], var: f32[n], g: f32[k], b: f32[k]) -> (o: f32[n, k]) {
                 o[i, j] = (x[i, j] - mean[i]) / sqrt(var[i] + 1e-5) * g[j] + b[j]
               }""", x, mean, var, g, b)
    y = x.astype(np.float64)
    close(o, (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5) * g + b)


@pytest.mark.parametrize("combiner, fold", [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)])
def test_combiners(run, combiner, fold):
    x = floats(4, 6)
    close(run("nest r(x: f32[n, k]) -> (o: f32[n]) { o[i] = %s j: x[i, j] }" % combiner, x), fold(x, axis=1))


@pytest.mark.parametrize("combiner, fold", [("any", np.any), ("all", np.all)])
def test_logical_combiners(run, combiner, fold):
    x = rng.random((8, 3)) < 0.5
    equal(run("nest r(x: bool[n, k]) -> (o: bool[n]) { o[i] = %s j: x[i, j] }" % combiner, x), fold(x, axis=1))


def test_maximum_keeps_nan(run):
    x = floats(2, 5)
    x[1, 2] = np.nan
    o = run("nest r(x: f32[n, k]) -> (o: f32[n]) { o[i] = max j: x[i, j] }", x)
    equal(o, x.max(1))


@pytest.mark.parametrize("combiner, pick, best", [("argmax", np.argmax, np.max), ("argmin", np.argmin, np.min)])
def test_argmax_first_on_ties(run, combiner, pick, best):
    x = rng.integers(0, 4, (20, 9)).astype(np.float32)
    o = run("nest r(x: f32[n, k]) -> (v: f32[n], a: i64[n]) { (v, a)[i] = %s j: (x[i, j], j) }" % combiner, x)
    equal(o["v"], best(x, axis=1))
    equal(o["a"], pick(x, axis=1))


# ---- convolution, pooling --------------------------------------------------------------------------


def test_convolution_stride_2_pad_1(run):
    x, w = floats(2, 3, 7, 8), floats(4, 3, 3, 3)
    o = run("""nest conv(x: f32[b, c, h, v], w: f32[f, c, 3, 3]) -> (o: f32[b, f, (h - 1) // 2 + 1, (v - 1) // 2 + 1]) {
                 o[n, k, y, z] = sum q, r, s: x[n, q, 2*y + r - 1, 2*z + s - 1 | 0] * w[k, q, r, s]
               }""", x, w)
    p = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = np.zeros((2, 4, 4, 4))
    for y in range(4):
        for z in range(4):
            want[:, :, y, z] = np.einsum("bcrs,fcrs->bf", p[:, :, 2 * y:2 * y + 3, 2 * z:2 * z + 3], w)
    close(o, want)


def test_max_pooling(run):
    x = floats(2, 6)
    o = run("nest pool(x: f32[n, m]) -> (o: f32[n, m]) { o[i, j] = max r<3>: x[i, j + r - 1 | -inf] }", x)
    p = np.pad(x, ((0, 0), (1, 1)), constant_values=-np.inf)
    equal(o, np.lib.stride_tricks.sliding_window_view(p, 3, axis=1).max(-1))


def test_average_pooling_without_padding_counted(run):
    x = floats(5, 6)
    o = run("""nest pool(x: f32[n, m]) -> (o: f32[n, m]) {
                 for i<n>, j<m>, reduce r<3>, reduce s<3>:
                 o[i, j] = (sum r, s: x[i + r - 1, j + s - 1 | 0])
                         / (sum r, s: i + r >= 1 ? (i + r <= n ? (j + s >= 1 ? (j + s <= m ? f32(1) : 0) : 0) : 0) : 0)
               }""", x)
    view = np.lib.stride_tricks.sliding_window_view
    total = view(np.pad(x.astype(np.float64), 1), (3, 3)).sum((-1, -2))
    close(o, total / view(np.pad(np.ones((5, 6)), 1), (3, 3)).sum((-1, -2)))


# ---- data movement ------------------------------------------------------------------------------------


def test_transpose(run):
    x = floats(3, 5)
    equal(run("nest t(x: f32[n, m]) -> (o: f32[m, n]) { o[i, j] = x[j, i] }", x), x.T)


def test_reshape(run):
    x = floats(3, 5)
    equal(run("nest t(x: f32[n, 5]) -> (o: f32[5*n]) { o[i] = x[i // 5, i % 5] }", x), x.reshape(-1))


def test_slice_with_a_step(run):
    x = floats(17)
    equal(run("nest t(x: f32[n]) -> (o: f32[n // 3]) { o[i] = x[3*i + 2] }", x), x[2::3][:17 // 3])


def test_concat_reads_only_the_side_it_takes(run):
    x, y = floats(4), floats(6)
    o = run("nest t(x: f32[n], y: f32[m]) -> (o: f32[n + m]) { o[i] = i < n ? x[i] : y[i - n] }", x, y)
    equal(o, np.concatenate([x, y]))


# ---- order ---------------------------------------------------------------------------------------------


def test_cumulative_sum(run):
    x = rng.integers(-9, 9, (3, 8)).astype(np.float32)
    o = run("nest t(x: f32[n, m]) -> (o: f32[n, m]) { o[i, j] = scan j: o[i, j - 1 | 0] + x[i, j] }", x)
    equal(o, np.cumsum(x, axis=1, dtype=np.float32))


# ---- indices from data -----------------------------------------------------------------------------------


GATHER = "nest t(x: f32[n, m], idx: i64[k]) -> (o: f32[k, m]) { o[i, j] = x[at(idx[i], n), j] }"


def test_gather(run):
    x, idx = floats(6, 4), rng.integers(-6, 6, 11)
    equal(run(GATHER, x, idx), x[idx])


def test_gather_checks_the_range(run):
    run(GATHER, floats(6, 4), np.array([0, 6]), expect_failure="nest t: index 6")
    run(GATHER, floats(6, 4), np.array([-7]), expect_failure="nest t: index -7")


def test_scatter_add_over_the_old_value(run):
    x, idx, u = floats(5, 3), rng.integers(0, 5, 12), rng.integers(-9, 9, (12, 3)).astype(np.float32)
    o = run("""nest t(x: f32[n, m], idx: i64[k], u: f32[k, m]) -> (o: f32[n, m]) {
                 for i<k>, j<m>:
                 o[at(idx[i], n), j] sum= u[i, j] over x
               }""", x, idx, u)
    want = x.copy()
    np.add.at(want, idx, u)
    close(o, want)


def test_scatter_the_last_wins(run):
    x, idx, u = floats(5), np.array([1, 3, 1]), floats(3)
    o = run("""nest t(x: f32[n], idx: i64[k], u: f32[k]) -> (o: f32[n]) {
                 for i<k>:
                 o[at(idx[i], n)] last= u[i] over x
               }""", x, idx, u)
    want = x.copy()
    want[idx] = u
    equal(o, want)


def test_bilinear_resize_by_computed_indices(run):
    x = floats(7)
    o = run("""nest t(x: f32[n]) -> (o: f32[10]) {
                 o[i] = let p = max((f32(i) + 0.5) * f32(n) / 10 - 0.5, 0) in
                        let a = i64(floor(p)) in let b = min(a + 1, n - 1) in let f = p - f32(a) in
                        x[a] * (1 - f) + x[b] * f
               }""", x)
    p = np.maximum((np.arange(10) + 0.5) * 0.7 - 0.5, 0)
    a = np.floor(p).astype(int)
    b = np.minimum(a + 1, 6)
    close(o, x[a] * (1 - (p - a)) + x[b] * (p - a))


def test_resize_by_an_integer_is_affine(run):
    x = floats(4, 3)
    o = run("nest t(x: f32[n, m]) -> (o: f32[2*n, 2*m]) { o[i, j] = x[i // 2, j // 2] }", x)
    equal(o, x.repeat(2, 0).repeat(2, 1))


# ---- integers --------------------------------------------------------------------------------------------


def test_quantised_product(run):
    x, w = rng.integers(-128, 128, (4, 9), np.int8), rng.integers(-128, 128, (9, 5), np.int8)
    o = run("""nest t(x: i8[n, k], w: i8[k, m]) -> (o: u8[n, m]) {
                 o[i, j] = u8(round(f32(sum q: i32(x[i, q]) * i32(w[q, j])) * 0.005) + 128)
               }""", x, w)
    exact = (x.astype(np.int32) @ w.astype(np.int32)).astype(np.float32) * np.float32(0.005)
    equal(o, np.clip(np.rint(exact) + 128, 0, 255).astype(np.uint8))


# ---- ragged, lists, batches -------------------------------------------------------------------------------


def test_ragged_rows(run):
    x, length = floats(4, 6), np.array([3, 0, 6, 1])
    o = run("nest t(x: f32[n, m], len: i64[n]) -> (o: f32[n, m]) { o[i, j<len[i]>] = 2 * x[i, j] }", x, length)
    equal(o, np.where(np.arange(6) < length[:, None], 2 * x, 0))
    o = run("nest t(x: f32[n, m], len: i64[n]) -> (o: f32[n]) { o[i] = sum j<len[i]>: x[i, j] }", x, length)
    close(o, np.array([x[i, :length[i]].sum() for i in range(4)]))


def test_block_sparse_product(run):
    q, k = floats(8, 5), floats(12, 5)
    rows, col = np.array([0, 2, 3]), np.array([0, 2, 1])
    o = run("""nest t(q: f32[n, d], k: f32[m, d], rows: i64[p], col: i64[t]) -> (o: f32[n, t, 4]) {
                 o[i, b in list(rows, i // 4), r] = sum e: q[i, e] * k[4*col[b] + r, e]
               }""", q, k, rows, col)
    want = np.zeros((8, 3, 4), np.float32)
    for i in range(8):
        for b in range(rows[i // 4], rows[i // 4 + 1]):
            want[i, b] = k[4 * col[b]:4 * col[b] + 4] @ q[i]
    close(o, want)


def test_a_batch_of_instances_shares_what_does_not_differ(run):
    x, w = floats(3, 4, 5), floats(5, 6)
    o = run("nest t(x: f32[b, n, k], w: f32[k, m]) -> (o: f32[b, n, m]) { o[s, i, j] = sum q: x[s, i, q] * w[q, j] }", x, w)
    close(o, x.astype(np.float64) @ w)


def test_no_points_at_all(run):
    o = run("nest t(x: f32[n, k]) -> (o: f32[n]) { o[i] = sum j: x[i, j] }", floats(0, 4))
    assert o.shape == (0,)
    o = run("nest t(x: f32[n, k]) -> (o: f32[n]) { o[i] = sum j: x[i, j] }", floats(3, 0))
    equal(o, np.zeros(3, np.float32))


# ---- kernels: parts, and loop trees -------------------------------------------------------------------------


def test_softmax_as_one_kernel(run):
    x = floats(3, 9)
    o = run("""kernel softmax(x: f32[n, k]) -> (o: f32[n, k]) {
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
               }""", x)
    want = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    close(o, want / want.sum(1, keepdims=True))


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
def test_a_loop_tree_with_masked_lanes(run, m, k, n):
    x, w, b = floats(m, k), floats(k, n), floats(n)
    o = run(TREE % "acc[0] = splat4(0)", x, w, b)
    close(o, np.maximum(x.astype(np.float64) @ w + b, 0))


def test_a_register_that_was_not_set_shows(run):
    o = run(TREE % "", floats(2, 3), floats(3, 4), floats(4))
    assert np.isnan(o).all()


# ---- graphs ------------------------------------------------------------------------------------------------------


def test_a_graph_of_operators(run):
    x = floats(6, 4)
    o = run("""graph @mlp(%x: f32[batch, 4]) -> (%y) {
                 %w: f32[4, 2] = const [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0]
                 %h: f32[batch, 2] = matmul(%x, %w)
                 %y: f32[batch, 2] = relu(%h)
               }""", x)
    close(o, np.maximum(x.astype(np.float64) @ np.array([[1, 2], [3, 4], [-1, -2], [-3, -4]]), 0))
