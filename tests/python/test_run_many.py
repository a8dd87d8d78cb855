"""Many requests at once: each gets the bits that it gets alone, and what a NumPy program of its own gives, whatever branches, turns and calls it takes."""
import pathlib
import resource
import threading

import numpy as np
import pytest
import tenon

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDE, WORDS = 16, 50


def compiled(tmp_path, text, **options):
    path = tmp_path / "m.tn"
    path.write_text(text)
    return tenon.compile(path, many=True, **options)


def same_as_alone(model, requests, threads=1):
    """Results together, by name; each is what the request gives alone, bit for bit."""
    session = model.session(threads=threads)
    alone = [session.run(r) for r in requests]
    together = session.run_many(requests)
    for one, many in zip(alone, together, strict=True):
        assert not isinstance(many, Exception), many
        for name in one:
            np.testing.assert_array_equal(one[name], many[name])
    return together, {b.name: b for b in session.blocks if b.asked}


def ran(model, requests):
    """How often blocks of nests ran, for the requests together."""
    session = model.session(threads=1)
    session.run_many(requests)
    return sum(b.ran for b in session.blocks if not b.host and b.nodes)


# ---- a tree: its nodes are rows of lists, each request's of its own length ----------------------------------------------

def constant(name, array):
    numbers = ", ".join(repr(float(x)) for x in array.ravel())
    return f"  %{name}: f32[{', '.join(map(str, array.shape))}] = const [{numbers}]\n"


RNG = np.random.default_rng(7)
EMBEDDING = RNG.normal(size=(WORDS, WIDE)).astype("f4")
CELL = (0.3 * RNG.normal(size=(2 * WIDE, WIDE))).astype("f4")

TREE = f"""
graph @encode(%node: i64[], %word: i64[n], %left: i64[n], %right: i64[n]) -> (%h) {{
  %none: i64[] = const [-1]
  %l: i64[] = gather(%left, %node) {{axis = 0}}
  %leaf: bool[] = equal(%l, %none)
  %h: f32[1, {WIDE}] = if(%leaf, %node, %word, %left, %right)
    with [n_1 = n] graph @leaf(%node: i64[], %word: i64[n_1], %left: i64[n_1], %right: i64[n_1]) -> (%e) {{
{constant("table", EMBEDDING)}
      %shape: i64[1] = const [1]
      %w: i64[] = gather(%word, %node) {{axis = 0}}
      %at: i64[1] = reshape(%w, %shape)
      %row: f32[1, {WIDE}] = gather(%table, %at) {{axis = 0}}
      %e: f32[1, {WIDE}] = tanh(%row)
    }}
    with [n_2 = n] graph @inner(%node: i64[], %word: i64[n_2], %left: i64[n_2], %right: i64[n_2]) -> (%t) {{
{constant("w", CELL)}
      %l: i64[] = gather(%left, %node) {{axis = 0}}
      %r: i64[] = gather(%right, %node) {{axis = 0}}
      %a: f32[1, {WIDE}] = call @encode(%l, %word, %left, %right) with [n = n_2]
      %b: f32[1, {WIDE}] = call @encode(%r, %word, %left, %right) with [n = n_2]
      %both: f32[1, {2 * WIDE}] = concat(%a, %b) {{axis = 1}}
      %sum: f32[1, {WIDE}] = matmul(%both, %w)
      %t: f32[1, {WIDE}] = tanh(%sum)
    }}
}}
graph @main(%root: i64[], %word: i64[n], %left: i64[n], %right: i64[n]) -> (%h) {{
  %h: f32[1, {WIDE}] = call @encode(%root, %word, %left, %right) with [n = n]
}}
"""


def tree(rng, leaves):
    """A random binary tree as lists; children stand anywhere."""
    place = list(rng.permutation(2 * leaves - 1))
    word, left, right = (np.full(2 * leaves - 1, x, np.int64) for x in (0, -1, -1))

    def build(n):
        at = place.pop()
        word[at] = rng.integers(WORDS)
        if n > 1:
            cut = int(rng.integers(1, n))
            left[at], right[at] = build(cut), build(n - cut)
        return at

    root = np.int64(build(leaves))
    return {"root": np.array(root), "word": word, "left": left, "right": right}


def encode(t, at):
    if t["left"][at] < 0:
        return np.tanh(EMBEDDING[t["word"][at]].astype("f8"))
    return np.tanh(np.concatenate([encode(t, t["left"][at]), encode(t, t["right"][at])]) @ CELL.astype("f8"))


def height(t, at):
    return 0 if t["left"][at] < 0 else 1 + max(height(t, t["left"][at]), height(t, t["right"][at]))


def test_trees(tmp_path):
    """Nodes of one height run together, of all trees: as many batches as the highest tree is high, and one for the leaves."""
    model = compiled(tmp_path, TREE)
    rng = np.random.default_rng(1)
    trees = [tree(rng, int(n)) for n in rng.integers(1, 30, 40)] + [tree(rng, 1)]
    together, _ = same_as_alone(model, trees)
    for t, got in zip(trees, together):
        np.testing.assert_allclose(got["h"][0], encode(t, int(t["root"])), rtol=1e-4, atol=1e-5)
    assert ran(model, trees) == 1 + max(height(t, int(t["root"])) for t in trees)


FIELD = """
data T = leaf(v: f32[2]) | node(left: T[], right: T[])
graph @encode(%t: T[]) -> (%h: f32[2]) {
  %h = case(%t)
    leaf graph @leaf(%v) -> (%e) {
      %e = tanh(%v)
    }
    node graph @node(%left, %right) -> (%h) {
      %a = call @encode(%left)
      %b = call @encode(%right)
      %c = sub(%a, %b)
      %h = tanh(%c)
    }
}
graph @main(%t: T[]) -> (%h) { %h = call @encode(%t) }
"""


