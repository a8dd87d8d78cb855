"""Models whose work depends on the request, as text of graphs; requests for them as data sets have
them; and the same models in NumPy, in double precision.

A model takes one sentence, tree or lattice. Its weights are uniform in -0.1 .. 0.1, its embeddings
normal, all of fixed seeds. Trees and lattices come as lists that their nodes are numbers in.

    tree_lstm, tree_lstm_2, tree_gru, mv_rnn      the root's classes
    bilstm, birnn                                 of the last states of both directions
    lattice_lstm                                  of the last position
    berxit, deebert                               of the layer at which a request leaves
"""
import dataclasses
import pathlib

import numpy as np

WORDS, CHARACTERS = 256, 256
LEAVES = {0: 1, 5: 5, 10: 7, 25: 12, 50: 18, 75: 25, 90: 32, 95: 35, 99: 43, 100: 52}
TOKENS = {0: 3, 5: 8, 10: 10, 25: 14, 50: 20, 75: 29, 90: 40, 95: 48, 99: 67, 100: 144}
SENTENCE = {0: 2, 5: 7, 25: 14, 50: 20, 75: 27, 95: 39, 99: 47, 100: 74}
LATTICE = {0: 4, 5: 11, 10: 14, 25: 23, 50: 39, 75: 59, 90: 83, 95: 98, 99: 127, 100: 211}
ARCS = {2: .455, 3: .0595, 4: .011, 5: .0025}        # of a word that spans so many positions
LAYERS = 7                                   # at most, of an encoder that a request may leave
SEQUENCE = 128
LONG = 1000                                  # leaves, or tokens, where control alone is measured


def length(rng, quantiles: dict) -> int:
    return round(float(np.interp(rng.random() * 100, list(quantiles), list(quantiles.values()))))


# ---- the text of graphs --------------------------------------------------------------------------


def tensor(*dims, dtype="f32") -> str:
    return f"{dtype}[{', '.join(map(str, dims))}]"


NUMBER = tensor(dtype="i64")


class Text:
    """Functions, the model last; constants lie in a file beside them."""

    def __init__(self, path: pathlib.Path):
        self.path, self.graphs, self.at, self.regions, self.values = path, [], {}, 0, 0
        self.weights = open(path.with_suffix(".weights"), "wb")

    def place(self, array: np.ndarray) -> str:
        if id(array) not in self.at:
            self.weights.write(bytes(-self.weights.tell() % 64))
            self.at[id(array)] = self.weights.tell(), array
            self.weights.write(np.ascontiguousarray(array).tobytes())
        return f'file "{self.path.with_suffix(".weights").name}" {self.at[id(array)][0]}'

    def save(self) -> pathlib.Path:
        self.weights.close()
        self.path.write_text("\n".join(self.graphs))
        return self.path


