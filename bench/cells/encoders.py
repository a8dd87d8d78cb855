"""Encoders that a request leaves early; the classes of the layer at which it does."""
import pathlib

import numpy as np

from .common import Weights, Work, softmax
from .text import NUMBER, Graph, Text, tensor

LAYERS = 7                                   # at most
SEQUENCE = 128


class Encoder:
    """Layers after which a score is read; how many a request takes is drawn beforehand, so that
    control waits for the score and all layers are equally likely."""
    classes, heads_of = 16, 64
    sequence = SEQUENCE

    def __init__(self, hidden: int):
        self.h, self.w = hidden, Weights(4)

    def request(self, rng, layers: int | None = None) -> dict:
        x = rng.normal(size=(1, self.sequence, self.h)).astype(np.float32)
        return {"x": x, "layers": np.array(layers or rng.integers(1, LAYERS + 1)),
                "limit": np.array(2, np.float32)}

    def layer(self, g: Graph, x: str, name: str) -> str:
        h, w, n = self.h, self.w, self.sequence
        heads, size = h // self.heads_of, self.heads_of

        def split(k: str, order: list[int], *dims: int) -> str:
            y = g.dot(x, w(f"{name} {k}", h, h), w(f"{name} {k} b", h))
            y = g.op("reshape", tensor(1, n, heads, size), y, g.constant([1, n, heads, size]))
            return g.op("transpose", tensor(1, heads, *dims), y, perm=order)

        def norm(y: str, k: str) -> str:
            return g.op("layer_norm", None, y, g.constant(np.ones(h, np.float32)),
                        g.constant(w(f"{name} {k}", h)))

        q, k, v = split("q", [0, 2, 1, 3], n, size), split("k", [0, 2, 3, 1], size, n), \
            split("v", [0, 2, 1, 3], n, size)
        scores = g.op("mul", None, g.op("matmul", tensor(1, heads, n, n), q, k),
                      g.constant(np.full((1,), size ** -0.5, np.float32)))
        y = g.op("matmul", tensor(1, heads, n, size), g.op("softmax", None, scores), v)
        y = g.op("transpose", tensor(1, n, heads, size), y, perm=[0, 2, 1, 3])
        y = g.op("reshape", tensor(1, n, h), y, g.constant([1, n, h]))
        x = norm(g.add(x, g.dot(y, w(f"{name} o", h, h), w(f"{name} o b", h))), "norm 1")
        y = g.op("relu", None, g.dot(x, w(f"{name} up", h, 4 * h), w(f"{name} up b", 4 * h)))
        return norm(g.add(x, g.dot(y, w(f"{name} down", 4 * h, h), w(f"{name} down b", h))),
                    "norm 2")

    def probabilities(self, g: Graph, x: str, name: str) -> str:
        first = g.op("gather", tensor(1, self.h), x, g.constant(0), axis=1)
        return g.op("softmax", None, g.dot(first, self.w(f"{name} C", self.h, self.classes),
                                           self.w(f"{name} C b", self.classes)))

    def goes_on(self, g: Graph, p: str, turn: str) -> str:
        """Has it layers left, and is it not sure yet? limit: of the surest class."""
        axes, flag = g.constant([0, 1]), tensor(dtype="bool")
        sure = g.op("reduce_max", tensor(), p, axes, keepdims=0)
        behind = g.op("add", None, turn, g.constant(1))
        return g.op("and", None, g.op("less", flag, sure, "limit"),
                    g.op("less", flag, behind, "layers"))

    def layer64(self, x, name: str):
        w, n = {k: a.astype(float) for k, a in self.w.items()}, len(x)

        def heads(k):
            y = x @ w[f"{name} {k}"] + w[f"{name} {k} b"]
            return y.reshape(n, -1, self.heads_of).transpose(1, 0, 2)

        def norm(y, k):
            y = y - y.mean(-1, keepdims=True)
            return y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-5) + w[f"{name} {k}"]

        q, k, v = heads("q"), heads("k"), heads("v")
        y = softmax(q @ k.transpose(0, 2, 1) * self.heads_of ** -0.5) @ v
        y = y.transpose(1, 0, 2).reshape(n, -1)
        x = norm(x + y @ w[f"{name} o"] + w[f"{name} o b"], "norm 1")
        y = np.maximum(x @ w[f"{name} up"] + w[f"{name} up b"], 0)
        return norm(x + y @ w[f"{name} down"] + w[f"{name} down b"], "norm 2")

    def expected(self, r: dict) -> np.ndarray:
        x = r["x"][0].astype(float)
        for k in range(int(r["layers"])):
            x = self.layer64(x, self.named(k))
        return softmax(x[0] @ self.w[f"{self.named(k)} C"] + self.w[f"{self.named(k)} C b"])

    def work(self, r: dict) -> Work:
        w, at = Work(), ()
        for k in range(int(r["layers"])):
            at = (w.add(f"layer {self.named(k)}", *at),)
        return w


INPUTS = {"layers": NUMBER, "limit": tensor()}


class Berxit(Encoder):
    """One layer, over and over."""

    def named(self, k: int) -> str:
        return "0"

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text = Text(path)
        g = Graph(text, "main", {"x": tensor(1, self.sequence, self.h)} | INPUTS)
        p = g.op("identity", None, g.constant(np.zeros((1, self.classes), np.float32)))

        def turn(r: Graph):
            y = self.layer(r, "x", "0")
            q = self.probabilities(r, y, "0")
            return self.goes_on(r, q, "turn"), [y, q]

        made = g.turns(g.constant(LAYERS), ["x", p], ["layers", "limit"], turn,
                       go=g.constant(True))
        g.end(g.op("identity", None, made[1]))
        return text.save()


class DeeBERT(Encoder):
    """Layers of their own weights, each with its own way out."""
    sequence = 32

    def named(self, k: int) -> str:
        return str(k)

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text = Text(path)
        g = Graph(text, "main", {"x": tensor(1, self.sequence, self.h)} | INPUTS)

        def layers(r: Graph, x: str, k: int) -> str:
            y = self.layer(r, x, str(k))
            p = self.probabilities(r, y, str(k))
            if k == LAYERS - 1:
                return p
            return r.branch(self.goes_on(r, p, r.constant(k)), [y, p, "layers", "limit"],
                            lambda s: [layers(s, y, k + 1)], lambda s: [p])[0]

        g.end(g.op("identity", None, layers(g, "x", 0)))
        return text.save()
