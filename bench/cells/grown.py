"""Models that make trees as they run: one from the top down, and a parser that shifts and reduces.
"""
import pathlib

import numpy as np

from .common import SENTENCE, WORDS, Weights, Work, length, sigmoid, softmax
from .text import NUMBER, Graph, Text, tensor

MOST = 3                                     # levels below the top, and siblings behind the first


# ---- from the top down ---------------------------------------------------------------------------


class DRNN:
    """A doubly recurrent network: a node's label is made of the states of its parent and of the
    sibling before it. Which nodes there are is drawn beforehand; the sum of all labels."""
    lists = ["child", "sibling"]

    def __init__(self, hidden: int):
        self.h, self.w = hidden, Weights(5)

    def request(self, rng) -> dict:
        lists, open_ = ([], []), [(0, 0)]
        child, sibling = lists

        def made(*at: int) -> int:
            for k in lists:
                k.append(-1)
            open_.append(at)
            return len(child) - 1

        made(*open_.pop())
        for node, (level, before) in enumerate(open_):           # which grows
            if rng.integers(0, MOST - level, endpoint=True):
                child[node] = made(level + 1, 0)
            if rng.integers(0, MOST - before, endpoint=True):
                sibling[node] = made(level, before + 1)
        return {"child": np.array(child), "sibling": np.array(sibling)}

    def weights(self) -> dict[str, tuple]:
        h, w = self.h, self.w
        return {"a": (w("a", 2 * h, h), w("a b", h)), "f": (w("f", 2 * h, h), w("f b", h)),
                "U": (w("U", 2 * h, h),), "D": (w("D", h, 2),), "O": (w("O", h, h),),
                "V": (w("V", 2, h),)}

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text, w, row = Text(path), self.weights(), tensor(1, self.h)
        lists = {k: tensor("n", dtype="i64") for k in self.lists}
        states = ["parent", "down", "before", "along"]
        g = Graph(text, "grow", {"node": NUMBER} | dict.fromkeys(states, row) | lists)
        a = g.sigmoid(g.dot(g.beside("parent", "down"), *w["a"]))
        f = g.sigmoid(g.dot(g.beside("before", "along"), *w["f"]))
        p = g.tanh(g.dot(g.beside(a, f), *w["U"]))
        ends = g.dot(g.sigmoid(g.dot(p, *w["D"])), *w["V"])
        x = g.op("softmax", None, g.add(g.dot(p, *w["O"]), ends))

        def with_more(k: str, sum_: str, given: list[str]) -> str:
            """The sum with what grows at this node's child, or sibling."""
            at = g.item(k, "node")
            there = g.op("less", tensor(dtype="bool"), g.constant(-1), at)

            def grow(r: Graph) -> list[str]:
                zero = r.constant(np.zeros((1, self.h), np.float32))
                return [r.add(sum_, r.call("grow", [row], at, *(v or zero for v in given),
                                           *self.lists)[0])]

            names = dict.fromkeys([at, sum_, *filter(None, given), *self.lists])
            return g.branch(there, list(names), grow, lambda r: [sum_])[0]

        below = with_more("child", x, [x, a, "", ""])
        g.end(with_more("sibling", below, ["parent", "down", x, f]))
        g = Graph(text, "main", lists)
        zero = g.constant(np.zeros((1, self.h), np.float32))
        g.end(*g.call("grow", [row], g.constant(0), *[zero] * 4, *self.lists))
        return text.save()

    def expected(self, r: dict) -> np.ndarray:
        w = {k: [x.astype(float) for x in of] for k, of in self.weights().items()}

        def dense(name: str, *x):
            return np.concatenate(x) @ w[name][0] + sum(w[name][1:])

        def grow(node: int, parent, down, before, along):
            a, f = sigmoid(dense("a", parent, down)), sigmoid(dense("f", before, along))
            p = np.tanh(dense("U", a, f))
            x = softmax(dense("O", p) + dense("V", sigmoid(dense("D", p))))
            sum_, zero = x, np.zeros(self.h)
            if r["child"][node] >= 0:
                sum_ = sum_ + grow(r["child"][node], x, a, zero, zero)
            if r["sibling"][node] >= 0:
                sum_ = sum_ + grow(r["sibling"][node], parent, down, x, f)
            return sum_

        return grow(0, *[np.zeros(self.h)] * 4)

    def work(self, r: dict) -> Work:
        w = Work()

        def grow(node: int, *after):
            x = sum_ = w.add("cell", *after)
            for k, before in (("child", [x]), ("sibling", [*after[:1], x])):
                if r[k][node] >= 0:
                    sum_ = w.add(f"sum {k}", sum_, grow(r[k][node], *before))
            return sum_

        grow(0)
        return w


# ---- shift and reduce ----------------------------------------------------------------------------


