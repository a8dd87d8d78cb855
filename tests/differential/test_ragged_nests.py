"""Operators on ragged batches as nests of the text form: products of matrices of different sizes,
and elementwise work on rows of different lengths, from offsets that a run gives; against NumPy.

The nests are those of doc/sparse.md.
"""
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
rng = np.random.default_rng(7)


def nests():
    """Graphs in the document, by name."""
    text = (ROOT / "doc" / "sparse.md").read_text()
    blocks = re.findall(r"(?:^    .*\n|^\n)+", text, re.M)
    graphs = [b for b in blocks if "graph @" in b]
    return {re.search(r"graph @(\w+)", b)[1]: re.sub("^    ", "", b, flags=re.M) for b in graphs}


def offsets(lengths):
    return np.cumsum([0, *lengths]).astype("i8")


def joined(arrays):
    return np.concatenate([x.ravel() for x in arrays]) if arrays else np.zeros(0, "f4")


@pytest.fixture(scope="module", params=[(), ("--plain",)], ids=["best", "plain"])
def compiled(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nests")
    for name, text in nests().items():
        (folder / f"{name}.tn").write_text(text)
        made = subprocess.run([TENON, "compile", folder / f"{name}.tn", "-o", folder / f"{name}.so",
                               *request.param], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
    return folder


def given(folder, inputs):
    for name, x in inputs.items():
        np.save(folder / f"{name}.npy", x)
    return [w for name in inputs for w in ("-i", f"{name}=@{folder}/{name}.npy")]


def run(folder, model, **inputs):
    done = subprocess.run([TENON, "run", folder / f"{model}.so", *given(folder, inputs),
                           "--output-dir", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "out.npy")


def matrices(m, n, k):
    """Matrices to multiply, and what the nest takes of them."""
    m, n, k = (np.array(x, "i8") for x in (m, n, k))
    a = [rng.normal(size=size).astype("f4") for size in zip(m, k)]
    b = [rng.normal(size=size).astype("f4") for size in zip(k, n)]
    return a, b, {"a": joined(a), "b": joined(b), "m": m, "n": n, "k": k,
                  "ao": offsets(m * k), "bo": offsets(k * n), "co": offsets(m * n)}


SIZES = [([], [], []), ([0], [3], [2]), ([2], [2], [0]), ([3, 1, 5], [4, 2, 7], [2, 6, 3]),
         ([0, 0, 5, 0], [1, 2, 3, 4], [2, 2, 2, 2]), ([16] * 3, [16] * 3, [16] * 3),
         ([130, 1, 2, 64], [33, 5, 1, 17], [40, 3, 9, 70])]


@pytest.mark.parametrize("m, n, k", SIZES)
def test_products_of_matrices_of_different_sizes(compiled, m, n, k):
    a, b, inputs = matrices(m, n, k)
    got = run(compiled, "vgemm", **inputs)
    want = joined([x.astype("f8") @ y for x, y in zip(a, b)])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lengths", [[], [0], [1], [0, 0, 5, 0], [7, 7, 7], [3, 130, 1, 2]])
@pytest.mark.parametrize("how", ["rows", "rows_of"])
def test_elementwise_on_rows_of_different_lengths(compiled, how, lengths):
    off, d = offsets(lengths), 19
    x = rng.normal(size=(off[-1], d)).astype("f4")
    s = rng.normal(size=(len(lengths), d)).astype("f4")
    got = run(compiled, how, x=x, s=s, off=off)
    entry = np.repeat(np.arange(len(lengths)), lengths)
    place = np.concatenate([np.arange(n) for n in lengths] or [np.zeros(0)])
    want = x * s[entry] + place[:, None]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_interpreter_agrees(compiled):
    _, _, inputs = matrices([3, 0, 5], [4, 2, 7], [2, 6, 3])
    done = subprocess.run([TENON, "verify", compiled / "vgemm.tn", *given(compiled, inputs)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    inputs = {"x": np.ones((5, 3), "f4"), "s": np.ones((2, 3), "f4"), "off": offsets([1, 4])}
    for how in ("rows", "rows_of"):
        done = subprocess.run([TENON, "verify", compiled / f"{how}.tn", *given(compiled, inputs)],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what, why", [("ao", "outside of its axis"), ("co", "outside of its axis")])
def test_places_outside_are_refused(compiled, what, why):
    _, _, inputs = matrices([3, 2], [4, 2], [2, 6])
    inputs[what] = inputs[what] + np.array([0, 100, 0])
    done = subprocess.run([TENON, "run", compiled / "vgemm.so", *given(compiled, inputs)],
                          capture_output=True, text=True)
    assert done.returncode == 2 and why in done.stderr, done.stderr