def rows_of(rng, leaves, shape, dtype):
    """A random binary tree as the rows of a data type whose leaves have a field v."""
    tag, value, children = [], [], []

    def build(n):
        cut = int(rng.integers(1, n)) if n > 1 else 0
        at = [build(cut), build(n - cut)] if n > 1 else [-1, -1]
        tag.append(int(n > 1))
        value.append(rng.normal(size=shape) * (n == 1))
        children.append(at)
        return len(tag) - 1

    root = np.array(build(leaves))
    left, right = np.array(children).T
    return {"t": root, "T.tag": np.array(tag), "T.v": np.array(value).astype(dtype),
            "T.left": left, "T.right": right}


@pytest.mark.parametrize("shape, dtype", [((2,), "f4"), ((), "f4"), ((3, 2), "f2"), ((2,), "f8"),
                                          ((8, 16), "f4")])
def test_fields_of_leaves(shape, dtype, tmp_path):
    """Leaves of trees of all sizes run at once, whatever the type of their field."""
    kind = {"f2": "f16", "f4": "f32", "f8": "f64"}[dtype] + str(list(shape))
    model = compiled(tmp_path, FIELD.replace("f32[2]", kind))
    rng = np.random.default_rng(2)
    trees = [rows_of(rng, n, shape, dtype) for n in (1, 2, 3, 5, 8, 13) * 3]
    same_as_alone(model, trees)
    leaves = sum(int((t["T.tag"] == 0).sum()) for t in trees)
    session = model.session(threads=1)
    session.run_many(trees)
    together = [(b.asked, b.ran) for b in session.blocks if not b.host and b.asked]
    assert (leaves, 1) in together and len(together) == 2


@pytest.mark.parametrize("length, ran", [(4096, 1), (4097, 3)])
def test_a_field_that_is_long(length, ran, tmp_path):
    """A copy of it would cost more than a batch: it is read where it lies, by trees of one size."""
    model = compiled(tmp_path, FIELD.replace("f32[2]", f"f32[{length}]"))
    rng = np.random.default_rng(2)
    trees = [rows_of(rng, n, (length,), "f4") for n in (1, 2, 3)]
    same_as_alone(model, trees)
    session = model.session(threads=1)
    session.run_many(trees)
    assert (6, ran) in [(b.asked, b.ran) for b in session.blocks]


SHARED = """
graph @turn(%x: f32[1, 4], %w: f32[4, 4], %b: f32[1, 4], %n: i64[]) -> (%y, %b) {
  %none: i64[] = const [0]
  %stop: bool[] = equal(%n, %none)
  %y: f32[1, 4] = if(%stop, %x, %w, %b, %n)
    graph @done(%x: f32[1, 4], %w: f32[4, 4], %b: f32[1, 4], %n: i64[]) -> (%same) {
      %same: f32[1, 4] = identity(%x)
    }
    graph @more(%x: f32[1, 4], %w: f32[4, 4], %b: f32[1, 4], %n: i64[]) -> (%z) {
      %one: i64[] = const [1]
      %less: i64[] = sub(%n, %one)
      %m: f32[1, 4] = matmul(%x, %w)
      %a: f32[1, 4] = add(%m, %b)
      %t: f32[1, 4] = tanh(%a)
      %z: f32[1, 4], %c: f32[1, 4] = call @turn(%t, %w, %b, %less)
    }
}
graph @main(%x: f32[1, 4], %b: f32[1, 4], %n: i64[]) -> (%y, %c, %d) {
WEIGHTS
  %y: f32[1, 4], %c: f32[1, 4] = call @turn(%x, %w, BIAS, %n)
  %d: f32[1, 4] = add(%c, %c)
}
"""