class Graph:
    """A graph as it is written. Values are known by name; %name has type self.type[name].
    rows: what is looked up at a time."""

    def __init__(self, text: Text, name: str, inputs: dict[str, str], top: bool = True):
        self.text, self.name, self.rows, self.lines = text, name, 1, []
        self.inputs, self.suffix = list(inputs), ""
        if not top:                          # symbols are a graph's own
            text.regions += 1
            self.suffix = f"_{text.regions}"
        self.type = {k: t.replace("[n", f"[n{self.suffix}") for k, t in inputs.items()}

    def fresh(self, kind: str) -> str:
        self.text.values += 1
        name = f"v{self.text.values}"
        self.type[name] = kind
        return name

    def constant(self, array) -> str:
        array = np.asarray(array)
        dtype = {"f": f"f{8 * array.itemsize}", "i": "i64", "b": "bool"}[array.dtype.kind]
        name = self.fresh(tensor(*array.shape, dtype=dtype))
        small = f"[{', '.join(str(int(x)) for x in array.ravel())}]"
        self.lines.append(f"%{name}: {self.type[name]} = const "
                          f"{small if array.dtype.kind != 'f' else self.text.place(array)}")
        return name

    def op(self, op: str, kind: str | None, *given: str, **attributes) -> str:
        """kind: the type of the result, None: that of the first argument."""
        name = self.fresh(kind or self.type[given[0]])
        more = ", ".join(f"{k} = {v}" for k, v in attributes.items())
        self.lines.append(f"%{name}: {self.type[name]} = {op}({self.uses(given)})"
                          + (f" {{{more}}}" if more else ""))
        return name

    @staticmethod
    def uses(names) -> str:
        return ", ".join(f"%{n}" if n != "_" else "_" for n in names)

    def results(self, kinds: list[str]) -> tuple[list[str], str]:
        names = [self.fresh(k) for k in kinds]
        return names, ", ".join(f"%{n}: {self.type[n]}" for n in names)

    def open(self, names) -> bool:
        """Has one of them a dimension n?"""
        own = f"[n{self.suffix}"
        return any(self.type[x].split(own)[1][:1] in (",", "]") for x in names
                   if own in self.type[x])

    def call(self, name: str, kinds: list[str], *given: str) -> list[str]:
        names, shown = self.results(kinds)
        bind = f" with [n = n{self.suffix}]" if self.open(given) else ""
        self.lines.append(f"{shown} = call @{name}({self.uses(given)}){bind}")
        return names

    def region(self, name: str, given: dict[str, str]) -> "Graph":
        """To be written, for `branch` or `turns`. given: its inputs and their types."""
        kinds = {k: t.replace(f"[n{self.suffix}", "[n") for k, t in given.items()}
        return Graph(self.text, name, kinds, top=False)

    def closed(self, inner: "Graph", outputs) -> list[str]:
        bind = f"with [n{inner.suffix} = n{self.suffix}]" if inner.open(inner.inputs) else ""
        return [f"  {bind}", *inner.written(outputs)]

    def branch(self, condition: str, given: list[str], write_yes, write_no) -> list[str]:
        """write(graph) -> its outputs; a region knows what it is given under the same names."""
        lines, kinds = [], []
        for name, write in (("yes", write_yes), ("no", write_no)):
            inner = self.region(name, {x: self.type[x] for x in given})
            outputs = write(inner)
            kinds = [inner.type[x].replace(f"[n{inner.suffix}", f"[n{self.suffix}")
                     for x in outputs]
            lines += self.closed(inner, outputs)
        names, shown = self.results(kinds)
        self.lines += [f"{shown} = if({self.uses([condition, *given])})", *lines]
        return names

    def turns(self, most: str, carried: list[str], given: list[str], write,
              go: str = "_") -> list[str]:
        """write(graph, turn) -> (goes on or None, what is carried), under the names given."""
        inner = self.region("turn", {"turn": NUMBER, "going": tensor(dtype="bool")}
                            | {x: self.type[x] for x in [*carried, *given]})
        again, outputs = write(inner)
        names, shown = self.results([self.type[x] for x in carried])
        self.lines += [f"{shown} = loop({self.uses([most, go, *carried, *given])}) "
                       f"carried {len(carried)}", *self.closed(inner, [again or "going", *outputs])]
        return names

    def written(self, outputs) -> list[str]:
        inputs = ", ".join(f"%{i}: {self.type[i]}" for i in self.inputs)
        return [f"graph @{self.name}({inputs}) -> ({self.uses(outputs)}) {{",
                *(f"  {line}" for line in self.lines), "}"]

    def end(self, *outputs: str) -> None:
        self.text.graphs.append("\n".join(self.written(outputs)) + "\n")

    # ---- what cells are made of

    def dot(self, x: str, *weights: np.ndarray) -> str:
        """x w, or x w + b."""
        rows = self.type[x].rsplit(", ", 1)[0]
        y = self.op("matmul", f"{rows}, {weights[0].shape[-1]}]", x, self.constant(weights[0]))
        return self.op("add", None, y, self.constant(weights[1])) if len(weights) > 1 else y

    def sigmoid(self, x: str) -> str:
        return self.op("sigmoid", None, x)

    def tanh(self, x: str) -> str:
        return self.op("tanh", None, x)

    def mul(self, x: str, y: str) -> str:
        return self.op("mul", None, x, y)

    def add(self, x: str, y: str) -> str:
        return self.op("add", None, x, y)

    def beside(self, x: str, y: str, axis: int = 1) -> str:
        dims, more = (self.type[v][4:-1].split(", ") for v in (x, y))
        dims[axis] = int(dims[axis]) + int(more[axis])
        return self.op("concat", tensor(*dims), x, y, axis=axis)

    def item(self, items: str, at: str) -> str:
        return self.op("gather", NUMBER, items, at, axis=0)

    def lookup(self, table: np.ndarray, at: str) -> str:
        """table[at]; one row has a dimension of one in front."""
        if self.rows == 1:
            at = self.op("reshape", tensor(1, dtype="i64"), at, self.constant([1]))
        kind = tensor(self.rows, *table.shape[1:])
        return self.op("gather", kind, self.constant(table), at, axis=0)


