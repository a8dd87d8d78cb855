"""ONNX models with control of their own, as exporters write them, made for one request; requests
for them, and the same models in NumPy.

    Decoder    a prompt, then a Loop that carries the cache of every layer and gives a token a turn
    Exits      an encoder with an If behind each layer, so that a request leaves where it is sure

Weights are random, of a fixed seed.
"""
import dataclasses
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LEAST = 1e-5


class Weights(dict):
    """Arrays by name, drawn as they are asked for first."""

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def __call__(self, name: str, *shape: int) -> np.ndarray:
        if name not in self:
            self[name] = (self.rng.standard_normal(shape, np.float32) / shape[0] ** 0.5)
        return self[name]


class Nodes:
    """The nodes of a graph. Weights are the model's, whatever graph reads them."""

    def __init__(self, model: "Nodes | None" = None):
        self.nodes, self.model = [], model or self
        if model is None:
            self.made, self.initializers = 0, {}

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attributes):
        self.model.made += 1
        names = [f"{op}_{self.model.made}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array) -> str:
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes() if array.size < 64 else id(array))
        if key not in self.model.initializers:
            name = f"constant_{len(self.model.initializers)}"
            self.model.initializers[key] = array, name
        return self.model.initializers[key][1]

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def graph(self, name: str, inputs: list, outputs: list, weights: bool = False):
        made = [numpy_helper.from_array(a, n) for a, n in self.initializers.values()] if weights \
            else []
        return helper.make_graph(self.nodes, name, inputs, outputs, made)

    def save(self, path: pathlib.Path, inputs: list, outputs: list) -> pathlib.Path:
        graph = self.graph(path.stem, inputs, outputs, weights=True)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                    ir_version=8), path)
        return path

    # ---- what layers are made of

    def dot(self, x: str, w: np.ndarray) -> str:
        return self("MatMul", x, self.constant(w))

    def heads(self, x: str, heads: int, size: int) -> str:
        """[1, tokens, heads * size] as [1, heads, tokens, size]."""
        y = self("Reshape", x, self.ints(1, -1, heads, size))
        return self("Transpose", y, perm=[0, 2, 1, 3])

    def joined(self, x: str, width: int) -> str:
        y = self("Transpose", x, perm=[0, 2, 1, 3])
        return self("Reshape", y, self.ints(1, -1, width))

    def rms(self, x: str, w: np.ndarray) -> str:
        mean = self("ReduceMean", self("Mul", x, x), axes=[-1])
        root = self("Sqrt", self("Add", mean, self.constant(np.float32(LEAST))))
        return self("Mul", self("Div", x, root), self.constant(w))


