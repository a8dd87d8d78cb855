"""examples/trees: a TreeLSTM on held-out trees, together as alone and as in NumPy."""
import subprocess
import sys

import numpy as np
import pytest
import tenon
from conftest import ROOT

FOLDER = ROOT / "examples" / "trees"


@pytest.fixture
def beside(monkeypatch):
    """The scripts of the example can be imported."""
    monkeypatch.syspath_prepend(FOLDER)


def test_held_out_trees(beside):
    import train
    from expressions import HELD_OUT, heights, random_trees, rows

    trees = train.labelled(random_trees(11, 200, HELD_OUT))
    requests = [rows(t) for t in trees]
    model = tenon.compile(FOLDER / "trees.tn", many=True)
    session = model.session(threads=1)
    got = np.concatenate([r["probability"] for r in session.run_many(requests)])

    f, w = train.Forest(trees), train.read()
    assert (got.argmax(1) == f.value[f.roots]).mean() > 0.95
    want = train.probabilities(w, train.forward(w, f)[0][f.roots])
    np.testing.assert_allclose(got, want, atol=1e-3)

    few = model.session(threads=1)   # so many that their rows fit the cache run in one piece
    few.run_many(requests[:8])
    levels = [b for b in few.blocks if not b.host and b.asked > 8]
    assert sum(b.ran for b in levels) == 1 + max(max(heights(t)) for t in trees[:8])

    alone = model.session(threads=1)
    for r, together in zip(requests, got):
        np.testing.assert_array_equal(alone.run(r)["probability"][0], together)


def test_expressions(beside):
    from expressions import draw, heights, parse, values

    t = parse("(3 + 4) × (2 + 9 * 8)")
    assert values(t)[0] == 518 and heights(t)[0] == 3
    assert [line.rstrip() for line in draw(t)] == [
        "      ×",
        "  ┌───┴───┐",
        "  +       +",
        "┌─┴─┐   ┌─┴───┐",
        "3   4   2     ×",
        "            ┌─┴─┐",
        "            9   8",
    ]
    for text in ("", "3 -", "3 - 4", "12 + 1", "True", "1.0 * 2", "(1"):
        with pytest.raises(ValueError, match="digits"):
            parse(text)


def command(expression):
    run = [sys.executable, "-B", FOLDER / "classify.py", expression]
    return subprocess.run(run, capture_output=True, text=True, encoding="utf-8")


def test_the_command():
    assert "= 518   predicted 8" in command("(3 + 4) × (2 + 9 × 8)").stdout
    refused = command("2 - 1")
    assert refused.returncode == 1 and refused.stderr.startswith("classify.py: 2 - 1: digits")


def test_in_python(beside):
    """Classes and functions make the same model."""
    import in_python
    from expressions import HELD_OUT, random_trees, rows

    trees = random_trees(12, 50, HELD_OUT)
    session = tenon.compile(FOLDER / "trees.tn", many=True).session(threads=1)
    want = np.concatenate([r["probability"] for r in session.run_many([rows(t) for t in trees])])
    model = tenon.compile(in_python.probability, many=True)
    session = model.session(threads=1)
    made = session.run_many([{"root": in_python.tree(t)} for t in trees])
    np.testing.assert_allclose(np.concatenate([r["result"] for r in made]), want, atol=1e-5)
