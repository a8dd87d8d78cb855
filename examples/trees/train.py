#!/usr/bin/env python3
"""Train the model of trees.tn: a TreeLSTM that says the last digit of an arithmetic expression.

    python3 examples/trees/train.py        writes trees.weights beside itself, in two minutes

Forward and backward are written out in NumPy. Every node of a tree is an example: its subtree is an
expression too. A batch of trees runs height by height, all nodes of one height at once. Here that
is written by hand (Forest); trees.tn is a recursion for one tree, which Tenon batches by itself.

trees.weights holds the arrays of WEIGHTS in their order; trees.tn names the byte offsets.
"""
import pathlib
import time

import numpy as np
from expressions import HELD_OUT, TRAINING, WORDS, heights, random_trees, values

SEED, TREES, EPOCHS, BATCH, RATE, WIDE = 5, 60_000, 10, 100, 0.01, 64
HERE = pathlib.Path(__file__).parent

WEIGHTS = {                                     # shapes, and how large numbers are at first
    "words": ((len(WORDS), 5 * WIDE), 0.5),     # what a word adds to the gates i, o, l, r, u
    "cell": ((2 * WIDE, 5 * WIDE), (2 * WIDE) ** -0.5),
    "digit": ((WIDE, 10), WIDE**-0.5),
    "bias": ((10,), 0),
}


class Forest:
    """Trees as one list of nodes; levels[k] are the nodes of height k."""

    def __init__(self, trees: list[dict]):
        self.roots = np.cumsum([0] + [len(t["word"]) for t in trees[:-1]])
        self.word = np.concatenate([t["word"] for t in trees])
        self.value = np.concatenate([t["value"] for t in trees])
        self.left, self.right = (
            np.concatenate([t[side] + at for t, at in zip(trees, self.roots)])
            for side in ("left", "right"))
        height = np.concatenate([t["height"] for t in trees])
        self.levels = [np.flatnonzero(height == k) for k in range(height.max() + 1)]


def labelled(trees: list[dict]) -> list[dict]:
    for t in trees:
        t["value"] = np.array([v % 10 for v in values(t)])
        t["height"] = np.array(heights(t))
    return trees


# ---- the network ---------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def forward(w: dict, f: Forest):
    """States h and memories c of all nodes, and for each level what backward needs."""
    h, c = np.zeros((2, len(f.word), WIDE), np.float32)
    saved = []
    for k, at in enumerate(f.levels):
        gates = w["words"][f.word[at]]
        both = np.concatenate([h[f.left[at]], h[f.right[at]]], 1) if k else None
        if k:
            gates = gates + both @ w["cell"]
        i, o, l, r = np.split(sigmoid(gates[:, : 4 * WIDE]), 4, 1)
        u = np.tanh(gates[:, 4 * WIDE :])
        c[at] = i * u
        if k:
            c[at] += l * c[f.left[at]] + r * c[f.right[at]]
        t = np.tanh(c[at])
        h[at] = o * t
        saved.append((both, i, o, l, r, u, t))
    return h, c, saved


def probabilities(w: dict, h: np.ndarray) -> np.ndarray:
    logits = h @ w["digit"] + w["bias"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def gradients(w: dict, f: Forest) -> tuple[float, dict]:
    """Loss, the mean over all nodes, and its gradients."""
    h, c, saved = forward(w, f)
    p, nodes = probabilities(w, h), np.arange(len(h))
    loss = float(-np.log(p[nodes, f.value] + 1e-12).mean())
    p[nodes, f.value] -= 1
    d = p / np.float32(len(h))
    g = {name: np.zeros_like(v) for name, v in w.items()}
    g["digit"], g["bias"] = h.T @ d, d.sum(0)
    dh, dc = d @ w["digit"].T, np.zeros_like(c)
    for k, at in reversed(list(enumerate(f.levels))):
        both, i, o, l, r, u, t = saved[k]
        left, right = f.left[at], f.right[at]
        d = dc[at] + dh[at] * o * (1 - t * t)
        before_l, before_r = (c[left], c[right]) if k else (np.float32(0), np.float32(0))
        dgates = np.concatenate([
            d * u * i * (1 - i),
            dh[at] * t * o * (1 - o),
            d * before_l * l * (1 - l),
            d * before_r * r * (1 - r),
            d * i * (1 - u * u),
        ], 1)
        np.add.at(g["words"], f.word[at], dgates)
        if k:                                   # a node has one parent: no index comes twice
            g["cell"] += both.T @ dgates
            dboth = dgates @ w["cell"].T
            dh[left] += dboth[:, :WIDE]
            dh[right] += dboth[:, WIDE:]
            dc[left] += d * l
            dc[right] += d * r
    return loss, g


def correct(w: dict, trees: list[dict]) -> int:
    f = Forest(trees)
    h, _, _ = forward(w, f)
    return int((probabilities(w, h[f.roots]).argmax(1) == f.value[f.roots]).sum())


def train(trees: list[dict], rng: np.random.Generator) -> dict:
    """Adam, with the step falling to nothing along half a cosine."""
    w = {name: (scale * rng.standard_normal(shape)).astype(np.float32)
         for name, (shape, scale) in WEIGHTS.items()}
    first = {k: np.zeros_like(v) for k, v in w.items()}
    second = {k: np.zeros_like(v) for k, v in w.items()}
    step, steps, start = 0, EPOCHS * (len(trees) // BATCH), time.perf_counter()
    for epoch in range(EPOCHS):
        order, total = rng.permutation(len(trees)), 0.0
        for at in range(0, len(trees) - BATCH + 1, BATCH):
            loss, g = gradients(w, Forest([trees[i] for i in order[at : at + BATCH]]))
            step, total = step + 1, total + loss
            rate = RATE * (1 + np.cos(np.pi * step / steps)) / 2
            for k in w:
                first[k] += 0.1 * (g[k] - first[k])
                second[k] += 0.001 * (g[k] ** 2 - second[k])
                unbiased = np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8
                w[k] -= (rate * first[k] / (1 - 0.9**step) / unbiased).astype(np.float32)
        print(f"epoch {epoch + 1:2}/{EPOCHS}   loss {total / (steps // EPOCHS):.5f}"
              f"   {time.perf_counter() - start:.0f} s", flush=True)
    return w


def read() -> dict[str, np.ndarray]:
    """The weights that are committed."""
    numbers = np.fromfile(HERE / "trees.weights", "<f4")
    sizes = [int(np.prod(shape)) for shape, _ in WEIGHTS.values()]
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    return {name: part.reshape(WEIGHTS[name][0]) for name, part in zip(WEIGHTS, parts)}


def main() -> None:
    print("making trees", flush=True)
    w = train(labelled(random_trees(SEED, TREES, TRAINING)), np.random.default_rng(SEED))
    held_out = labelled(random_trees(SEED + 1, 1000, HELD_OUT))
    print(f"held out: {correct(w, held_out)} of {len(held_out)} right")
    with open(HERE / "trees.weights", "wb") as file:
        for name in WEIGHTS:
            file.write(w[name].astype("<f4").tobytes())


if __name__ == "__main__":
    main()
