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
    """Matrices to multiply, and what the nest takes of them, 7 beyond their sizes."""
    a = [rng.normal(size=size).astype("f4") for size in zip(m, k)]
    b = [rng.normal(size=size).astype("f4") for size in zip(k, n)]

    def padded(x, rows, columns):
        full = np.full((len(x), max(rows, default=0), max(columns, default=0)), 7, "f4")
        for one, to in zip(x, full):
            to[: one.shape[0], : one.shape[1]] = one
        return full

    sizes = {name: np.array(x, "i8") for name, x in zip("mnk", (m, n, k))}
    return a, b, {"a": padded(a, m, k), "b": padded(b, k, n), **sizes}


SIZES = [([], [], []), ([0], [3], [2]), ([2], [2], [0]), ([3, 1, 5], [4, 2, 7], [2, 6, 3]),
         ([0, 0, 5, 0], [1, 2, 3, 4], [2, 2, 2, 2]), ([16] * 3, [16] * 3, [16] * 3),
         ([130, 1, 2, 64], [33, 5, 1, 17], [40, 3, 9, 70])]


@pytest.mark.parametrize("m, n, k", SIZES)
def test_products_of_matrices_of_different_sizes(compiled, m, n, k):
    a, b, inputs = matrices(m, n, k)
    got = run(compiled, "vgemm", **inputs)
    for x, y, o in zip(a, b, got, strict=True):
        want = np.zeros(o.shape)
        want[: len(x), : y.shape[1]] = x.astype("f8") @ y
        np.testing.assert_allclose(o, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lengths", [[], [0], [1], [0, 0, 5, 0], [7, 7, 7], [3, 130, 1, 2]])
def test_elementwise_on_rows_of_different_lengths(compiled, lengths):
    off, d = offsets(lengths), 19
    x = rng.normal(size=(off[-1], d)).astype("f4")
    s = rng.normal(size=(len(lengths), d)).astype("f4")
    got = run(compiled, "rows", x=x, s=s, off=off)
    entry = np.repeat(np.arange(len(lengths)), lengths)
    place = np.concatenate([np.arange(n) for n in lengths] or [np.zeros(0)])
    want = x * s[entry] + place[:, None]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_interpreter_agrees(compiled):
    _, _, inputs = matrices([3, 0, 5], [4, 2, 7], [2, 6, 3])
    rows = {"x": np.ones((5, 3), "f4"), "s": np.ones((2, 3), "f4"), "off": offsets([1, 4])}
    for name, of in (("vgemm", inputs), ("rows", rows)):
        done = subprocess.run([TENON, "verify", compiled / f"{name}.tn", *given(compiled, of)],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_places_outside_are_refused(compiled):
    inputs = {"x": np.ones((5, 3), "f4"), "s": np.ones((2, 3), "f4"), "off": offsets([1, 104])}
    done = subprocess.run([TENON, "run", compiled / "rows.so", *given(compiled, inputs)],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "outside of its axis" in done.stderr, done.stderr
