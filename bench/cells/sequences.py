"""Models of sentences: loops over tokens, whose last states decide."""
import pathlib

import numpy as np

from .common import (CHARACTERS, SENTENCE, WORDS, Weights, Work, gates, gru, gru64, length, lstm,
                     lstm64, sigmoid, softmax)
from .text import NUMBER, Graph, Text, tensor

TOKENS = {0: 3, 5: 8, 10: 10, 25: 14, 50: 20, 75: 29, 90: 40, 95: 48, 99: 67, 100: 144}
SPELT = {0: 1, 5: 3, 25: 5, 50: 7, 75: 8, 95: 11, 99: 13, 100: 26}       # characters of rare words
RARE = .29                                   # of all tokens
INNER = {0: 20, 100: 40}                     # turns of either loop of two


class Sequence:
    """A loop over tokens from each of `sides`."""
    classes, quantiles, sides = 16, SENTENCE, "fb"
    lists = {"word": tensor("n", dtype="i64")}

    def __init__(self, hidden: int):
        self.h, self.w = hidden, Weights(2)

    def request(self, rng, n: int | None = None) -> dict:
        return {"word": rng.integers(WORDS, size=n or length(rng, self.quantiles))}

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text = Text(path)
        self.functions(text)
        g = Graph(text, "main", self.lists)
        n = g.op("reshape", NUMBER, g.op("shape", tensor(1, dtype="i64"), "word"),
                 g.constant(np.zeros(0, np.int64)))
        last = g.op("sub", None, n, g.constant(1))
        zero = g.constant(np.zeros((1, self.h), np.float32))
        ends = []
        for side in self.sides:
            carried = [g.op("identity", None, zero) for _ in range(self.states)]

            def turn(r: Graph, side=side, carried=carried):
                at = "turn" if side == "f" else r.op("sub", None, last, "turn")
                return None, self.step(r, self.embed(r, at), carried, side, at)

            ends.append(g.turns(n, carried, [*self.lists, last], turn)[self.out])
        g.end(self.classify(g, g.beside(*ends) if len(ends) > 1 else ends[0]))
        return text.save()

    def row_bytes(self) -> int:
        """Of what a turn makes."""
        return 4 * self.states * self.h

    def functions(self, text: Text) -> None:
        """What the model calls."""

    def embed(self, g: Graph, at: str) -> str:
        return g.lookup(self.w.table("words", WORDS, self.h), g.item("word", at))

    def embed64(self, r: dict, at: int):
        return self.w["words"][r["word"][at]].astype(float)

    def order(self, r: dict, side: str) -> range:
        n = len(r["word"])
        return range(n)[::-1 if side == "b" else 1]

    def expected(self, r: dict) -> np.ndarray:
        ends = []
        for side in self.sides:
            state = [np.zeros(self.h)] * self.states
            for at in self.order(r, side):
                state = self.step64(self.embed64(r, at), state, side, r, at)
            ends.append(state[self.out])
        return self.classify64(np.concatenate(ends))

    def work(self, r: dict) -> Work:
        w, ends = Work(), []
        for side in self.sides:
            before = []
            for at in self.order(r, side):
                before = [self.step_work(w, r, at, side, before)]
            ends += before
        w.add("out", *ends)
        return w

    def step_work(self, w: Work, r: dict, at: int, side: str, before: list):
        return w.add(side, *before)


class BiLSTM(Sequence):
    """Two layers each way."""
    quantiles, states, out = TOKENS, 4, 2

    def layer(self, name: str, h: int) -> list[np.ndarray]:
        """Of h inputs and h outputs; its forget gate begins open."""
        of, forgets = gates(self.w, name, "ifog", h, h), f"{name} forgets"
        if forgets not in self.w:
            self.w[forgets] = of[3] + np.float32(1)
        of[3] = self.w[forgets]
        return of

    def layers(self, g: Graph, x: str, s: list[str], name: str, h: int) -> list[str]:
        made = lstm(g, x, s[0], s[1], self.layer(f"{name} 1", h))
        return [*made, *lstm(g, made[0], s[2], s[3], self.layer(f"{name} 2", h))]

    def layers64(self, x, s, name: str, h: int) -> list:
        made = lstm64(x, s[0], s[1], self.layer(f"{name} 1", h))
        return [*made, *lstm64(made[0], s[2], s[3], self.layer(f"{name} 2", h))]

    def step(self, g: Graph, x: str, s: list[str], side: str, at: str) -> list[str]:
        return self.layers(g, x, s, side, self.h)

    def step64(self, x, s, side: str, r: dict, at: int):
        return self.layers64(x, s, side, self.h)

    def classify(self, g: Graph, ends: str) -> str:
        h, w = self.h, self.w
        return g.op("softmax", None,
                    g.dot(g.tanh(g.dot(ends, w("H", 2 * h, h))), w("O", h, self.classes)))

    def classify64(self, ends):
        return softmax(np.tanh(ends @ self.w["H"].astype(float)) @ self.w["O"].astype(float))


