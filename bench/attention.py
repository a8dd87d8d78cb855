#!/usr/bin/env python3
"""Attention of 12 heads of 64 as one model, and as the three kernels that it is without fusion.

    attention.py FOLDER SEQ      writes FOLDER/attention_SEQ.onnx, and attention_SEQ_scores, _softmax, _values
"""
import pathlib
import sys

import numpy as np

from ops import Model

HEADS, SIZE = 12, 64


def whole(m, seq):
    q, k, v = (m.input(name, 1, HEADS, seq, SIZE) for name in "qkv")
    scores = m("MatMul", m("Mul", q, m.constant(np.float32(SIZE ** -0.5))), m("Transpose", k, perm=[0, 1, 3, 2]))
    return m("MatMul", m("Softmax", scores, axis=-1), v)


def scores(m, seq):
    q, k = (m.input(name, 1, HEADS, seq, SIZE) for name in "qk")
    return m("MatMul", m("Mul", q, m.constant(np.float32(SIZE ** -0.5))), m("Transpose", k, perm=[0, 1, 3, 2]))


def softmax(m, seq):
    return m("Softmax", m.input("scores", 1, HEADS, seq, seq), axis=-1)


def values(m, seq):
    return m("MatMul", m.input("p", 1, HEADS, seq, seq), m.input("v", 1, HEADS, seq, SIZE))


PARTS = (scores, softmax, values)


def build(seq: int, folder: pathlib.Path) -> tuple[pathlib.Path, list[pathlib.Path]]:
    paths = []
    for name, make in [("", whole)] + [("_" + f.__name__, f) for f in PARTS]:
        m, path = Model(), folder / f"attention_{seq}{name}.onnx"
        m.save(path, make(m, seq))
        paths.append(path)
    return paths[0], paths[1:]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    for path in [build(int(sys.argv[2]), pathlib.Path(sys.argv[1]))]:
        print(path[0], *path[1])