# ---- weights -------------------------------------------------------------------------------------


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


# ---- what runs -----------------------------------------------------------------------------------


class Work:
    """Blocks that a request asks for, by kind and by depth, and the longest chain of each kind."""

    def __init__(self):
        self.count, self.level, self.chains = {}, {}, {}

    def add(self, kind: str, *after):
        """What is made: how deep it is, and the chains that end in it."""
        depth = max((a[0] for a in after), default=0)
        chain = {}
        for _, c in after:
            for k, n in c.items():
                chain[k] = max(chain.get(k, 0), n)
        chain[kind] = chain.get(kind, 0) + 1
        self.count[kind] = self.count.get(kind, 0) + 1
        self.level[depth, kind] = self.level.get((depth, kind), 0) + 1
        self.chains[kind] = max(self.chains.get(kind, 0), chain[kind])
        return depth + 1, chain


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


# ---- trees ---------------------------------------------------------------------------------------


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

    def mix(self, g: Graph, z: str, h: str, new: str) -> str:
        """z h + (1 - z) new."""
        rest = g.op("sub", tensor(1, self.h), g.constant(np.ones((1, 1), np.float32)), z)
        return g.add(g.mul(z, h), g.mul(rest, new))

    def gates(self, g: Graph, x: str, k: str) -> str:
        h, w = self.h, self.w
        r, z = (g.sigmoid(g.dot(x, w(f"{n}{k}", h, h), w(f"{n}{k} b", h))) for n in "rz")
        new = g.tanh(g.dot(g.mul(r, x), w(f"c{k}", h, h), w(f"c{k} b", h)))
        return self.mix(g, z, x, new)

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


# ---- sequences -----------------------------------------------------------------------------------


class Sequence:
    """A loop over tokens from each end; the last states decide."""
    classes, quantiles = 16, SENTENCE

    def __init__(self, hidden: int):
        self.h, self.w = hidden, Weights(2)

    def request(self, rng, n: int | None = None) -> dict:
        return {"word": rng.integers(WORDS, size=n or length(rng, self.quantiles))}

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text = Text(path)
        g = Graph(text, "main", {"word": tensor("n", dtype="i64")})
        n = g.op("reshape", NUMBER, g.op("shape", tensor(1, dtype="i64"), "word"),
                 g.constant(np.zeros(0, np.int64)))
        last = g.op("sub", None, n, g.constant(1))
        zero = g.constant(np.zeros((1, self.h), np.float32))
        ends = []
        for side in "fb":
            carried = [g.op("identity", None, zero) for _ in range(self.states)]

            def turn(r: Graph, side=side, carried=carried):
                at = "turn" if side == "f" else r.op("sub", None, last, "turn")
                x = r.lookup(self.w.table("words", WORDS, self.h), r.item("word", at))
                return None, self.step(r, x, carried, side)

            ends.append(g.turns(n, carried, ["word", last], turn)[self.out])
        g.end(self.classify(g, g.beside(*ends)))
        return text.save()

    def expected(self, r: dict) -> np.ndarray:
        ends = []
        for side in "fb":
            state = [np.zeros(self.h)] * self.states
            for word in r["word"][::-1 if side == "b" else 1]:
                state = self.step64(self.w["words"][word].astype(float), state, side)
            ends.append(state[self.out])
        return self.classify64(np.concatenate(ends))

    def work(self, r: dict) -> Work:
        w, ends = Work(), []
        for side in "fb":
            at = ()
            for _ in r["word"]:
                at = (w.add(side, *at),)
            ends += at
        w.add("out", *ends)
        return w


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


