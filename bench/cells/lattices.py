"""A loop over the positions of a lattice that carries the states of the last five. An arc from one
position before is a character's, arcs from further back are words', with weights of their own. A
position's state is the sum over its arcs, and each position has a class.
"""
import pathlib

import numpy as np

from .common import (CHARACTERS, GIVEN, WORDS, Weights, Work, gates, gru, gru64, length, lstm,
                     lstm64, softmax)
from .text import NUMBER, Graph, Text, tensor

LATTICE = {0: 4, 5: 11, 10: 14, 25: 23, 50: 39, 75: 59, 90: 83, 95: 98, 99: 127, 100: 211}
ARCS = {2: .455, 3: .0595, 4: .011, 5: .0025}        # of a word that spans so many positions
FARTHEST = max(ARCS)


class Lattice:
    """Subclasses have a cell of some states and of weights for these gates."""
    classes = 18
    lists = ["character", *(f"word{span}" for span in ARCS)]

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
        return gates(self.w, name, self.gates, self.h, self.h)

    def row_bytes(self) -> int:
        """Of what a block makes."""
        return 4 * self.states * self.h

    def start(self) -> list[np.ndarray]:
        return [self.w(f"{k}0", 1, self.h) for k in "hc"[:self.states]]

    def write(self, path: pathlib.Path) -> pathlib.Path:
        text, h, states = Text(path), self.h, self.states
        rows = [tensor(1, h)] * states
        before, now = ([f"{k}{i}" for i in range(states)] for k in ("before", "now"))
        g = Graph(text, "arc", {"id": NUMBER} | dict(zip(before + now, rows + rows)))
        x = g.lookup(self.w.table("words", WORDS, h), "id")
        g.end(*map(g.add, now, self.cell(g, x, before, self.arc("word"))))

        g = Graph(text, "main", {k: tensor("n", dtype="i64") for k in self.lists})
        n = g.op("reshape", NUMBER, g.op("shape", tensor(1, dtype="i64"), "character"),
                 g.constant(np.zeros(0, np.int64)))
        start = [g.constant(x) for x in self.start()]
        carried = [g.op("identity", None, x) for _ in range(FARTHEST) for x in start]

        def turn(r: Graph):
            x = r.lookup(self.w.table("characters", CHARACTERS, h), r.item("character", "turn"))
            now = self.cell(r, x, carried[:states], self.arc("character"))
            for span in ARCS:
                word = r.item(f"word{span}", "turn")
                there = r.op("less", tensor(dtype="bool"), r.constant(-1), word)
                before = carried[states * (span - 1):states * span]
                now = r.branch(there, [word, *before, *now],
                               lambda y: y.call("arc", rows, word, *before, *now),
                               lambda y: list(now))
            tags = r.op("softmax", None, r.dot(now[0], self.w("O", h, self.classes)))
            return None, [*now, *carried[:-states], tags]

        g.end(g.turns(n, carried, self.lists, turn)[-1])
        return text.save()

    def expected(self, r: dict) -> np.ndarray:
        w, tags = self.w, []
        states = [[x[0].astype(float) for x in self.start()]] * FARTHEST
        for i, character in enumerate(r["character"]):
            now = self.cell64(w["characters"][character].astype(float), states[0],
                              self.arc("character"))
            for span in ARCS:
                if r[f"word{span}"][i] >= 0:
                    more = self.cell64(w["words"][r[f"word{span}"][i]].astype(float),
                                       states[span - 1], self.arc("word"))
                    now = [a + b for a, b in zip(now, more)]
            states = [now, *states[:-1]]
            tags.append(softmax(now[0] @ w["O"].astype(float)))
        return np.stack(tags)

    def work(self, r: dict) -> Work:
        w, states = Work(), [GIVEN] * FARTHEST
        for i in range(len(r["character"])):
            now = w.add("character", states[0])
            for span in ARCS:
                if r[f"word{span}"][i] >= 0:
                    now = w.add("word", states[span - 1], now)
            w.add("out", now)
            states = [now, *states[:-1]]
        return w


class LatticeLSTM(Lattice):
    states, gates = 2, "ifog"

    def cell(self, g: Graph, x: str, s: list[str], of: list[np.ndarray]) -> list[str]:
        return list(lstm(g, x, *s, of))

    def cell64(self, x, s, of: list[np.ndarray]):
        return lstm64(x, *s, of)


class LatticeGRU(Lattice):
    states, gates = 1, "rzc"

    def cell(self, g: Graph, x: str, s: list[str], of: list[np.ndarray]) -> list[str]:
        return [gru(g, x, *s, of)]

    def cell64(self, x, s, of: list[np.ndarray]):
        return [gru64(x, *s, of)]