def value(name: str, kind: int, *dims):
    return helper.make_tensor_value_info(name, kind, dims)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- a decoder -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Decoder:
    """The layers of a Llama: `heads` of queries share `kv` of keys and values, rotary positions."""
    layers: int
    hidden: int
    heads: int
    kv: int
    inner: int
    words: int
    size: int = 64
    positions: int = 256

    def __post_init__(self):
        self.w = Weights()
        rate = 10000.0 ** (-np.arange(self.size // 2) / (self.size // 2))
        angle = np.arange(self.positions)[:, None] * rate
        self.turned = np.cos(angle).astype("f4"), np.sin(angle).astype("f4")

    def matrices(self, layer: int) -> dict[str, np.ndarray]:
        h, kv, inner = self.hidden, self.kv * self.size, self.inner
        shapes = {"norm 1": (h,), "q": (h, self.heads * self.size), "k": (h, kv), "v": (h, kv),
                  "o": (self.heads * self.size, h), "norm 2": (h,), "gate": (h, inner),
                  "up": (h, inner), "down": (inner, h)}
        return {k: self.w(f"{layer} {k}", *s) for k, s in shapes.items()}

    def request(self, rng, most: int, new: int) -> dict[str, np.ndarray]:
        n = int(rng.integers(2, most + 1))
        return {"ids": rng.integers(self.words, size=(1, n)), "new": np.array(new)}

    # ---- as ONNX

    def rotated(self, g: Nodes, x: str, at: str) -> str:
        cos, sin = (g("Gather", g.constant(t), at) for t in self.turned)
        a, b = g("Split", x, axis=3, outputs=2)
        first = g("Sub", g("Mul", a, cos), g("Mul", b, sin))
        return g("Concat", first, g("Add", g("Mul", a, sin), g("Mul", b, cos)), axis=3)

    def attended(self, g: Nodes, q: str, k: str, v: str, mask: str | None) -> str:
        """Queries [1, heads, n, size] as [1, kv, heads / kv, n, size]."""
        q = g("Reshape", q, g.ints(1, self.kv, self.heads // self.kv, -1, self.size))
        k = g("Unsqueeze", g("Transpose", k, perm=[0, 1, 3, 2]), g.ints(2))
        scale = g.constant(np.float32(self.size ** -0.5))
        scores = g("Mul", g("MatMul", q, k), scale)
        scores = g("Add", scores, mask) if mask else scores
        y = g("MatMul", g("Softmax", scores, axis=-1), g("Unsqueeze", v, g.ints(2)))
        return g("Reshape", y, g.ints(1, self.heads, -1, self.size))

    def layer(self, g: Nodes, x: str, i: int, cache, at, mask) -> tuple[str, list[str]]:
        w = self.matrices(i)
        y = g.rms(x, w["norm 1"])
        q = self.rotated(g, g.heads(g.dot(y, w["q"]), self.heads, self.size), at)
        k = self.rotated(g, g.heads(g.dot(y, w["k"]), self.kv, self.size), at)
        v = g.heads(g.dot(y, w["v"]), self.kv, self.size)
        if cache:
            k, v = (g("Concat", past, now, axis=2) for past, now in zip(cache, (k, v)))
        y = g.joined(self.attended(g, q, k, v, mask), self.heads * self.size)
        x = g("Add", x, g.dot(y, w["o"]))
        y = g.rms(x, w["norm 2"])
        gate = g.dot(y, w["gate"])
        y = g("Mul", g("Mul", gate, g("Sigmoid", gate)), g.dot(y, w["up"]))
        return g("Add", x, g.dot(y, w["down"])), [k, v]

    def step(self, g: Nodes, ids: str, caches, at, mask) -> tuple[str, list[str]]:
        """The token behind these, as [1, 1], and what the caches are then."""
        x, after = g("Gather", g.constant(self.w("words", self.words, self.hidden)), ids), []
        for i in range(self.layers):
            x, made = self.layer(g, x, i, caches and caches[i], at, mask)
            after += made
        last = g("Gather", g.rms(x, self.w("norm", self.hidden)), g.ints(-1), axis=1)
        scores = g.dot(last, self.w("head", self.hidden, self.words))
        return g("ArgMax", scores, axis=2, keepdims=0), after

    def caches(self, name: str, length: str) -> list:
        return [value(f"{name} {x} {i}", TensorProto.FLOAT, 1, self.kv, length, self.size)
                for i in range(self.layers) for x in "kv"]

    def write(self, path: pathlib.Path) -> pathlib.Path:
        g = Nodes()
        n = g("Shape", "ids", start=1, end=2)
        square = g("Concat", n, n, axis=0)
        low = helper.make_tensor("low", TensorProto.FLOAT, [1], [-1e9])
        zero, one = g.constant(np.array(0)), g.constant(np.array(1))
        mask = g("Trilu", g("ConstantOfShape", square, value=low), one, upper=1)
        every = g("Range", zero, g("Squeeze", n), one)
        token, made = self.step(g, "ids", None, every, mask)

        body, given = Nodes(g), self.caches("past", "past")
        names = [c.name for c in given]
        past = body("Shape", names[0], start=2, end=3)
        pairs = list(zip(names[::2], names[1::2]))
        following, after = self.step(body, "token", pairs, past, None)
        again = body("Identity", "going")
        stacked = body("Identity", following)
        token_of = lambda name: value(name, TensorProto.INT64, 1, 1)
        turn = body.graph("turn", [value("turn", TensorProto.INT64),
                                   value("going", TensorProto.BOOL), token_of("token"), *given],
                          [value(again, TensorProto.BOOL), token_of(following),
                           *(value(a, TensorProto.FLOAT, 1, self.kv, None, self.size)
                             for a in after), token_of(stacked)])
        turns = g("Sub", "new", one)
        done = g("Loop", turns, "", token, *made, body=turn, outputs=len(made) + 2)
        g("Concat", g("Unsqueeze", token, g.ints(0)), done[-1], axis=0)
        g.nodes[-1].output[0] = "tokens"
        return g.save(path, [value("ids", TensorProto.INT64, 1, "n"),
                             value("new", TensorProto.INT64)],
                      [value("tokens", TensorProto.INT64, "t", 1, 1)])

    # ---- in NumPy

    def expected(self, r: dict[str, np.ndarray]) -> np.ndarray:
        """Tokens [new, 1, 1], computed from all tokens before each."""
        ids = [int(t) for t in r["ids"][0]]
        start = len(ids)
        for _ in range(int(r["new"])):
            ids.append(int(self.scores64(np.array(ids)).argmax()))
        return np.array(ids[start:]).reshape(-1, 1, 1)

    def scores64(self, ids: np.ndarray) -> np.ndarray:
        n, half = len(ids), self.size // 2
        x = self.w("words", self.words, self.hidden)[ids].astype(float)
        cos, sin = (t[:n].astype(float) for t in self.turned)

        def norm(y, w):
            return y / np.sqrt((y * y).mean(-1, keepdims=True) + LEAST) * w

        def rotated(y):
            a, b = y[..., :half], y[..., half:]
            return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

        for i in range(self.layers):
            w = self.matrices(i)
            y = norm(x, w["norm 1"])
            q, k, v = (np.moveaxis((y @ w[m]).reshape(n, -1, self.size), 1, 0) for m in "qkv")
            q, k = rotated(q), rotated(k)
            k, v = (np.repeat(t, self.heads // self.kv, 0) for t in (k, v))
            hidden = np.triu(np.full((n, n), -1e9), 1)
            p = softmax(q @ np.swapaxes(k, 1, 2) * self.size ** -0.5 + hidden)
            x = x + np.moveaxis(p @ v, 0, 1).reshape(n, -1) @ w["o"]
            y = norm(x, w["norm 2"])
            gate = y @ w["gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (y @ w["up"])) @ w["down"]
        return norm(x[-1], self.w("norm", self.hidden)) @ self.w("head", self.hidden, self.words)


# ---- an encoder with early exits -----------------------------------------------------------------


@dataclasses.dataclass
class Exits:
    """The layers of BERT. A request leaves behind layer `layers` at the latest, or where its surest
    class is likelier than `limit`: what a layer computed is read before the next begins."""
    layers: int
    hidden: int
    heads: int
    tokens: int
    classes: int = 8

    def __post_init__(self):
        self.w = Weights()

    def request(self, rng) -> dict[str, np.ndarray]:
        x = rng.standard_normal((1, self.tokens, self.hidden), np.float32)
        layers = np.array(rng.integers(1, self.layers + 1))
        return {"x": x, "layers": layers, "limit": np.array(2, np.float32)}

    def linear(self, g: Nodes, x: str, name: str, *shape: int) -> str:
        return g("Add", g.dot(x, self.w(name, *shape)), g.constant(self.w(f"{name} b", shape[1])))

    def layer(self, g: Nodes, x: str, i: int) -> str:
        h, size = self.hidden, self.hidden // self.heads

        def norm(y):
            scale, bias = np.ones(h, np.float32), np.zeros(h, np.float32)
            return g("LayerNormalization", y, g.constant(scale), g.constant(bias), axis=-1)

        q, k, v = (g.heads(self.linear(g, x, f"{i} {m}", h, h), self.heads, size) for m in "qkv")
        scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g("Mul", scores, g.constant(np.float32(size ** -0.5)))
        y = g.joined(g("MatMul", g("Softmax", scores, axis=-1), v), h)
        x = norm(g("Add", x, self.linear(g, y, f"{i} o", h, h)))
        y = g("Relu", self.linear(g, x, f"{i} up", h, 4 * h))
        return norm(g("Add", x, self.linear(g, y, f"{i} down", 4 * h, h)))

    def behind(self, g: Nodes, x: str, i: int) -> str:
        """Layer i, and what follows: the classes of the layer at which the request leaves."""
        x = self.layer(g, x, i)
        first = g("Gather", x, g.constant(np.array(0)), axis=1)
        p = g("Softmax", self.linear(g, first, f"{i} C", self.hidden, self.classes), axis=-1)
        if i == self.layers - 1:
            return p
        unsure = g("Less", g("ReduceMax", p, keepdims=0), "limit")
        on = g("And", unsure, g("Less", g.constant(np.array(i + 1)), "layers"))
        further, leave = Nodes(g.model), Nodes(g.model)
        shape = TensorProto.FLOAT, 1, self.classes
        yes = further.graph(f"layer_{i + 1}", [], [value(self.behind(further, x, i + 1), *shape)])
        no = leave.graph(f"leave_{i}", [], [value(leave("Identity", p), *shape)])
        return g("If", on, then_branch=yes, else_branch=no)

    def write(self, path: pathlib.Path) -> pathlib.Path:
        g = Nodes()
        g("Identity", self.behind(g, "x", 0))
        g.nodes[-1].output[0] = "classes"
        return g.save(path, [value("x", TensorProto.FLOAT, 1, self.tokens, self.hidden),
                             value("layers", TensorProto.INT64), value("limit", TensorProto.FLOAT)],
                      [value("classes", TensorProto.FLOAT, 1, self.classes)])
