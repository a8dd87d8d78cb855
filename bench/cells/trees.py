"""Recursive models of trees, which come as lists that nodes are numbers in; the root's classes."""
import math
import pathlib

import numpy as np

from .common import WORDS, Weights, Work, length, mix, sigmoid, softmax
from .text import NUMBER, Graph, Text, tensor

LEAVES = {0: 1, 5: 5, 10: 7, 25: 12, 50: 18, 75: 25, 90: 32, 95: 35, 99: 43, 100: 52}


def split(rng, n: int) -> int:
    """Leaves to the left, as in the trees of SST."""
    if n == 2:
        return 1
    shares = ((3, .77, .23), (5, .66, .17), (9, .54, .18), (15, .48, .20), (25, .42, .23),
              (10 ** 9, .31, .27))
    left, right = next((a, b) for most, a, b in shares if n <= most)
    u = rng.random()
    if u < left:
        return 1
    if u < left + right:
        return n - 1
    return int(np.clip(2 + np.floor((n - 3) * rng.beta(1.44, 2.32)), 2, n - 2))


def tree(rng, leaves: int, cut=split) -> dict:
    """Lists by node: word, children or -1, and one of two kinds."""
    nodes = 2 * leaves - 1
    word, kind = rng.integers(WORDS, size=nodes), rng.integers(2, size=nodes)
    left, right = np.full(nodes, -1), np.full(nodes, -1)
    free, open_ = 1, [(0, leaves)]
    while open_:
        at, n = open_.pop()
        if n > 1:
            left[at], right[at] = free, free + 1
            k = cut(rng, n)
            open_ += [(free, k), (free + 1, n - k)]
            free += 2
    return {"root": np.array(0), "word": word, "left": left, "right": right, "kind": kind}


def even(rng, n: int) -> int:
    return n // 2