class BiLSTMCharacters(BiLSTM):
    """A rare word is what two layers each way, of half the size, make of its characters, between
    two that are padding. No loop keeps a list of tensors, so each direction over words spells them
    itself."""
    lists = {"word": tensor("n", dtype="i64"), "first": tensor("n", dtype="i64"),
             "spelt": tensor("n", dtype="i64"), "character": tensor("m", dtype="i64")}

    def request(self, rng, n: int | None = None) -> dict:
        word = rng.integers(WORDS, size=n or length(rng, self.quantiles))
        spelt = np.array([length(rng, SPELT) + 2 if rng.random() < RARE else 0 for _ in word])
        character = rng.integers(1, CHARACTERS, size=max(spelt.sum(), 1))
        first = spelt.cumsum() - spelt
        character[first[spelt > 0]] = character[(first + spelt - 1)[spelt > 0]] = 0
        return {"word": word, "first": first, "spelt": spelt, "character": character}

    def embed(self, g: Graph, at: str) -> str:
        first, spelt = g.item("first", at), g.item("spelt", at)
        rare = g.op("less", tensor(dtype="bool"), g.constant(0), spelt)
        return g.branch(rare, [at, first, spelt, *self.lists],
                        lambda r: r.call("spell", [tensor(1, self.h)], first, spelt, "character"),
                        lambda r: [BiLSTM.embed(self, r, at)])[0]

    def functions(self, text: Text) -> None:
        half, ends = self.h // 2, []
        g = Graph(text, "spell", {"first": NUMBER, "spelt": NUMBER,
                                  "character": self.lists["character"]})
        last = g.add("first", g.op("sub", None, "spelt", g.constant(1)))
        for side in "fb":
            carried = [g.constant(np.zeros((1, half), np.float32)) for _ in range(self.states)]

            def turn(r: Graph, side=side, carried=carried):
                at = r.add("first", "turn") if side == "f" else r.op("sub", None, last, "turn")
                x = r.lookup(self.w.table("characters", CHARACTERS, half), r.item("character", at))
                return None, self.layers(r, x, carried, f"character {side}", half)

            ends.append(g.turns("spelt", carried, ["first", last, "character"], turn)[self.out])
        g.end(g.beside(*ends))

    def embed64(self, r: dict, at: int):
        if not r["spelt"][at]:
            return super().embed64(r, at)
        half, ends = self.h // 2, []
        characters = r["character"][r["first"][at]:][:r["spelt"][at]]
        for side in "fb":
            state = [np.zeros(half)] * self.states
            for c in characters[::-1 if side == "b" else 1]:
                x = self.w["characters"][c].astype(float)
                state = self.layers64(x, state, f"character {side}", half)
            ends.append(state[self.out])
        return np.concatenate(ends)

    def step_work(self, w: Work, r: dict, at: int, side: str, before: list):
        ends = []
        for way in "fb" if r["spelt"][at] else "":
            spelt = []
            for _ in range(r["spelt"][at]):
                spelt = [w.add(f"character {way}", *spelt)]
            ends += spelt
        return w.add(side, *before, w.add("spelt" if ends else f"known {side}", *ends))


class BiRNN(Sequence):
    states, out = 1, 0

    def step(self, g: Graph, x: str, s: list[str], side: str, at: str) -> list[str]:
        h, w = self.h, self.w
        return [g.sigmoid(g.dot(g.beside(x, s[0]), w(side, 2 * h, h), w(f"{side} b", h)))]

    def step64(self, x, s, side: str, r: dict, at: int):
        both = np.concatenate([x, s[0]])
        return [sigmoid(both @ self.w[side].astype(float) + self.w[f"{side} b"])]

    def classify(self, g: Graph, ends: str) -> str:
        w = self.w("C", len(self.sides) * self.h, self.classes), self.w("C b", self.classes)
        return g.op("softmax", None, g.dot(ends, *w))

    def classify64(self, ends):
        return softmax(ends @ self.w["C"].astype(float) + self.w["C b"])


class NestedRNN(BiRNN):
    """A GRU over words; behind each of its steps an RNN carries the state on for as many turns as
    the request says."""
    sides, quantiles = "f", INNER
    lists = {"word": tensor("n", dtype="i64"), "turns": tensor("n", dtype="i64")}

    def request(self, rng, n: int | None = None) -> dict:
        word = super().request(rng, n)["word"]
        return {"word": word, "turns": np.array([length(rng, INNER) for _ in word])}

    def step(self, g: Graph, x: str, s: list[str], side: str, at: str) -> list[str]:
        h, w = self.h, self.w
        word = gru(g, x, s[0], gates(w, "word", "rzc", h, h))
        state = g.op("identity", None, word)

        def turn(r: Graph):
            both = r.beside(word, state)
            return None, [r.sigmoid(r.dot(both, w("inner", 2 * h, h), w("inner b", h)))]

        return g.turns(g.item("turns", at), [state], [word], turn)

    def step64(self, x, s, side: str, r: dict, at: int):
        h, w = self.h, self.w
        word = state = gru64(x, s[0], gates(w, "word", "rzc", h, h))
        for _ in range(r["turns"][at]):
            both = np.concatenate([word, state])
            state = sigmoid(both @ w["inner"].astype(float) + w["inner b"])
        return [state]

    def step_work(self, w: Work, r: dict, at: int, side: str, before: list):
        at_end = w.add("word", *before)
        for _ in range(r["turns"][at]):
            at_end = w.add("inner", at_end)
        return at_end
