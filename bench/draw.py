#!/usr/bin/env python3
"""Draw inputs for a model of bench/zoo.

    draw.py NAME.inputs.json SET OUT.npz

The file is a list of sets of sizes; a set says of each input {"dtype": …, "shape": […], "fill": …}, where fill is
normal, normal:MEAN:STD, uniform, uniform:LOW:HIGH, ones, zeros, value:V, int:LOW:HIGH (without HIGH), arange:START
(along the last axis) or strings:A,B,C (or A|B|C, where these have commas: each element is one of them). "nan": PART
makes so many of the elements NaN. A set's inputs are seeded by their place, so they are the same everywhere.
"""
import json
import pathlib
import sys

import numpy as np


def numbers(law: str, at: list[str], shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    f32 = np.float32
    match law, at:
        case "normal", []:
            return rng.standard_normal(shape, dtype=f32)
        case "normal", [mean, std]:
            return rng.standard_normal(shape, dtype=f32) * f32(std) + f32(mean)
        case "uniform", []:
            return rng.random(shape, dtype=f32)
        case "uniform", [low, high]:
            return rng.random(shape, dtype=f32) * (f32(high) - f32(low)) + f32(low)
        case "ones" | "zeros", []:
            return np.full(shape, law == "ones")
        case "value", [v]:
            return np.full(shape, float(v))
        case "int", [low, high]:
            return rng.integers(int(low), int(high), shape)
        case "arange", [start]:
            return np.broadcast_to(np.arange(shape[-1]) + int(start), shape)
    raise ValueError(f"nobody knows how to draw {':'.join([law, *at])}")


def draw(spec: dict, seed: int) -> np.ndarray:
    rng, shape = np.random.default_rng(seed), tuple(spec["shape"])
    law, _, rest = spec["fill"].partition(":")
    if law == "strings":
        words = rest.split("|" if "|" in rest else ",")
        return np.array([words[i] for i in rng.integers(0, len(words), shape).ravel()], object).reshape(shape)
    values = np.array(numbers(law, rest.split(":") if rest else [], shape, rng), spec["dtype"])
    if spec.get("nan"):
        values[rng.random(shape) < spec["nan"]] = np.nan
    return values


def drawn(path: pathlib.Path) -> list[dict[str, np.ndarray]]:
    """The inputs by name, for each set of sizes."""
    sets = json.loads(path.read_text())
    return [{name: draw(spec, 1000 * k + i) for i, (name, spec) in enumerate(one.items())} for k, one in enumerate(sets)]


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    np.savez(sys.argv[3], **drawn(pathlib.Path(sys.argv[1]))[int(sys.argv[2])])