@pytest.mark.parametrize("bias", ["%b", "%c0"])
def test_weights_that_are_arguments(bias, tmp_path):
    """What every caller gives is a constant for all requests, and no row; what a function gives back of it is right."""
    w, c = 0.5 * RNG.normal(size=(4, 4)).astype("f4"), RNG.normal(size=(1, 4)).astype("f4")
    model = compiled(tmp_path, SHARED.replace("WEIGHTS", constant("w", w) + constant("c0", c)).replace("BIAS", bias))
    rng = np.random.default_rng(9)
    requests = [{"x": rng.normal(size=(1, 4)).astype("f4"), "b": rng.normal(size=(1, 4)).astype("f4"), "n": np.int64(n)} for n in (0, 3, 5, 3)]
    together, blocks = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        x, b = r["x"].astype("f8"), r["b"] if bias == "%b" else c
        for _ in range(int(r["n"])):
            x = np.tanh(x @ w + b)
        np.testing.assert_allclose(got["y"], x, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(got["c"], b)
        np.testing.assert_array_equal(got["d"], b + b)
    assert bias == "%c0" or not any(b.asked for b in blocks.values() if not b.nodes)           # no constant becomes a row where it is no result


def test_a_tree_that_is_none(tmp_path):
    """A child that is no node is told with the node of the model that looked it up; other requests have their results."""
    model = compiled(tmp_path, TREE)
    good, bad = tree(RNG, 4), tree(RNG, 4)
    bad["right"][bad["right"] >= 0] = 70
    got = model.session(threads=1).run_many([good, bad, good])
    assert isinstance(got[1], tenon.UsageError) and "equal: the index 70" in str(got[1])
    np.testing.assert_array_equal(got[0]["h"], got[2]["h"])


def test_a_deep_tree(tmp_path):
    """A tree that is a chain: its depth is a matter of memory, as far as --max-calls allows."""
    model = compiled(tmp_path, TREE, max_calls=200_000)
    n = 100_000
    right, left, word = np.arange(2 * n + 1) + 2, np.arange(2 * n + 1) + 1, np.zeros(2 * n + 1, np.int64)
    left[1::2] = right[1::2] = left[-1] = right[-1] = -1
    got = model.session(threads=1).run_many([{"root": np.int64(0), "word": word, "left": left, "right": right}, tree(RNG, 3)])
    h = np.tanh(EMBEDDING[0].astype("f8"))
    want = h
    for _ in range(60):                                        # by then it no longer changes
        want = np.tanh(np.concatenate([h, want]) @ CELL.astype("f8"))
    np.testing.assert_allclose(got[0]["h"][0], want, rtol=1e-3, atol=1e-4)
    few = compiled(tmp_path, TREE, max_calls=50)
    got = few.session(threads=1).run_many([{"root": np.int64(0), "word": word, "left": left, "right": right}, tree(RNG, 3)])
    assert isinstance(got[0], tenon.LimitError) and not isinstance(got[1], Exception)


# ---- loops ----------------------------------------------------------------------------------------------------------------

LOOP = """
graph @main(%x: f32[1, n], %turns: i64[], %most: f32[]) -> (%y, %s, %w) {
  %go: bool[] = const [1]
  %zero: f32[] = const [0]
  %y: f32[1, n], %s: f32[], %w: f32[1, n] = loop(%turns, %go, %x, %zero, %x, %most) carried 3
    with [n_1 = n] graph @body(%i: i64[], %on: bool[], %a: f32[1, n_1], %b: f32[], %c: f32[1, n_1], %most: f32[]) -> (%again, %c, %b2, %next) {
      %axes: i64[2] = const [0, 1]
      %f: f32[] = cast(%i) {to = "f32"}
      %half: f32[] = const [0.5]
      %d: f32[1, n_1] = mul(%a, %half)
      %next: f32[1, n_1] = add(%d, %f)
      %b1: f32[] = reduce_sum(%next, %axes) {keepdims = 0}
      %b2: f32[] = add(%b, %b1)
      %again: bool[] = less(%b2, %most)
    }
}
"""


def loop(x, turns, most):
    a, b, c = x, np.float32(0), x
    for i in range(turns):
        following = (a * np.float32(0.5) + np.float32(i)).astype("f4")
        b = np.float32(b + following.sum())
        a, c = c, following
        if not b < most:
            break
    return a, b, c


def test_loops(tmp_path):
    """Each request takes as many turns as it takes; what is carried changes places."""
    model = compiled(tmp_path, LOOP)
    rng = np.random.default_rng(2)
    requests = [{"x": rng.normal(size=(1, int(rng.integers(1, 4)))).astype("f4"), "turns": np.int64(rng.integers(0, 12)), "most": np.float32(rng.uniform(0, 60))} for _ in range(50)]
    together, blocks = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        for name, want in zip("ysw", loop(r["x"], int(r["turns"]), r["most"])):
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5)
    assert max(b.asked / b.ran for b in blocks.values()) > 4


def test_results_come_last(tmp_path):
    """What each turn makes for results alone runs once, for all turns of all requests."""
    w, out = 0.4 * RNG.normal(size=(8, 8)).astype("f4"), RNG.normal(size=(8, 3)).astype("f4")
    model = compiled(tmp_path, f"""
graph @main(%x: f32[n, 8]) -> (%tags) {{
  %h: f32[1, 8] = const [{", ".join("0" * 8)}]
  %zero: i64[1] = const [0]
  %size: i64[2] = shape(%x)
  %count: i64[1] = gather(%size, %zero) {{axis = 0}}
  %none: i64[0] = const []
  %turns: i64[] = reshape(%count, %none)
  %last: f32[1, 8], %tags: f32[t, 1, 3] = loop(%turns, _, %h, %x) carried 1 new [t]
    with [m = n] graph @turn(%i: i64[], %go: bool[], %h: f32[1, 8], %x: f32[m, 8]) -> (%go, %next, %tag) {{
{constant("w", w)}{constant("o", out)}
      %one: i64[1] = const [1]
      %at: i64[1] = reshape(%i, %one)
      %row: f32[1, 8] = gather(%x, %at) {{axis = 0}}
      %m: f32[1, 8] = matmul(%h, %w)
      %s: f32[1, 8] = add(%m, %row)
      %next: f32[1, 8] = tanh(%s)
      %l: f32[1, 3] = matmul(%next, %o)
      %tag: f32[1, 3] = softmax(%l) {{axis = 1}}
    }}
}}
""")
    rng = np.random.default_rng(10)
    requests = [{"x": rng.normal(size=(int(n), 8)).astype("f4")} for n in rng.integers(1, 20, 12)]
    together, blocks = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        h = np.zeros(8)
        for row, tag in zip(r["x"].astype("f8"), got["tags"]):
            h = np.tanh(h @ w + row)
            e = np.exp(h @ out)
            np.testing.assert_allclose(tag[0], e / e.sum(), rtol=1e-3, atol=1e-4)
    words = sum(len(r["x"]) for r in requests)
    assert (blocks["softmax"].asked, blocks["softmax"].ran) == (words, 1)