class Tree:
    """A recursive model: subclasses say what a leaf and an inner node are."""
    classes, kinds = 5, 1

    def __init__(self, hidden: int):
        self.h, self.w = hidden, Weights(1)
        self.lists = ["word", "left", "right"] + ["kind"] * (self.kinds > 1)

    def state(self) -> list[str]:
        return [tensor(1, self.h)] * 2

    def row_bytes(self) -> int:
        """Of what a node makes."""
        return 4 * sum(math.prod(map(int, t[4:-1].split(", "))) for t in self.state())

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text = Text(path)
        g = Graph(text, "encode", {"node": NUMBER} | {k: tensor("n", dtype="i64")
                                                      for k in self.lists})
        leaf = g.op("equal", tensor(dtype="bool"), g.item("left", "node"), g.constant(-1))

        def no_leaf(r: Graph) -> list[str]:
            children = [r.call("encode", self.state(), r.item(side, "node"), *self.lists)
                        for side in ("left", "right")]
            if self.kinds == 1:
                return self.inner(r, *children, "0")
            second = r.op("equal", tensor(dtype="bool"), r.item("kind", "node"), r.constant(1))
            n = len(children[0])
            given = [*children[0], *children[1]]
            return r.branch(second, given, lambda x: self.inner(x, given[:n], given[n:], "1"),
                            lambda x: self.inner(x, given[:n], given[n:], "0"))

        g.end(*g.branch(leaf, ["node", *self.lists],
                        lambda r: self.leaf(r, r.item("word", "node")), no_leaf))
        g = Graph(text, "main", {"root": NUMBER} | {k: tensor("n", dtype="i64")
                                                    for k in self.lists})
        root = g.call("encode", self.state(), "root", *self.lists)
        g.end(self.out(g, root[0]))
        return text.save()

    def out(self, g: Graph, h: str) -> str:
        w = self.w("out", self.h, self.classes), self.w("out b", self.classes)
        return g.op("log_softmax", None, g.dot(h, *w))

    def write_cell(self, path: pathlib.Path, kind: str) -> pathlib.Path:
        """A kind of block alone, as a model of n rows: what it takes when nothing gathers them."""
        text, rows = Text(path), [t.replace("[1,", "[n,") for t in self.state()]
        if kind == "leaf":
            inputs = {"word": tensor("n", dtype="i64")}
        else:
            children = "a" if kind == "out" else "ab"
            inputs = {f"{x}{k}": t for x in children for k, t in enumerate(rows)}
        g = Graph(text, "main", inputs)
        g.rows = "n"
        if kind == "leaf":
            g.end(*self.leaf(g, "word"))
        elif kind == "out":
            g.end(self.out(g, "a0"))
        else:
            a, b = ([f"{x}{k}" for k in range(len(rows))] for x in "ab")
            g.end(*self.inner(g, a, b, kind[6:] or "0"))
        return text.save()

    def cell_request(self, kind: str, n: int) -> dict:
        rng = np.random.default_rng(n)
        if kind == "leaf":
            return {"word": rng.integers(WORDS, size=n)}
        shapes = [(n, *map(int, t[4:-1].split(", ")[1:])) for t in self.state()]
        return {f"{x}{k}": rng.normal(size=s).astype(np.float32)
                for x in ("a" if kind == "out" else "ab") for k, s in enumerate(shapes)}

    def request(self, rng, leaves: int | None = None) -> dict:
        made = tree(rng, leaves or length(rng, LEAVES))
        return {k: made[k] for k in ["root", *self.lists]}

    def expected(self, r: dict) -> np.ndarray:
        def encode(at):
            if r["left"][at] < 0:
                return self.leaf64(int(r["word"][at]))
            kind = str(int(r["kind"][at])) if self.kinds > 1 else "0"
            return self.inner64(encode(r["left"][at]), encode(r["right"][at]), kind)

        logits = encode(int(r["root"]))[0] @ self.w["out"].astype(float) + self.w["out b"]
        return np.log(softmax(logits))

    def work(self, r: dict) -> Work:
        w, done = Work(), {}
        for at in reversed(range(len(r["left"]))):           # children have the higher numbers
            if r["left"][at] < 0:
                done[at] = w.add("leaf")
            else:
                kind = f"inner {r['kind'][at]}" if self.kinds > 1 else "inner"
                done[at] = w.add(kind, done[int(r["left"][at])], done[int(r["right"][at])])
        w.add("out", done[int(r["root"])])
        return w


class TreeLSTM(Tree):
    def leaf(self, g: Graph, word: str) -> list[str]:
        h, w = self.h, self.w
        e = g.lookup(w.table("words", WORDS, h), word)
        i, o, u = (g.dot(e, w(f"leaf {k}", h, h), w(f"leaf {k} b", h)) for k in "iou")
        c = g.mul(g.sigmoid(i), g.tanh(u))
        return [g.mul(g.sigmoid(o), g.tanh(c)), c]

    def inner(self, g: Graph, a: list[str], b: list[str], kind: str) -> list[str]:
        h, w = self.h, self.w
        e = g.beside(a[0], b[0])
        i, o, u = (g.dot(e, w(f"{k}{kind}", 2 * h, h), w(f"{k}{kind} b", h)) for k in "iou")
        kept = [g.mul(g.sigmoid(g.dot(x[0], w(f"f{k}{kind}", h, h), w(f"f{kind} b", h))), x[1])
                for k, x in enumerate((a, b))]
        c = g.add(g.mul(g.sigmoid(i), g.tanh(u)), g.add(*kept))
        return [g.mul(g.sigmoid(o), g.tanh(c)), c]

    def leaf64(self, word: int):
        e = self.w["words"][word].astype(float)
        i, o, u = (e @ self.w[f"leaf {k}"].astype(float) + self.w[f"leaf {k} b"] for k in "iou")
        c = sigmoid(i) * np.tanh(u)
        return sigmoid(o) * np.tanh(c), c

    def inner64(self, a, b, kind: str):
        w, e = self.w, np.concatenate([a[0], b[0]])
        i, o, u = (e @ w[f"{k}{kind}"].astype(float) + w[f"{k}{kind} b"] for k in "iou")
        c = sigmoid(i) * np.tanh(u)
        for k, x in enumerate((a, b)):
            c = c + sigmoid(x[0] @ w[f"f{k}{kind}"].astype(float) + w[f"f{kind} b"]) * x[1]
        return sigmoid(o) * np.tanh(c), c


