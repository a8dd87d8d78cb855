"""Control flow, functions and sizes from data: compiled once, run at several sizes, against ONNX Runtime.

The interpreter runs the same inputs (`tenon verify`), so that all three agree. Every model is run over and over in
one process too, where its memory must stop growing.
"""
import os
import pathlib
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
import onnx.parser  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
HEAD = '<ir_version: 8, opset_import: ["" : 17{}]>\n'

f32 = np.float32
rng = np.random.default_rng(7)


def x(*shape):
    return rng.standard_normal(shape).astype(f32)


def i64(*v):
    return np.array(v, np.int64)


MODELS = {
    "indices of as many axes as the declared rank says": (HEAD.format("") + """
        m (float[a, b, 3] x, int64[n, w] i) => (float[n, 3] y) {
            y = GatherND (x, i)
        }""", [{"x": x(a, b, 3), "i": rng.integers(0, min(a, b), (n, 2))} for a, b, n in [(4, 5, 7), (1, 1, 0), (2, 9, 33)]]),
    "a size that a later one has to fit, read before that is computed": (HEAD.format("") + """
        m (float[k, n] x, float[k, m] y) => (float[k, q] z) {
            s = Shape (x)
            t = Shape (y)
            one = Constant <value = int64[2] {1, 1}> ()
            e = Equal (s, one)
            r = Where (e, t, one)
            tiled = Tile (x, r)
            z = Add (tiled, y)
        }""", [{"x": x(2, n), "y": x(2, m)} for n, m in [(1, 5), (5, 5), (1, 1), (1, 0), (0, 0), (1, 33)]]),
    "indices of the only axis": (HEAD.format("") + """
        m (float[a] x, int64[n, w] i) => (float[k] y) {
            z = GatherND (x, i)
            y = Neg (z)
        }""", [{"x": x(a), "i": rng.integers(-a, a, (n, 1))} for a, n in [(4, 7), (1, 0), (17, 33)]]),
    "indices of as many axes as the updates lack": (HEAD.format("") + """
        m (float[a, b, 3] x, int64[n, w] i, float[n, b, 3] u) => (float[a, b, 3] y) {
            y = ScatterND <reduction = "add"> (x, i, u)
        }""", [{"x": x(a, b, 3), "i": rng.integers(0, a, (n, 1)), "u": x(n, b, 3)} for a, b, n in [(4, 5, 7), (1, 1, 0), (2, 9, 33)]]),
    "branches of other sizes": (HEAD.format("") + """
        m (bool c, float[n, 3] x) => (float[r, 3] y) {
            y = If (c) <then_branch = g1 () => (float[p, 3] a) { a = Concat <axis = 0> (x, x) },
                        else_branch = g2 () => (float[q, 3] b) { b = Neg (x) }>
        }""", [{"c": np.array(c), "x": x(n, 3)} for c, n in [(True, 2), (False, 5), (True, 0), (False, 1), (True, 17)]]),
    "a size that only one branch reads": (HEAD.format("") + """
        m (bool c, float[n, 3] x, float[n, 3] past) => (float[r, 3] y) {
            y = If (c) <then_branch = g1 () => (float[p, 3] a) { a = Add (x, past) },
                        else_branch = g2 () => (float[q, 3] b) { b = Neg (x) }>
        }""", [{"c": np.array(c), "x": x(n, 3), "past": x(p, 3)} for c, n, p in [(True, 2, 2), (False, 5, 0), (False, 5, 5), (True, 1, 1)]]),
    "a carried value that grows": (HEAD.format("") + """
        m (int64 turns, float[n] x) => (float[r] y, float[t, n] all) {
            cond = Constant <value = bool {1}> ()
            y, all = Loop (turns, cond, x) <body = b (int64 i, bool go, float[k] v) => (bool more, float[k2] w, float[n] s) {
                w = Concat <axis = 0> (v, x)
                f = Cast <to = 1> (i)
                s = Add (x, f)
                more = Identity (go)
            }>
        }""", [{"turns": np.array(t, np.int64), "x": x(n)} for t, n in [(3, 4), (0, 2), (1, 1), (6, 3), (2, 0)]]),
    "a loop that stops itself": (HEAD.format("") + """
        m (float most, float[n] x) => (float[n] y, float[t, n] each) {
            none = Constant <value = int64 {100}> ()
            cond = Constant <value = bool {1}> ()
            y, each = Loop (none, cond, x) <body = b (int64 i, bool go, float[n] v) => (bool more, float[n] w, float[n] seen) {
                w = Add (v, v)
                seen = Identity (v)
                sum = ReduceSum <keepdims = 0> (w)
                size = Abs (sum)
                more = Less (size, most)
            }>
        }""", [{"most": np.array(f32(s)), "x": x(n)} for s, n in [(50, 4), (0, 3), (9, 1)]]),
    "a loop whose largest number of turns is that of integers": (HEAD.format("") + """
        m (float most, float[n] x) => (float[t, n] each, float[n] sum) {
            largest = Constant <value = int64 {9223372036854775807}> ()
            cond = Constant <value = bool {1}> ()
            y, all = Loop (largest, cond, x) <body = b (int64 i, bool go, float[n] v) => (bool more, float[n] w, float[n] seen) {
                w = Add (v, v)
                seen = Identity (v)
                sum = ReduceSum <keepdims = 0> (w)
                size = Abs (sum)
                more = Less (size, most)
            }>
            each = Exp (all)
            axis = Constant <value = int64[1] {0}> ()
            sum = ReduceSum <keepdims = 0> (each, axis)
        }""", [{"most": np.array(f32(s)), "x": np.full(n, f32(0.01))} for s, n in [(2, 4), (0, 3), (1, 1)]]),
    "a loop in a loop, both with as many turns as may be": (HEAD.format("") + """
        m (float[1] x) => (float[t, r] y) {
            largest = Constant <value = int64 {1099511627776}> ()
            cond = Constant <value = bool {1}> ()
            last, y = Loop (largest, cond, x) <body = b (int64 i, bool go, float[1] v) => (bool more, float[1] w, float[r] s) {
                w = Add (v, v)
                three = Constant <value = int64 {3}> ()
                more = Less (i, three)
                all = Constant <value = int64[1] {-1}> ()
                w2, s2 = Loop (largest, cond, w) <body = c (int64 j, bool g, float[1] u) => (bool h, float[1] o, float[1] p) {
                    o = Neg (u)
                    p = Identity (u)
                    four = Constant <value = int64 {4}> ()
                    h = Less (j, four)
                }>
                s = Reshape (s2, all)
            }>
        }""", [{"x": x(1)}]),
    "lists of open lengths, ranks as they are declared": (HEAD.format("") + """
        m (float[n, 6] x, int64[a] shape, int64[b] wide, int64[c] times, int64[d] axes) => (float[p, q, 3] y, float[2, r, s] z, float[t, u] w, float[v] sum) {
            y = Reshape (x, shape)
            z = Expand (x, wide)
            w = Tile (x, times)
            sum = ReduceSum <keepdims = 0> (x, axes)
        }""", [{"x": x(n, 6), "shape": i64(*s), "wide": i64(2, *w), "times": i64(*t), "axes": i64(a)}
               for n, s, w, t, a in [(4, (2, 4, 3), (4, 1), (1, 2), 1), (1, (-1, 1, 3), (1, 6), (3, 1), 0), (2, (0, 2, 3), (2, 1), (0, 1), -2)]]),
    "lists of open lengths, ranks as their users need them": (HEAD.format("") + """
        m (float[36] x, int64[a] image, int64[b] rows, int64[c] more, float[1, 1, 3, 3] k) => (float[p, q, r, s] y, float[t, u] z, float[v, w] m) {
            i = Reshape (x, image)
            j = Relu (i)
            y = Conv (j, k)
            f = Reshape (x, rows)
            z = Transpose <perm = [1, 0]> (f)
            g = Reshape (x, more)
            h = Exp (g)
            m = Concat <axis = 0> (h, f)
        }""", [{"x": x(36), "image": i64(*i), "rows": i64(*r), "more": i64(-1, r[1]), "k": x(1, 1, 3, 3)} for i, r in [((1, 1, 6, 6), (4, 9)), ((1, 1, 3, 12), (36, 1))]]),
    "parts by lists of open lengths": (HEAD.format("") + """
        m (float[n, 5] x, int64[a] from, int64[b] to, int64[a] along, int64[d] of, int64[a] sums) =>
          (float[p, q] y, float[r, s] z, float[t, u] w, float[v, o] kept) {
            y = Slice (x, from, to)
            z = Slice (x, from, to, along)
            w = ReduceSum (x, sums)
            kept = ReduceSum <noop_with_empty_axes = 1> (x, of)
        }""", [{"x": x(n, 5), "from": i64(*f), "to": i64(*t), "along": i64(*a), "of": i64(*o), "sums": i64(*a)}
               for n, f, t, a, o in [(4, (1,), (3,), (0,), ()), (4, (1, 0), (-1, 4), (1, 0), (1,)), (1, (0, -2), (9, 9), (-2, -1), (0, -1))]]),
    "pads of open number": (HEAD.format("").replace(": 17", ": 18") + """
        m (float[n, 5] x, int64[c] pads, int64[d] of, int64[e] all) => (float[p, q] y, float[r, s] z) {
            y = Pad (x, pads, , of)
            z = Pad <mode = "edge"> (x, all)
        }""", [{"x": x(n, 5), "pads": i64(*p), "of": i64(*o), "all": i64(1, 0, 2, 1)} for n, p, o in [(3, (1, 2), (1,)), (2, (1, 2, -1, 0), (1, 0)), (1, (0, 4), (-2,))]]),
    "one number in a list of open length": (HEAD.format("") + """
        m (float[6, n] x, int64[a] k, int64[b] axis, int64[c] trips, bool[d] go) => (float[p, n] y, int64[p, n] i, float[6, n] s, float[6, n] t, float[6, n] c) {
            y, i = TopK <axis = 0> (x, k)
            s = CumSum (x, axis)
            u = Trilu (x, k)
            t = Loop (trips, go, u) <body = b (int64 j, bool[1] g, float[6, n] v) => (bool[1] h, float[6, n] w) { h = Identity (g)  w = Add (v, x) }>
            c = If (go) <then_branch = g1 () => (float[6, n] o) { o = Neg (x) }, else_branch = g2 () => (float[6, n] q) { q = Exp (x) }>
        }""", [{"x": x(6, n), "k": i64(k), "axis": i64(a), "trips": i64(t), "go": np.array([g])}
               for n, k, a, t, g in [(3, 2, 0, 2, True), (5, 6, 1, 0, True), (1, 1, -1, 3, False)]]),
    "numbers that are bounded by the largest integer alone": (HEAD.format("") + """
        m (float[9] x, int64[1] n, float[1, 6, 4] b, float[1, 1, 6] s) => (float[k] t, int64[k] i, float[e, 9] w, int64[h, 3] c) {
            largest = Constant <value = int64[1] {9223372036854775807}> ()
            few = Min (n, largest)
            t, i = TopK (x, few)
            nine = Constant <value = int64[1] {9}> ()
            shape = Concat <axis = 0> (few, nine)
            w = Expand (x, shape)
            c = NonMaxSuppression (b, s, largest)
        }""", [{"x": x(9), "n": i64(n), "b": np.abs(x(1, 6, 4)), "s": np.abs(x(1, 1, 6))} for n in (1, 5, 9)]),
    "what a loop reads through a branch": (HEAD.format("") + """
        m (int64 turns, float[n] x, float[n] z) => (float[n] y) {
            cond = Constant <value = bool {1}> ()
            one = Constant <value = int64 {1}> ()
            twice = Add (z, z)
            y = Loop (turns, cond, x) <body = b (int64 i, bool go, float[n] v) => (bool more, float[n] w) {
                more = Identity (go)
                odd = Mod (i, one)
                two = Constant <value = int64 {2}> ()
                rest = Mod (i, two)
                is = Equal (rest, odd)
                w = If (is) <then_branch = t () => (float[n] a) { a = Add (v, twice) },
                             else_branch = e () => (float[n] b) { b0 = Mul (v, z)  b = Sub (b0, x) }>
            }>
        }""", [{"turns": np.array(t, np.int64), "x": x(n), "z": x(n)} for t, n in [(4, 3), (1, 8), (0, 2)]]),
    "a scan, one input backwards": (HEAD.format("") + """
        m (float[n] h, float[t, n] u, float[n, t] v) => (float[n] last, float[n, t] all) {
            last, all = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1],
                              scan_output_axes = [1], scan_output_directions = [1],
                              body = b (float[n] s, float[n] a, float[n] c) => (float[n] w, float[n] o) {
                p = Mul (s, a)
                w = Add (p, c)
                o = Neg (w)
            }> (h, u, v)
        }""", [{"h": x(n), "u": x(t, n), "v": x(n, t)} for t, n in [(5, 3), (1, 4), (7, 1)]]),
    "turns that read one element of what was computed for all of them": (HEAD.format("") + """
        m (float[t, n] u, float[n] h) => (float[n] last, float[k, n] all, float[n] first) {
            v = Tanh (u)
            zero = Constant <value = int64 {0}> ()
            s = Shape (u)
            turns = Gather (s, zero)
            go = Constant <value = bool {1}> ()
            last, all = Loop (turns, go, h) <body = b (int64 i, bool c, float[n] p) => (bool d, float[n] q, float[n] o) {
                d = Constant <value = bool {1}> ()
                one = Constant <value = int64 {1}> ()
                a = Gather (v, i)
                two = Constant <value = int64 {2}> ()
                odd = Mod (i, two)
                is = Equal (odd, one)
                back = Sub (i, i)
                j = Neg (i)
                k = Sub (j, one)
                w = If (is) <then_branch = g1 () => (float[n] x) { x = Gather (v, k) },
                             else_branch = g2 () => (float[n] y) { z = Gather (v, back)  y = Neg (z) }>
                r = Mul (p, a)
                q = Add (r, w)
                o = Sub (q, a)
            }>
            first = Neg (last)
        }""", [{"u": x(t, n), "h": x(n)} for t, n in [(5, 3), (1, 4), (0, 2), (8, 1)]]),
    "functions with attributes": (HEAD.format(', "own" : 1') + """
        m (float[n] x) => (float[n] y) {
            a = own.scaled <by = 2.0> (x)
            b = own.twice (a)
            y = Add (a, b)
        }
        <domain: "own", opset_import: ["" : 17]>
        scaled <by> (v) => (w) {
            c = Constant <value_float: float = @by> ()
            w = Mul (v, c)
        }
        <domain: "own", opset_import: ["" : 17, "own" : 1]>
        twice (v) => (w) {
            p = own.scaled <by = 3.0> (v)
            w = Add (p, v)
        }""", [{"x": x(n)} for n in (1, 5)]),
    "shapes from data": (HEAD.format("") + """
        m (float[n, m] x, int64[2] shape, int64[1] from, int64[1] to) => (float[a, b] y, float[c, d] z, float[e, f, g] w) {
            y = Reshape (x, shape)
            one = Constant <value = int64[1] {1}> ()
            z = Slice (x, from, to, one)
            w3 = Unsqueeze (y, from)
            w = Mul (w3, w3)
        }""", [{"x": x(n, m), "shape": i64(*s), "from": i64(a), "to": i64(b)}
               for n, m, s, a, b in [(4, 6, (3, 8), 1, 3), (2, 5, (-1, 2), 0, 100), (3, 2, (0, -1), 2, -1)]]),
    "a sequence that a loop fills": (HEAD.format("") + """
        m (int64 turns, float[n, 2] x, int64 which) => (float[r, 2] y, float[a, b] item, int64 length, float[c, d, e] stacked) {
            cond = Constant <value = bool {1}> ()
            none = SequenceEmpty <dtype = 1> ()
            first = SequenceInsert (none, x)
            s = Loop (turns, cond, first) <body = b (int64 i, bool go, seq(float[p, 2]) v) => (bool more, seq(float[q, 2]) w) {
                f = Cast <to = 1> (i)
                more = Identity (go)
                z = Add (x, f)
                w = SequenceInsert (v, z)
            }>
            y = ConcatFromSequence <axis = 0> (s)
            item = SequenceAt (s, which)
            length = SequenceLength (s)
            stacked = ConcatFromSequence <axis = 1, new_axis = 1> (s)
        }""", [{"turns": np.array(t, np.int64), "x": x(n, 2), "which": np.array(w, np.int64)} for t, n, w in [(3, 2, 1), (0, 1, 0), (5, 3, -1)]]),
    "a sequence that begins empty": (HEAD.format("") + """
        m (int64 turns, float[n] x) => (float[r] y) {
            cond = Constant <value = bool {1}> ()
            none = SequenceEmpty <dtype = 1> ()
            s, last = Loop (turns, cond, none, x) <body = b (int64 i, bool go, seq(float[p]) v, float[k] u) => (bool more, seq(float[q]) w, float[k2] u2) {
                more = Identity (go)
                w = SequenceInsert (v, u)
                u2 = Concat <axis = 0> (u, x)
            }>
            y = ConcatFromSequence <axis = 0> (s)
        }""", [{"turns": np.array(t, np.int64), "x": x(n)} for t, n in [(3, 2), (1, 4), (6, 1)]]),
    "sequences put together": (HEAD.format("") + """
        m (bool c, float[n, 3] a, float[m, 3] b, int64 at) => (float[r, 3] y, float[p, q] z, float[s, t] w) {
            s0 = SequenceConstruct (a, b, a)
            s1 = SequenceInsert (s0, b, at)
            s2 = SequenceErase (s1, at)
            s = If (c) <then_branch = g1 () => (seq(float[u, 3]) o1) { o1 = SequenceInsert (s2, a) },
                        else_branch = g2 () => (seq(float[v, 3]) o2) { o2 = Identity (s1) }>
            y = ConcatFromSequence <axis = 0> (s)
            z = SequenceAt (s, at)
            parts = SplitToSequence <axis = 1> (a)
            one = Constant <value = int64 {-1}> ()
            w1 = SequenceAt (parts, one)
            w2 = ConcatFromSequence <axis = 1> (parts)
            w = Concat <axis = 1> (w1, w2)
        }""", [{"c": np.array(c), "a": x(n, 3), "b": x(m, 3), "at": np.array(at, np.int64)}
               for c, n, m, at in [(True, 2, 1, 1), (False, 1, 4, 0), (True, 3, 3, 2)]]),
    "as many as there are": (HEAD.format("") + """
        m (float[n, m] x) => (int64[r, h] at, float[k] y, int64 count) {
            at = NonZero (x)
            zero = Constant <value = float {0}> ()
            positive = Greater (x, zero)
            flat = Constant <value = int64[1] {-1}> ()
            p1 = Reshape (positive, flat)
            x1 = Reshape (x, flat)
            kept = Compress <axis = 0> (x1, p1)
            y = Exp (kept)
            count = Size (kept)
        }""", [{"x": np.round(x(n, m))} for n, m in [(4, 5), (1, 1), (30, 17), (3, 0)]]),
}


def run(*command):
    return subprocess.run([TENON, *map(str, command)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", MODELS)
def test_model(tmp_path, name):
    text, cases = MODELS[name]
    model = onnx.parser.parse_model(text)
    onnx.save(model, tmp_path / "m.onnx")
    compiled = run("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    assert compiled.returncode == 0, compiled.stderr
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for case, inputs in enumerate(cases):
        arguments = []
        for key, value in inputs.items():
            np.save(tmp_path / f"{key}.npy", value)
            arguments += ["--input", f"{key}=@{tmp_path / key}.npy"]
        out = tmp_path / f"out{case}"
        done = run("run", tmp_path / "m.so", *arguments, "--output-dir", out)
        assert done.returncode == 0, done.stderr
        for info, want in zip(model.graph.output, peer.run(None, inputs)):
            got = np.load(out / f"{info.name}.npy")
            if got.size == want.size == 0:           # of a loop without a turn the peer knows no sizes
                continue
            assert got.shape == want.shape and got.dtype == want.dtype, (case, info.name, got.shape, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=f"{name}, case {case}, {info.name}")
        same = run("verify", tmp_path / "m.onnx", *arguments)
        assert same.returncode == 0, same.stderr