def test_results_that_would_take_much_memory(tmp_path):
    """What is kept for results alone is read in parts where it would be most of the memory. The weights keep all turns in
    one piece."""
    wide, classes = 512, 64
    out = RNG.normal(size=(wide, classes)).astype("f4")
    model = compiled(tmp_path, f"""
graph @main(%x: f32[n, {wide}]) -> (%sums) {{
  %h: f32[1, {wide}] = const [{", ".join("0" * wide)}]
  %zero: i64[1] = const [0]
  %size: i64[2] = shape(%x)
  %count: i64[1] = gather(%size, %zero) {{axis = 0}}
  %none: i64[0] = const []
  %turns: i64[] = reshape(%count, %none)
  %last: f32[1, {wide}], %sums: f32[t, 1, {classes}] = loop(%turns, _, %h, %x) carried 1 new [t]
    with [m = n] graph @turn(%i: i64[], %go: bool[], %h: f32[1, {wide}], %x: f32[m, {wide}]) -> (%go, %next, %sum) {{
{constant("o", out)}
      %one: i64[1] = const [1]
      %at: i64[1] = reshape(%i, %one)
      %row: f32[1, {wide}] = gather(%x, %at) {{axis = 0}}
      %s: f32[1, {wide}] = add(%h, %row)
      %next: f32[1, {wide}] = tanh(%s)
      %sum: f32[1, {classes}] = matmul(%next, %o)
    }}
}}
""")
    rng = np.random.default_rng(11)
    requests = [{"x": rng.normal(size=(int(n), wide)).astype("f4")} for n in rng.integers(70, 90, 16)]
    together, blocks = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        h = np.zeros(wide)
        for row, total in zip(r["x"].astype("f8"), got["sums"]):
            h = np.tanh(h + row)
            np.testing.assert_allclose(total[0], h @ out, rtol=1e-3, atol=1e-2)
    words, sums = sum(len(r["x"]) for r in requests), blocks["matmul"]
    assert sums.asked == words and 1 < sums.ran < words / 64


def test_a_condition_that_is_carried(tmp_path):
    """Whether a loop goes on may be what it carries, which changes places."""
    model = compiled(tmp_path, """
graph @main(%x: bool[], %y: bool[], %k: i64[]) -> (%p, %q, %turns) {
  %zero: i64[] = const [0]
  %p: bool[], %q: bool[], %turns: i64[] = loop(%k, _, %x, %y, %zero) carried 3
    graph @turn(%t: i64[], %go: bool[], %a: bool[], %b: bool[], %n: i64[]) -> (%a, %b, %a, %m) {
      %one: i64[] = const [1]
      %m: i64[] = add(%n, %one)
    }
}
""")
    for x, y, k in [(0, 1, 3), (1, 0, 3), (1, 1, 4), (0, 0, 2), (1, 0, 0)]:
        a, b, n = bool(x), bool(y), 0
        for _ in range(k):
            go, a, b, n = a, b, a, n + 1
            if not go:
                break
        got = model.session(threads=1).run_many([{"x": np.bool_(x), "y": np.bool_(y), "k": np.int64(k)}])[0]
        assert (bool(got["p"]), bool(got["q"]), int(got["turns"])) == (a, b, n)