class TreeLSTM2(TreeLSTM):
    kinds = 2


class TreeGRU(Tree):
    def state(self) -> list[str]:
        return [tensor(1, self.h)]

    def gates(self, g: Graph, x: str, k: str) -> str:
        h, w = self.h, self.w
        r, z = (g.sigmoid(g.dot(x, w(f"{n}{k}", h, h), w(f"{n}{k} b", h))) for n in "rz")
        new = g.tanh(g.dot(g.mul(r, x), w(f"c{k}", h, h), w(f"c{k} b", h)))
        return mix(g, z, x, new)

    def leaf(self, g: Graph, word: str) -> list[str]:
        return [self.gates(g, g.lookup(self.w.table("words", WORDS, self.h), word), "leaf")]

    def inner(self, g: Graph, a: list[str], b: list[str], kind: str) -> list[str]:
        both = g.add(self.gates(g, a[0], "1"), self.gates(g, b[0], "2"))
        return [g.mul(both, g.constant(np.full((1, 1), 0.5, np.float32)))]

    def gates64(self, x, k: str):
        w = self.w
        r, z = (sigmoid(x @ w[f"{n}{k}"].astype(float) + w[f"{n}{k} b"]) for n in "rz")
        new = np.tanh((r * x) @ w[f"c{k}"].astype(float) + w[f"c{k} b"])
        return z * x + (1 - z) * new

    def leaf64(self, word: int):
        return (self.gates64(self.w["words"][word].astype(float), "leaf"),)

    def inner64(self, a, b, kind: str):
        return ((self.gates64(a[0], "1") + self.gates64(b[0], "2")) / 2,)


class MVRNN(Tree):
    """v = tanh(Wv [Ml vr; Mr vl] + bv), M = WM [Ml; Mr] + bM; M lies transposed."""

    def state(self) -> list[str]:
        return [tensor(1, self.h), tensor(1, self.h, self.h)]

    def leaf(self, g: Graph, word: str) -> list[str]:
        h, w = self.h, self.w
        return [g.lookup(w.table("words", WORDS, h), word),
                g.lookup(w("matrices", WORDS, h, h), word)]

    def inner(self, g: Graph, a: list[str], b: list[str], kind: str) -> list[str]:
        h, w = self.h, self.w
        n, row = g.rows, g.constant([-1, 1, h])

        def through(v: str, m: str) -> str:
            made = g.op("matmul", tensor(n, 1, h), g.op("reshape", tensor(n, 1, h), v, row), m)
            return g.op("reshape", tensor(n, h), made, g.constant([-1, h]))

        both = g.beside(through(b[0], a[1]), through(a[0], b[1]))
        v = g.tanh(g.dot(both, w("v", 2 * h, h), w("v b", h)))
        return [v, g.dot(g.beside(a[1], b[1], axis=2), w("m", 2 * h, h), w("m b", h))]

    def leaf64(self, word: int):
        return self.w["words"][word].astype(float), self.w["matrices"][word].astype(float)

    def inner64(self, a, b, kind: str):
        w = self.w
        both = np.concatenate([b[0] @ a[1], a[0] @ b[1]])
        m = np.concatenate([a[1], b[1]], 1) @ w["m"].astype(float) + w["m b"]
        return np.tanh(both @ w["v"].astype(float) + w["v b"]), m
