"""What models share: sizes, weights, cells as text and in NumPy, and counts of what a request asks
for.
"""
import dataclasses
import itertools

import numpy as np

from .text import Graph, tensor

WORDS, CHARACTERS = 256, 256
LONG = 1000                                  # leaves, or tokens, where control alone is measured
SENTENCE = {0: 2, 5: 7, 25: 14, 50: 20, 75: 27, 95: 39, 99: 47, 100: 74}        # tokens


def length(rng, quantiles: dict) -> int:
    return round(float(np.interp(rng.random() * 100, list(quantiles), list(quantiles.values()))))


class Weights(dict):
    """Arrays by name, drawn as they are asked for first."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def __call__(self, name: str, *shape: int) -> np.ndarray:
        if name not in self:
            self[name] = self.rng.uniform(-0.1, 0.1, shape).astype(np.float32)
        return self[name]

    def table(self, name: str, *shape: int) -> np.ndarray:
        if name not in self:
            self[name] = self.rng.normal(size=shape).astype(np.float32)
        return self[name]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- cells ---------------------------------------------------------------------------------------


def lstm(g: Graph, x: str, h: str, c: str, of: list[np.ndarray]) -> tuple[str, str]:
    """of: weights of [x; h] and biases of i, f, o, g, in turn."""
    both = g.beside(x, h)
    i, f, o, new = (g.dot(both, *of[2 * k:2 * k + 2]) for k in range(4))
    c = g.add(g.mul(g.sigmoid(i), g.tanh(new)), g.mul(g.sigmoid(f), c))
    return g.mul(g.sigmoid(o), g.tanh(c)), c


def lstm64(x, h, c, of: list[np.ndarray]):
    both = np.concatenate([x, h])
    i, f, o, new = (both @ of[2 * k].astype(float) + of[2 * k + 1] for k in range(4))
    c = sigmoid(i) * np.tanh(new) + sigmoid(f) * c
    return sigmoid(o) * np.tanh(c), c


def mix(g: Graph, z: str, h: str, new: str) -> str:
    """z h + (1 - z) new."""
    rest = g.op("sub", g.type[z], g.constant(np.ones((1, 1), np.float32)), z)
    return g.add(g.mul(z, h), g.mul(rest, new))


def gru(g: Graph, x: str, h: str, of: list[np.ndarray]) -> str:
    """of: weights of [x; h] and biases of r, z, and those of [x; r h], in turn."""
    both = g.beside(x, h)
    r, z = (g.sigmoid(g.dot(both, *of[2 * k:2 * k + 2])) for k in range(2))
    return mix(g, z, h, g.tanh(g.dot(g.beside(x, g.mul(r, h)), *of[4:6])))


def gru64(x, h, of: list[np.ndarray]):
    both = np.concatenate([x, h])
    r, z = (sigmoid(both @ of[2 * k].astype(float) + of[2 * k + 1]) for k in range(2))
    new = np.tanh(np.concatenate([x, r * h]) @ of[4].astype(float) + of[5])
    return z * h + (1 - z) * new


def gates(w: Weights, name: str, of: str, x: int, h: int) -> list[np.ndarray]:
    """Weights of [x; h], h of them, and a bias, for each letter of `of`."""
    return [a for k in of for a in (w(f"{name} {k}", x + h, h), w(f"{name} {k} b", h))]


# ---- what runs -----------------------------------------------------------------------------------


class Work:
    """Blocks that a request asks for, by kind and by depth, and the longest chain of each kind."""

    def __init__(self):
        self.count, self.level, self.chains, self.alive = {}, {}, {}, []

    def add(self, kind: str, *after):
        """What is made: how deep it is, the chains that end in it, and its number."""
        depth = max((a[0] for a in after), default=0)
        chain = {}
        for _, c, number in after:
            for k, n in c.items():
                chain[k] = max(chain.get(k, 0), n)
            if number is not None:
                self.alive[number][1] = max(self.alive[number][1], depth)
        chain[kind] = chain.get(kind, 0) + 1
        self.count[kind] = self.count.get(kind, 0) + 1
        self.level[depth, kind] = self.level.get((depth, kind), 0) + 1
        self.chains[kind] = max(self.chains.get(kind, 0), chain[kind])
        self.alive.append([depth, depth])    # from the run that makes it to the last that reads it
        return depth + 1, chain, len(self.alive) - 1


GIVEN = 0, {}, None                          # what no block makes


@dataclasses.dataclass
class Counts:
    """Of requests that run together."""
    nodes: int                               # blocks that are asked for
    least: int                               # batches, at least: the longest chain of each kind
    levels: dict                             # (depth, kind): nodes; run by depth these are batches


def counts(works: list[Work]) -> Counts:
    chains, levels = {}, {}
    for w in works:
        for k, n in w.chains.items():
            chains[k] = max(chains.get(k, 0), n)
        for k, n in w.level.items():
            levels[k] = levels.get(k, 0) + n
    return Counts(sum(sum(w.count.values()) for w in works), sum(chains.values()), levels)


def most_alive(works: list[Work]) -> int:
    """Results that are alive at once, where blocks run by depth."""
    starts = {}
    for made, last in (span for w in works for span in w.alive):
        starts[made] = starts.get(made, 0) + 1
        starts[last + 1] = starts.get(last + 1, 0) - 1
    return max(itertools.accumulate(starts[k] for k in sorted(starts)))