def test_numbers_of_the_host(tmp_path):
    """What control reads is given on in every way: to functions, out of them, through branches and
    loops, as a size, to blocks that run for all, and as a result."""
    model = compiled(tmp_path, """
graph @down(%n: i64[], %x: f32[1, 4]) -> (%sum, %y) {
  %zero: i64[] = const [0]
  %stop: bool[] = equal(%n, %zero)
  %sum: i64[], %y: f32[1, 4] = if(%stop, %n, %x)
    graph @done(%n: i64[], %x: f32[1, 4]) -> (%three, %z) {
      %three: i64[] = const [3]
      %z: f32[1, 4] = tanh(%x)
    }
    graph @more(%n: i64[], %x: f32[1, 4]) -> (%s, %z) {
      %one: i64[] = const [1]
      %k: i64[] = sub(%n, %one)
      %f: f32[] = cast(%n) {to = "f32"}
      %w: f32[1, 4] = add(%x, %f)
      %t: i64[], %z: f32[1, 4] = call @down(%k, %w)
      %s: i64[] = add(%t, %n)
    }
}
graph @main(%n: i64[], %x: f32[1, 4]) -> (%sum, %y, %a, %odd, %all, %was, %row) {
  %sum: i64[], %y: f32[1, 4] = call @down(%n, %x)
  %zero: i64[] = const [0]
  %no: bool[] = const [0]
  %a: i64[], %odd: bool[], %all: i64[t], %was: i64[t] = loop(%sum, _, %zero, %no) carried 2 new [t]
    graph @turn(%i: i64[], %go: bool[], %a: i64[], %odd: bool[]) -> (%on, %b, %even, %i, %a) {
      %b: i64[] = add(%a, %i)
      %even: bool[] = not(%odd)
      %most: i64[] = const [40]
      %on: bool[] = less(%b, %most)
    }
  %one: i64[1] = const [1]
  %size: i64[1] = reshape(%a, %one)
  %m: i64[1] = match(%size) new [columns to 100]
  %f: f32[] = cast(%a) {to = "f32"}
  %row: f32[columns] = expand(%f, %m)
}
""")
    rng = np.random.default_rng(15)
    requests = [{"n": np.int64(n), "x": rng.normal(size=(1, 4)).astype("f4")}
                for n in (0, 3, 1, 6, 3, 2)]
    together, _ = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        n, turns, a, was = int(r["n"]), 0, 0, []
        total = 3 + n * (n + 1) // 2
        while turns < total and a < 40:
            was.append(a)
            a, turns = a + turns, turns + 1
        assert (int(got["sum"]), int(got["a"]), bool(got["odd"])) == (total, a, turns % 2 == 1)
        assert got["all"].tolist() == list(range(turns)) and got["was"].tolist() == was
        assert got["row"].tolist() == [a] * a
        np.testing.assert_allclose(got["y"], np.tanh(r["x"] + n * (n + 1) // 2), rtol=1e-5)


# ---- functions that are given different weights -------------------------------------------------

CHAIN = f"""
graph @chain(%n: i64[], %x: f32[1, {WIDE}], %w: f32[{WIDE}, {WIDE}]) -> (%y: f32[1, {WIDE}]) {{
  %zero: i64[] = const [0]
  %stop: bool[] = equal(%n, %zero)
  %y = if(%stop, %n, %x, %w)
    graph @last(%n, %x, %w) -> (%z) {{ %z = relu(%x) }}
    graph @more(%n, %x, %w) -> (%z) {{
      %one: i64[] = const [1]
      %m = sub(%n, %one)
      %p = matmul(%x, %w)
      %t = tanh(%p)
      %z = call @chain(%m, %t, %w)
    }}
}}
graph @main(%n: i64[], %x: f32[1, {WIDE}]) -> (%a, %b, %again) {{
{constant("forward", CELL[:WIDE])}
{constant("backward", CELL[WIDE:])}
  %a = call @chain(%n, %x, %forward)
  %b = call @chain(%n, %x, %backward)
  %again = call @chain(%n, %a, %forward)
}}
"""


def test_different_weights(tmp_path):
    """A function for each: weights are constants of blocks, no rows of requests."""
    model = compiled(tmp_path, CHAIN)
    rng = np.random.default_rng(8)
    requests = [{"n": np.array(n), "x": rng.normal(size=(1, WIDE)).astype("f4")}
                for n in (0, 3, 7, 1)]
    together, _ = same_as_alone(model, requests)

    def chain(r, x, w):
        for _ in range(int(r["n"])):
            x = np.tanh(x @ w)
        return np.maximum(x, 0)

    for r, got in zip(requests, together):
        a = chain(r, r["x"], CELL[:WIDE])
        want = {"a": a, "b": chain(r, r["x"], CELL[WIDE:]), "again": chain(r, a, CELL[:WIDE])}
        for name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6)
    session = model.session(threads=1)
    session.run_many(requests)
    assert all(b.nodes for b in session.blocks)      # none that makes rows of constants
    assert len([b for b in session.blocks if b.nodes == 2]) == 2


# ---- blocks by the sizes that they depend on ---------------------------------------------------


@pytest.fixture
def loops(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import loops
    return loops


def test_a_decoder_in_a_loop(tmp_path, loops):
    """Attention runs for each length of a cache, projections and the rest for all requests."""
    decoder = loops.Decoder(layers=2, hidden=64, heads=4, kv=2, inner=96, words=300, size=16)
    model = tenon.compile(decoder.write(tmp_path / "decoder.onnx"), many=True)
    rng = np.random.default_rng(12)
    requests = [decoder.request(rng, most=9, new=5) for _ in range(16)]
    lengths = len({r["ids"].shape[1] for r in requests})
    together, blocks = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        np.testing.assert_array_equal(got["tokens"], decoder.expected(r))
    inside = [b for b in blocks.values() if b.asked == 4 * 16 and not b.host]     # of four turns
    assert [b.ran for b in inside] == [4, 4 * lengths, 4, 4 * lengths, 4]
    assert lengths > 4


# ---- steps of sequences ------------------------------------------------------------------------


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(path, op, hidden=24, width=16, **attributes):
    """An operator in both directions; the sequence is as long as a request's."""
    from onnx import TensorProto, helper, numpy_helper, save
    rng, rows = np.random.default_rng(5), GATES[op] * hidden
    sizes = {"w": (2, rows, width), "r": (2, rows, hidden), "b": (2, 2 * rows)}
    held = [numpy_helper.from_array((0.3 * rng.normal(size=s)).astype("f4"), name)
            for name, s in sizes.items()]
    node = helper.make_node(op, ["x", *sizes], ["y"], hidden_size=hidden, direction="bidirectional",
                            **attributes)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in {"x": ["n", 1, width], "y": ["n", 2, 1, hidden]}.items())
    graph = helper.make_graph([node], "m", [x], [y], held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("op, attributes", [("RNN", {}), ("LSTM", {}), ("GRU", {}),
                                            ("GRU", {"linear_before_reset": 1})])
def test_steps_of_all_lengths_run_together(op, attributes, tmp_path):
    """A step is one block, which does not depend on the number of steps."""
    pytest.importorskip("onnx")
    path = recurrent(tmp_path / "m.onnx", op, **attributes)
    model, plain = (tenon.compile(path, many=many) for many in (True, False))
    rng = np.random.default_rng(6)
    lengths = [1, 9, 4, 30, 9, 17, 2, 30, 5]
    requests = [{"x": rng.normal(size=(n, 1, 16)).astype("f4")} for n in lengths]
    together, _ = same_as_alone(model, requests)
    session = model.session(threads=1)
    session.run_many(requests)
    steps = [b for b in session.blocks if not b.host and b.asked == sum(lengths)]
    assert [b.ran for b in steps] == [max(lengths)] * 2
    for r, got in zip(requests, together):
        np.testing.assert_allclose(got["y"], plain.run(r)["y"], rtol=1e-4, atol=1e-5)
    for policy in "agenda", "greedy", "random:1":
        session = model.session(threads=1)
        session.policy = policy
        for one, same in zip(session.run_many(requests), together, strict=True):
            np.testing.assert_array_equal(one["y"], same["y"])


STEPS = """
graph @main(%x: f32[n, 3], %turns: i64[], %from: i64[]) -> (%h) {
  %y: f32[n, 3] = tanh(%x)
  %go: bool[] = const [1]
  %zero: f32[3] = const [0, 0, 0]
  %h: f32[3] = loop(%turns, %go, %zero, %y, %from) carried 1
    with [n_1 = n] graph @body(%i: i64[], %go: bool[], %h: f32[3], %y: f32[n_1, 3], %from: i64[]) -> (%again, %sum) {
      %again: bool[] = const [1]
      %at: i64[] = add(%i, %from)
      %row: f32[3] = gather(%y, %at) {axis = 0}
      %sum: f32[3] = add(%h, %row)
    }
}
"""


def test_a_step_that_is_none(tmp_path):
    """Negative numbers count from the end; a request that asks for more than there is fails alone."""
    model = compiled(tmp_path, STEPS)
    rng = np.random.default_rng(8)

    def request(n, turns, start):
        return {"x": rng.normal(size=(n, 3)).astype("f4"), "turns": np.array(turns),
                "from": np.array(start)}
    cases = [(4, 4, 0), (5, 3, -3), (4, 5, 0), (6, 2, -7), (0, 0, 0), (9, 9, 0)]
    requests = [request(*c) for c in cases]
    got = model.session(threads=1).run_many(requests)
    for (n, turns, start), r, one in zip(cases, requests, got, strict=True):
        wrong = [i for i in range(start, start + turns) if not -n <= i < n]
        if wrong:
            assert isinstance(one, tenon.UsageError) and f"index {wrong[0]} is outside" in str(one)
            assert "which has" in str(one) and "a kernel" not in str(one)
            continue
        want = sum((np.tanh(r["x"][i]) for i in range(start, start + turns)), np.zeros(3, "f4"))
        np.testing.assert_allclose(one["h"], want, rtol=1e-4, atol=1e-5)


def test_turns_stay_together(tmp_path, loops):
    """Caches are too large to record all turns at once: requests wait at the same turn."""
    decoder = loops.Decoder(layers=1, hidden=512, heads=8, kv=8, inner=64, words=2000)
    model = tenon.compile(decoder.write(tmp_path / "decoder.onnx"), many=True)
    rng = np.random.default_rng(14)
    requests = [{"ids": rng.integers(2000, size=(1, n)), "new": np.array(31)}
                for n in (90, 60, 75, 95)]
    _, blocks = same_as_alone(model, requests)
    inside = [b for b in blocks.values() if b.asked == 30 * 4 and not b.host]
    assert [b.ran for b in inside] == [30, 30 * 4, 30]


def test_small_weights_stay_in_one_block(tmp_path):
    """What reads few weights again costs less than another block."""
    model = compiled(tmp_path, PLAIN.replace("-> (%y, %z, %same)", "-> (%y, %z, %same, %c)")
                     .replace("  %same:", """  %v: f32[2, 2] = const [1, 2, 3, 4]
  %c: f32[1, 2, 2] = matmul(%z, %v)
  %same:"""))
    session = model.session(threads=1)
    session.run_many([{"x": np.ones((1, n, 3), "f4"), "at": np.array([0, 1])} for n in (3, 4, 5)])
    assert {(b.asked, b.ran) for b in session.blocks} == {(3, 3)}


def test_early_exits_of_an_exporter(tmp_path, loops):
    """An If behind each layer: all requests that go on run the next one at once."""
    encoder = loops.Exits(layers=4, hidden=32, heads=2, tokens=6)
    path = encoder.write(tmp_path / "exits.onnx")
    model, plain = tenon.compile(path, many=True), tenon.compile(path).session(threads=1)
    rng = np.random.default_rng(13)
    requests = [encoder.request(rng) for _ in range(20)]
    together, blocks = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        np.testing.assert_allclose(got["classes"], plain.run(r)["classes"], rtol=1e-4, atol=1e-6)
    layers = [b for b in blocks.values() if b.nodes > 20]
    left = [sum(r["layers"] > i for r in requests) for i in range(4)]
    assert [(b.asked, b.ran) for b in layers] == [(n, 1) for n in left]


# ---- models without control, requests that fail, and what is no program for many ------------------------------------------

PLAIN = """
graph @main(%x: f32[1, n, 3], %at: i64[2]) -> (%y, %z, %same) {
  %w: f32[3, 2] = const [1, -2, 0.5, 3, 0.25, -1]
  %m: f32[1, n, 2] = matmul(%x, %w)
  %y: f32[1, n, 2] = softmax(%m) {axis = 1}
  %z: f32[1, 2, 2] = gather(%m, %at) {axis = 1}
  %same: f32[1, n, 3] = identity(%x)
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_without_control(tmp_path, threads):
    model = compiled(tmp_path, PLAIN)
    rng = np.random.default_rng(3)
    requests = [{"x": rng.normal(size=(1, int(n), 3)).astype("f4"), "at": np.array([0, n - 1])} for n in rng.integers(1, 6, 70)]
    together, blocks = same_as_alone(model, requests, threads)
    for r, got in zip(requests, together):
        m = r["x"].astype("f8") @ np.array([[1, -2], [0.5, 3], [0.25, -1]])
        e = np.exp(m - m.max(1, keepdims=True))
        np.testing.assert_allclose(got["y"], e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got["z"], m[:, r["at"]], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(got["same"], r["x"])
    assert {b.ran for b in blocks.values()} == {5}                                # one for each length
    assert model.session(threads=threads).run_many([]) == []


def test_requests_that_fail(tmp_path):
    """A request of another rank, one without an input, and one whose index is outside: the others have their results."""
    model = compiled(tmp_path, PLAIN)
    x = np.ones((1, 4, 3), "f4")
    good = {"x": x, "at": np.array([0, 3])}
    got = model.session(threads=1).run_many([good, {"x": x[0], "at": good["at"]}, {"x": x}, {"x": x, "at": np.array([0, 9])}, good])
    assert [type(g).__name__ for g in got] == ["dict", "UsageError", "UsageError", "UsageError", "dict"]
    assert "rank 2" in str(got[1]) and "9" in str(got[3])
    np.testing.assert_array_equal(got[0]["y"], got[4]["y"])


def test_what_fails_counts_for_nothing(tmp_path):
    """Requests beside one that fails run together still, and are counted once."""
    model = compiled(tmp_path, PLAIN)
    x, session = np.ones((1, 4, 3), "f4"), model.session(threads=1)
    at = [[0, 3], [9, 0], [1, 2], [2, 1], [0, 0], [1, 1], [2, 2], [3, 3]]
    got = session.run_many([{"x": x, "at": np.array(a)} for a in at])
    assert [isinstance(g, Exception) for g in got] == [a[0] == 9 for a in at]
    assert {b.asked for b in session.blocks} == {7}
    assert all(b.ran < 7 for b in session.blocks)




def test_sizes_that_data_tell(tmp_path):
    """What turns make is put behind each other, what grows with them is carried, and a size is read from an input: outputs of other sizes for each request."""
    model = compiled(tmp_path, """
graph @main(%x: f32[1, n], %turns: i64[], %shape: i64[2]) -> (%all, %long, %z, %sum) {
  %y: f32[1, n], %long: f32[1, m], %all: f32[t, 1, n] = loop(%turns, _, %x, %x) carried 2 new [m, t]
    with [n_1 = n, k = n] graph @body(%i: i64[], %go: bool[], %a: f32[1, n_1], %l: f32[1, k]) -> (%go, %b, %next, %b) {
      %b: f32[1, n_1] = add(%a, %a)
      %next: f32[1, k + n_1] = concat(%l, %b) {axis = 1}
    }
  %axes: i64[2] = const [0, 1]
  %sum: f32[n] = reduce_sum(%all, %axes) {keepdims = 0}
  %size: i64[2] = match(%shape) new [rows, columns to 64]
  %z: f32[rows, columns] = reshape(%long, %size)
}
""")
    rng = np.random.default_rng(5)
    requests = []
    for n, turns in [(3, 0), (3, 2), (2, 5), (1, 7), (3, 2), (2, 0)]:
        requests.append({"x": rng.normal(size=(1, n)).astype("f4"), "turns": np.int64(turns), "shape": np.array([turns + 1, n])})
    together, _ = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        x, turns = r["x"].astype("f8"), int(r["turns"])
        stacked = np.array([x * 2 ** (i + 1) for i in range(turns)]).reshape(turns, *x.shape)
        np.testing.assert_allclose(got["all"], stacked, rtol=1e-5)
        np.testing.assert_allclose(got["long"], np.concatenate([x, *stacked], 1), rtol=1e-5)
        np.testing.assert_allclose(got["z"], got["long"].reshape(r["shape"]))
        np.testing.assert_allclose(got["sum"], stacked.sum((0, 1)), rtol=1e-5)
    wrong = {"x": np.ones((1, 2), "f4"), "turns": np.int64(1), "shape": np.array([3, 2])}
    session = model.session(threads=1)
    got = session.run_many([requests[0], wrong])
    assert not isinstance(got[0], Exception) and isinstance(got[1], tenon.UsageError)
    for want, r in [*zip(together, requests)] * 2:   # a failure takes back memory of the run before
        np.testing.assert_array_equal(session.run(r)["all"], want["all"])
        assert isinstance(session.run_many([wrong])[0], tenon.UsageError)


def test_a_long_walk(tmp_path):
    """A carried value that grows with each turn: rows of turns before are dropped. All of them together would be 2 GB."""
    model = compiled(tmp_path, """
graph @main(%x: f32[1, n], %turns: i64[]) -> (%long, %s) {
  %zero: f32[1, 1] = const [0]
  %axis: i64[1] = const [1]
  %long: f32[m, n], %s: f32[1, 1] = loop(%turns, _, %x, %zero) carried 2 new [m]
    with [n_1 = n, k = 1] graph @body(%i: i64[], %go: bool[], %l: f32[k, n_1], %t: f32[1, 1]) -> (%go, %next, %u) {
      %half: f32[] = const [0.5]
      %one: i64[1] = const [0]
      %axes: i64[1] = const [1]
      %first: f32[1, n_1] = gather(%l, %one) {axis = 0}
      %row: f32[1, n_1] = mul(%first, %half)
      %next: f32[k + 1, n_1] = concat(%l, %row) {axis = 0}
      %v: f32[1, 1] = reduce_sum(%row, %axes) {keepdims = 1}
      %u: f32[1, 1] = add(%t, %v)
    }
}
""")
    rng = np.random.default_rng(8)
    requests = [{"x": rng.normal(size=(1, 2000)).astype("f4"), "turns": np.int64(n)} for n in (500, 3, 420, 0)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = model.session(threads=1).run_many(requests)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000          # KB
    for r, g in zip(requests, got):
        n = int(r["turns"])
        np.testing.assert_array_equal(g["long"], np.concatenate([r["x"], np.repeat(r["x"] / 2, n, 0)]))
        np.testing.assert_allclose(g["s"][0, 0], n * (r["x"] / 2).sum(), rtol=1e-3, atol=1e-3)


def test_routines(tmp_path):
    """What is no nest runs for one request at a time, between blocks that run for all."""
    model = compiled(tmp_path, """
graph @main(%x: f32[n, 3]) -> (%y, %at) {
  %k: i64[1] = const [2]
  %d: f32[n, 3] = add(%x, %x)
  %v: f32[n, 2], %at: i64[n, 2] = top_k(%d, %k) {axis = 1}
  %y: f32[n, 2] = tanh(%v)
}
""")
    rng = np.random.default_rng(6)
    requests = [{"x": rng.normal(size=(n, 3)).astype("f4")} for n in (1, 4, 2, 4, 1)]
    together, blocks = same_as_alone(model, requests)
    for r, got in zip(requests, together):
        order = np.argsort(-r["x"], 1)[:, :2]
        np.testing.assert_array_equal(got["at"], order)
        np.testing.assert_allclose(got["y"], np.tanh(2 * np.take_along_axis(r["x"], order, 1)), rtol=1e-5)


def test_one_by_one(tmp_path):
    """What is no program for many runs its requests one by one, and says why."""
    with pytest.warns(tenon.Note, match="requests run one by one: input x is str"):
        model = compiled(tmp_path, """
graph @main(%x: str[n]) -> (%y) {
  %axis: i64[1] = const [1]
  %y: str[n, 1] = unsqueeze(%x, %axis)
}
""")
    got = model.session(threads=1).run_many([{"x": np.array(words, object)} for words in ([], ["a"], ["b", "c"])])
    assert [g["y"].tolist() for g in got] == [[], [["a"]], [["b"], ["c"]]]
    assert not model.session(threads=1).blocks
    assert model.single


def test_what_runs_together(tmp_path):
    """Blocks and why there are none, by the names of the package."""
    model = compiled(tmp_path, PLAIN)
    assert model.single is None
    session = model.session(threads=1)
    session.run_many([{"x": np.ones((1, 4, 3), "f4"), "at": np.array([0, 1])}] * 5)
    assert all(isinstance(b, tenon.Block) and not b.host for b in session.blocks)
    assert {(b.asked, b.ran) for b in session.blocks} == {(5, 1)}
    assert tenon.load(model.path).single is None
    plain = tenon.compile(tmp_path / "m.tn")
    assert plain.single is None and not plain.session(threads=1).blocks


# ---- models from exporters -----------------------------------------------------------------------------------------------

EXPORTED = ["greedy_decode_loop", "scan_rnn", "sk_random_forest", "tf_while_fixed_point"]


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_models(name, tmp_path, monkeypatch):
    """Branches, loops, scans and trees as exporters write them: together as without --many, and the same bits as alone."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from draw import drawn
    from fill import filled
    path = filled(name, tmp_path)
    model, plain = tenon.compile(path, many=True), tenon.compile(path).session(threads=1)
    requests = 2 * drawn(ROOT / "bench" / "zoo" / f"{name}.inputs.json")
    together, blocks = same_as_alone(model, requests)
    assert blocks
    for r, got in zip(requests, together):
        for output, want in plain.run(r).items():
            if isinstance(want, list):
                assert got[output] == pytest.approx(want, rel=1e-5) if not isinstance(want[0], dict) else got[output] == want
            elif want.dtype.kind == "f":
                np.testing.assert_allclose(got[output], want, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(got[output], want)


# ---- what is given --------------------------------------------------------------------------------------------------------

ADD = "graph @main(%x: f32[2], %n: i64[]) -> (%y) {\n  %f: f32[] = cast(%n) {to = \"f32\"}\n  %y: f32[2] = add(%x, %f)\n}\n"


def test_any_collection_of_requests(tmp_path):
    """A generator is gone through once; one request in place of a list of them is an error."""
    model = compiled(tmp_path, ADD)
    x = np.ones(2, "f4")
    session = model.session(threads=1)
    for requests in (({"x": x, "n": n} for n in range(3)), ((x, n) for n in range(3))):
        assert [float(r["y"][0]) for r in session.run_many(requests)] == [1, 2, 3]
    assert session.learn({"x": x, "n": n} for n in range(3)).nodes
    for wrong in ({"x": x, "n": 1}, "x", 5):
        for by in (session.run_many, session.learn):
            with pytest.raises(tenon.UsageError, match="takes a list of requests, (dict|str|int) is given"):
                by(wrong)
    with pytest.raises(tenon.UsageError, match="policy is a text such as 'agenda', or None; 3 is given"):
        session.policy = 3


def test_blocks_are_told_while_requests_run(tmp_path):
    """In another thread: the message of a request that fails is still its own."""
    model = compiled(tmp_path, PLAIN)
    session, stop = model.session(threads=1), threading.Event()
    good = {"x": np.ones((1, 4, 3), "f4"), "at": np.array([0, 3])}

    def ask():
        while not stop.is_set():
            session.blocks
    threads = [threading.Thread(target=ask) for _ in range(2)]
    [t.start() for t in threads]
    try:
        for _ in range(5000):
            got = session.run_many([good, good | {"at": np.array([0, 9])}] * 3)
            assert all("the index 9 is outside" in str(g) for g in got[1::2])
    finally:
        stop.set()
        [t.join() for t in threads]


def test_a_bad_request_is_its_own_affair(tmp_path):
    """Whatever kind of error it is."""
    model = compiled(tmp_path, ADD)
    good = {"x": np.ones(2, "f4"), "n": 1}
    wrong = [5, None, "xn", {1: 2, "n": 1}, {**good, "n": object()}, {**good, "n": 2**70}, {**good, "x": [[1], [1, 2]]}, [good["x"]]]
    got = model.session(threads=1).run_many([good, *wrong, good])
    assert all(isinstance(g, Exception) for g in got[1:-1])
    assert "inputs are a dict by name, or a list in order; int is given" in str(got[1])
    for g in (got[0], got[-1]):
        np.testing.assert_array_equal(g["y"], [2, 2])
