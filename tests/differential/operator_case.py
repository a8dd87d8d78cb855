"""Random cases of single operators: what test_operators.py runs. A maker draws a Case from a generator of random numbers."""
from dataclasses import dataclass

import numpy as np

OPSET = 25


@dataclass(eq=False)
class Case:
    op: str
    inputs: list                     # (dtype, dims, how to draw), a constant array, or None
    attributes: dict
    outputs: int = 1
    domain: str = ""
    opset: int = OPSET
    least: dict | None = None        # smallest size of a dimension, 0 otherwise
    loose: float = 1e-4
    slow: bool = False               # in the reference, which walks every point: small sizes alone
    judge: str = "onnx"              # whose evaluator says what is right: onnx, or ort where that one can


MAKERS = {}                          # name of an operator -> function from a random generator to a Case


def operator(make):
    MAKERS[make.__name__.rstrip("_")] = make
    return make


def floats(*dims, how="normal", dtype="float32"):
    return dtype, dims, how


def pick(r, *choices):
    return choices[r.integers(len(choices))]
