#!/usr/bin/env python3
"""Give graphs without weights their weights.

    fill.py OUT_DIR [NAME ...]      writes OUT_DIR/NAME.onnx for every (or each named) model that is not there yet

The graphs, of bench/models and bench/zoo, come from the real exporters. Of each large tensor, be it an initialiser or
the value of a Constant, in whatever branch or loop, they keep only type and shape and, in its doc_string, how to draw it:

    fill MEAN STD                       f32, normal
    fill TYPE normal MEAN STD           as numpy calls the type, or bfloat16, int4, uint4; integers are rounded to fit
    fill TYPE uniform LOW HIGH          floats up to HIGH, integers including it

Weights are drawn from a generator seeded with the tensor's number, so that the same file comes out everywhere, and a
clone needs 8 MB of graphs instead of 4 GB of weights.
"""
import pathlib
import sys

import numpy as np
import onnx

HERE = pathlib.Path(__file__).parent
GRAPHS, ZOO = HERE / "models", HERE / "zoo"


def nested(graph: onnx.GraphProto):
    """The graphs that nodes of GRAPH run, each before what it runs itself."""
    for node in graph.node:
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield inner
                yield from nested(inner)


def tensors(graph: onnx.GraphProto):
    """All tensors in the order of their numbers: of each graph, the outermost first, the initialisers and then the constants."""
    for each in (graph, *nested(graph)):
        yield from each.initializer
        yield from (a.t for node in each.node if node.op_type == "Constant" for a in node.attribute if a.HasField("t"))


def pack_nibbles(values: np.ndarray) -> np.ndarray:
    """Two to a byte, the first one low."""
    flat = values.astype(np.int8).ravel().view(np.uint8) & 15
    pairs = np.append(flat, np.zeros(flat.size % 2, np.uint8)).reshape(-1, 2)
    return pairs[:, 0] | pairs[:, 1] << 4


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint32)
    nearest_even = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return ((bits + nearest_even) >> np.uint32(16)).astype(np.uint16)


def draw(recipe: list[str], shape: tuple[int, ...], seed: int) -> bytes:
    kind, law, a, b = recipe if len(recipe) == 4 else ["float32", "normal", *recipe]
    rng, real = np.random.default_rng(seed), kind == "bfloat16" or kind.startswith("float")
    if law == "normal":
        values = rng.standard_normal(shape, dtype=np.float32) * np.float32(b) + np.float32(a)
    elif law == "uniform" and real:
        values = rng.random(shape, dtype=np.float32) * np.float32(float(b) - float(a)) + np.float32(a)
    elif law == "uniform":
        values = rng.integers(int(a), int(b) + 1, shape)
    else:
        raise ValueError(f"nobody knows how to draw {' '.join(recipe)}")
    if kind == "bfloat16":
        return to_bfloat16(values).tobytes()
    if kind.endswith("int4"):
        least = 0 if kind[0] == "u" else -8
        return pack_nibbles(np.rint(values).clip(least, least + 15)).tobytes()
    if not real:
        values = np.rint(values).clip(np.iinfo(kind).min, np.iinfo(kind).max)
    return values.astype(kind).tobytes()


def fill(source: pathlib.Path, target: pathlib.Path) -> None:
    model = onnx.load(source)
    for number, tensor in enumerate(tensors(model.graph)):
        if tensor.doc_string.startswith("fill "):
            tensor.raw_data = draw(tensor.doc_string.split()[1:], tuple(tensor.dims), number)
            tensor.ClearField("doc_string")
    part = target.with_suffix(".part")
    onnx.save(model, part)
    part.rename(target)


def filled(name: str, out: pathlib.Path) -> pathlib.Path:
    """The path of the filled model NAME in the folder OUT; made if it is not there or older than its graph."""
    source = next(p for p in (folder / f"{name}.graph.onnx" for folder in (GRAPHS, ZOO)) if p.exists())
    target = out / f"{name}.onnx"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        out.mkdir(parents=True, exist_ok=True)
        fill(source, target)
    return target


def names(*folders: pathlib.Path) -> list[str]:
    return sorted(p.name.removesuffix(".graph.onnx") for folder in folders for p in folder.glob("*.graph.onnx"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for model in sys.argv[2:] or names(GRAPHS, ZOO):
        print(filled(model, pathlib.Path(sys.argv[1])))
