"""Models whose blocks do nearly nothing: what control costs."""
from .common import LONG, WORDS
from .sequences import Sequence
from .text import Graph, tensor
from .trees import Tree, even, tree


class Running(Sequence):
    """A loop whose turns add one number to another."""
    states, out, quantiles = 1, 0, {0: LONG, 100: LONG}

    def step(self, g: Graph, x: str, s: list[str], side: str, at: str) -> list[str]:
        return [g.add(x, s[0])]

    def step64(self, x, s, side: str, r: dict, at: int):
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
