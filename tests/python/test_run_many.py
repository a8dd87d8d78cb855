"""Many requests at once: each gets the bits that it gets alone, and what a NumPy program of its own gives, whatever branches, turns and calls it takes."""
import numpy as np
import pytest
import tenon

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