class StackRNN:
    """A parser. Each turn reads a score of the stack, the buffer and the actions so far, each an
    RNN, and shifts the next word or composes the two items on top. What it does is drawn
    beforehand, so that all trees come up, but control waits for the score. An item of the stack is
    a call: one that reduces returns to the item below it. The classes of what is left."""
    classes = 16

    def __init__(self, hidden: int):
        self.h, self.w = hidden, Weights(6)

    def request(self, rng, n: int | None = None) -> dict:
        n = n or length(rng, SENTENCE)
        left, items, action = n - 1, 1, []
        while left or items:                 # the last reduces to nothing
            shift = left > 0 and (items < 2 or rng.random() < .5)
            left, items = left - shift, items + (1 if shift else -1)
            action.append(int(shift))
        return {"word": rng.integers(WORDS, size=n), "action": np.array(action),
                "limit": np.array(2, np.float32)}

    def rnn(self, g: Graph, name: str, x: str, h: str) -> str:
        w, n = self.w, self.h
        return g.tanh(g.dot(g.beside(x, h), w(name, 2 * n, n), w(f"{name} b", n)))

    def shifted(self, g: Graph, at: str, buffer: str) -> tuple[str, str]:
        """The next word, and the state of the buffer with it."""
        x = g.lookup(self.w.table("words", WORDS, self.h), g.item("word", at))
        return x, self.rnn(g, "buffer", x, buffer)

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text, h, row, flag = Text(path), self.h, tensor(1, self.h), tensor(dtype="bool")
        given = {"limit": tensor(), "word": tensor("n", dtype="i64"),
                 "action": tensor("m", dtype="i64")}
        carried = {"item": row, "buffer": row, "acted": row, "next": NUMBER, "time": NUMBER}
        g = Graph(text, "parse", {"below": row} | carried | given)

        def turn(r: Graph):
            stack = self.rnn(r, "stack", "item", "below")
            seen = r.beside(r.beside(stack, "buffer"), "acted")
            score = r.op("softmax", None, r.dot(seen, self.w("score", 3 * h, 2),
                                                self.w("score b", 2)))
            sure = r.op("reduce_max", tensor(), score, r.constant([0, 1]), keepdims=0)
            does = r.item("action", "time")
            shift = r.op("and", None, r.op("less", flag, sure, "limit"),
                         r.op("less", flag, r.constant(0), does))
            acted = self.rnn(r, "action", r.lookup(self.w.table("actions", 2, h), does), "acted")
            time = r.add("time", r.constant(1))
            names = ["item", "buffer", acted, "next", time]

            def push(y: Graph) -> list[str]:
                x, buffer = self.shifted(y, "next", "buffer")
                made = y.call("parse", list(carried.values()), stack, x, buffer, acted,
                              y.add("next", y.constant(1)), time, *given)
                return [self.rnn(y, "compose", "item", made[0]), *made[1:]]

            return shift, r.branch(shift, [*names, stack, *given], push, lambda y: list(names))

        many = g.op("reshape", NUMBER, g.op("shape", tensor(1, dtype="i64"), "action"),
                    g.constant(np.zeros(0, np.int64)))
        g.end(*g.turns(many, list(carried), ["below", *given], turn, go=g.constant(True)))

        g = Graph(text, "main", given)
        zero = g.constant(np.zeros((1, h), np.float32))
        x, buffer = self.shifted(g, g.constant(0), zero)
        item, buffer, acted, *_ = g.call("parse", list(carried.values()), zero, x, buffer, zero,
                                         g.constant(1), g.constant(0), *given)
        ends = g.beside(g.beside(item, buffer), acted)
        g.end(g.op("softmax", None, g.dot(ends, self.w("C", 3 * h, self.classes))))
        return text.save()

    def expected(self, r: dict) -> np.ndarray:
        """With a stack of items; scores decide nothing."""
        w, items, at, states = self.w, [], 0, {k: np.zeros(self.h) for k in ("buffer", "action")}

        def rnn(name: str, x, h):
            return np.tanh(np.concatenate([x, h]) @ w[name].astype(float) + w[f"{name} b"])

        def goes_on(name: str, x):
            states[name] = rnn(name, x.astype(float), states[name])

        for turn, shift in enumerate([1, *r["action"]]):
            if turn:
                goes_on("action", w["actions"][shift])
            if shift:
                items.append(w["words"][r["word"][at]].astype(float))
                goes_on("buffer", items[-1])
                at += 1
            elif len(items) > 1:
                items[-2:] = [rnn("compose", *items[-2:])]
        return softmax(np.concatenate([items[0], *states.values()]) @ w["C"].astype(float))

    def work(self, r: dict) -> Work:
        w, read = Work(), None
        items = [w.add("shift")]
        for shift in r["action"]:
            read = w.add("turn", items[-1], *filter(None, [read]))
            if shift:
                items.append(w.add("shift", read))
            elif len(items) > 1:
                top = items.pop()
                items[-1] = w.add("compose", items[-1], top)
        w.add("out", items[0], read)
        return w