class BiLSTM(Sequence):
    """Two layers each way."""
    quantiles, states, out = TOKENS, 4, 2

    def layer(self, name: str) -> list[np.ndarray]:
        h, w = self.h, self.w
        of = [a for k in "ifog" for a in (w(f"{name} {k}", 2 * h, h), w(f"{name} {k} b", h))]
        if f"{name} forgets" not in w:
            w[f"{name} forgets"] = of[3] + np.float32(1)
        of[3] = w[f"{name} forgets"]
        return of

    def step(self, g: Graph, x: str, s: list[str], side: str) -> list[str]:
        h, c = lstm(g, x, s[0], s[1], self.layer(f"{side} 1"))
        return [h, c, *lstm(g, h, s[2], s[3], self.layer(f"{side} 2"))]

    def step64(self, x, s, side: str):
        h, c = lstm64(x, s[0], s[1], self.layer(f"{side} 1"))
        return [h, c, *lstm64(h, s[2], s[3], self.layer(f"{side} 2"))]

    def classify(self, g: Graph, ends: str) -> str:
        h, w = self.h, self.w
        return g.op("softmax", None,
                    g.dot(g.tanh(g.dot(ends, w("H", 2 * h, h))), w("O", h, self.classes)))

    def classify64(self, ends):
        return softmax(np.tanh(ends @ self.w["H"].astype(float)) @ self.w["O"].astype(float))


class BiRNN(Sequence):
    states, out = 1, 0

    def step(self, g: Graph, x: str, s: list[str], side: str) -> list[str]:
        h, w = self.h, self.w
        return [g.sigmoid(g.dot(g.beside(x, s[0]), w(side, 2 * h, h), w(f"{side} b", h)))]

    def step64(self, x, s, side: str):
        both = np.concatenate([x, s[0]])
        return [sigmoid(both @ self.w[side].astype(float) + self.w[f"{side} b"])]

    def classify(self, g: Graph, ends: str) -> str:
        return g.op("softmax", None, g.dot(ends, self.w("C", 2 * self.h, self.classes),
                                           self.w("C b", self.classes)))

    def classify64(self, ends):
        return softmax(ends @ self.w["C"].astype(float) + self.w["C b"])


