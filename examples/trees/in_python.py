#!/usr/bin/env python3
"""The model of trees.tn in Python: classes for trees, functions that Tenon reads.

    python3 examples/trees/in_python.py "(3 + 4) × (2 + 9 × 8)" "7 × 8"
"""
import sys

import numpy as np
import tenon
import train
from expressions import parse
from tenon import ops

WEIGHTS = train.read()
WORDS, CELL, DIGIT, BIAS = (WEIGHTS[name] for name in ("words", "cell", "digit", "bias"))
ONE = np.array([1])


@tenon.data
class Number:
    word: int


@tenon.data
class Operation:
    word: int
    left: "Tree"
    right: "Tree"


Tree = Number | Operation


@tenon.function
def encode(t: Tree) -> tuple["f32[1, 64]", "f32[1, 64]"]:
    match t:
        case Number(word):
            gates = ops.gather(WORDS, ops.reshape(word, ONE), axis=0)
            i, o, _, _, u = ops.split(gates, axis=1)
            c = ops.sigmoid(i) * ops.tanh(u)
        case Operation(word, left, right):
            h1, c1 = encode(left)
            h2, c2 = encode(right)
            gates = ops.gather(WORDS, ops.reshape(word, ONE), axis=0)
            gates = gates + ops.concat(h1, h2, axis=1) @ CELL
            i, o, l, r, u = ops.split(gates, axis=1)
            c = ops.sigmoid(i) * ops.tanh(u) + (ops.sigmoid(l) * c1 + ops.sigmoid(r) * c2)
    return ops.sigmoid(o) * ops.tanh(c), c


@tenon.function
def probability(root: Tree) -> "f32[1, 10]":
    h, _ = encode(root)
    return ops.softmax(h @ DIGIT + BIAS, axis=1)


def tree(t: dict, node: int = 0) -> Tree:
    """An expression as objects."""
    if t["left"][node] < 0:
        return Number(int(t["word"][node]))
    left, right = (tree(t, int(t[side][node])) for side in ("left", "right"))
    return Operation(int(t["word"][node]), left, right)


def main() -> None:
    model = tenon.compile(probability, many=True)
    answers = model.session().run_many([{"root": tree(parse(text))} for text in sys.argv[1:]])
    for text, answer in zip(sys.argv[1:], answers):
        print(f"{text}: the last digit is {answer['result'].argmax()}")


if __name__ == "__main__":
    main()
