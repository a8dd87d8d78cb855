#!/usr/bin/env python3
"""Give the weight-free graphs of bench/models their weights.

    fill.py OUT_DIR [NAME ...]      writes OUT_DIR/NAME.onnx for every (or each named) model that is not there yet

The graphs come from the real exporters. Of each large float initialiser they keep only the shape and,
in its doc_string, "fill MEAN STD": the distribution the exporter's framework initialises it from.
Weights are drawn from a generator seeded with the initialiser's index, so that the same file comes out
everywhere, and a clone needs 1 MB of graphs instead of 2 GB of weights.
"""
import pathlib
import sys

import numpy as np
import onnx

GRAPHS = pathlib.Path(__file__).parent / "models"


def fill(source: pathlib.Path, target: pathlib.Path) -> None:
    model = onnx.load(source)
    for index, tensor in enumerate(model.graph.initializer):
        if not tensor.doc_string.startswith("fill "):
            continue
        mean, std = map(float, tensor.doc_string.split()[1:])
        draw = np.random.default_rng(index).standard_normal(tuple(tensor.dims), dtype=np.float32)
        tensor.raw_data = (draw * np.float32(std) + np.float32(mean)).tobytes()
        tensor.ClearField("doc_string")
    part = target.with_suffix(".part")
    onnx.save(model, part)
    part.rename(target)


def filled(name: str, out: pathlib.Path) -> pathlib.Path:
    """The path of the filled model NAME in the folder OUT; made if it is not there or older than its graph."""
    source, target = GRAPHS / f"{name}.graph.onnx", out / f"{name}.onnx"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        out.mkdir(parents=True, exist_ok=True)
        fill(source, target)
    return target


def names() -> list[str]:
    return sorted(p.name.removesuffix(".graph.onnx") for p in GRAPHS.glob("*.graph.onnx"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for model in sys.argv[2:] or names():
        print(filled(model, pathlib.Path(sys.argv[1])))