class LatticeLSTM:
    """A loop over positions that carries the states of the last five. An arc from one position
    before is a character's, arcs from further back are words', with weights of their own."""
    classes = 18

    def __init__(self, hidden: int):
        self.h, self.w = hidden, Weights(3)

    def request(self, rng, n: int | None = None) -> dict:
        n = n or length(rng, LATTICE)
        r = {"character": rng.integers(CHARACTERS, size=n)}
        for span, share in ARCS.items():
            there = (rng.random(n) < share) & (np.arange(1, n + 1) >= span)
            r[f"word{span}"] = np.where(there, rng.integers(WORDS, size=n), -1)
        return r

    def arc(self, name: str) -> list[np.ndarray]:
        h, w = self.h, self.w
        return [a for k in "ifog" for a in (w(f"{name} {k}", 2 * h, h), w(f"{name} {k} b", h))]

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text, h = Text(path), self.h
        row = tensor(1, h)
        g = Graph(text, "arc", {"id": NUMBER} | {k: row for k in ("h", "c", "h0", "c0")})
        x = g.lookup(self.w.table("words", WORDS, h), "id")
        made = lstm(g, x, "h", "c", self.arc("word"))
        g.end(g.add("h0", made[0]), g.add("c0", made[1]))

        lists = ["character", *(f"word{span}" for span in ARCS)]
        g = Graph(text, "main", {k: tensor("n", dtype="i64") for k in lists})
        n = g.op("reshape", NUMBER, g.op("shape", tensor(1, dtype="i64"), "character"),
                 g.constant(np.zeros(0, np.int64)))
        start = g.constant(self.w("h0", 1, h)), g.constant(self.w("c0", 1, h))
        carried = [g.op("identity", None, start[k % 2]) for k in range(10)]

        def turn(r: Graph):
            x = r.lookup(self.w.table("characters", CHARACTERS, h), r.item("character", "turn"))
            now = lstm(r, x, carried[0], carried[1], self.arc("character"))
            for span in ARCS:
                word = r.item(f"word{span}", "turn")
                there = r.op("less", tensor(dtype="bool"), r.constant(-1), word)
                before = carried[2 * span - 2:2 * span]
                now = r.branch(there, [word, *before, *now],
                               lambda y: y.call("arc", [row, row], word, *before, *now),
                               lambda y: list(now))
            return None, [*now, *carried[:8]]

        last = g.turns(n, carried, lists, turn)
        g.end(g.op("softmax", None, g.dot(last[0], self.w("O", h, self.classes))))
        return text.save()

    def expected(self, r: dict) -> np.ndarray:
        w = self.w
        states = [(w["h0"][0].astype(float), w["c0"][0].astype(float))] * 5
        for i, character in enumerate(r["character"]):
            h, c = lstm64(w["characters"][character].astype(float), *states[0],
                          self.arc("character"))
            for span in ARCS:
                if r[f"word{span}"][i] >= 0:
                    more = lstm64(w["words"][r[f"word{span}"][i]].astype(float),
                                  *states[span - 1], self.arc("word"))
                    h, c = h + more[0], c + more[1]
            states = [(h, c), *states[:4]]
        return softmax(states[0][0] @ w["O"].astype(float))

    def work(self, r: dict) -> Work:
        w, states = Work(), [(0, {})] * 5
        for i in range(len(r["character"])):
            now = w.add("character", states[0])
            for span in ARCS:
                if r[f"word{span}"][i] >= 0:
                    now = w.add("word", states[span - 1], now)
            states = [now, *states[:4]]
        w.add("out", states[0])
        return w


# ---- encoders that a request leaves early --------------------------------------------------------


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


# ---- the cost of control alone -------------------------------------------------------------------


class Running(Sequence):
    """A loop whose turns add one number to another."""
    states, out, quantiles = 1, 0, {0: LONG, 100: LONG}

    def step(self, g: Graph, x: str, s: list[str], side: str) -> list[str]:
        return [g.add(x, s[0])]

    def step64(self, x, s, side: str):
        return [x + s[0]]

    def classify(self, g: Graph, ends: str) -> str:
        return g.op("identity", None, ends)

    def classify64(self, ends):
        return ends

class Sums(Tree):
    """A tree whose nodes add one number to another. It is large, so that what Python does for a
    request counts little, and even, so that many nodes run together."""

    def request(self, rng, leaves: int | None = None) -> dict:
        made = tree(rng, leaves or LONG, even)
        return {k: made[k] for k in ["root", *self.lists]}

    def state(self) -> list[str]:
        return [tensor(1, 1)]

    def leaf(self, g: Graph, word: str) -> list[str]:
        return [g.lookup(self.w.table("words", WORDS, 1), word)]

    def inner(self, g: Graph, a: list[str], b: list[str], kind: str) -> list[str]:
        return [g.add(a[0], b[0])]

    def leaf64(self, word: int):
        return (self.w["words"][word].astype(float),)

    def inner64(self, a, b, kind: str):
        return (a[0] + b[0],)


MODELS = {"tree_lstm": TreeLSTM, "tree_lstm_2": TreeLSTM2, "tree_gru": TreeGRU, "mv_rnn": MVRNN,
          "bilstm": BiLSTM, "birnn": BiRNN, "lattice_lstm": LatticeLSTM, "berxit": Berxit,
          "deebert": DeeBERT, "sums": Sums, "running": Running}
