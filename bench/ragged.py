"""Padded batches computed for their tokens alone: how much of the padding's work is saved, for the lengths of eight sets of texts.

The model is two layers of a BERT-base encoder with an additive mask, as exporters write it. Tenon compiles it as it is and with --ragged;
both take turns, with ONNX Runtime beside. Lengths are drawn from the quantiles of data sets that the CoRa paper uses.
"""
import pathlib
import statistics

import numpy as np
from onnx import TensorProto

from measure import Bench, geomean
from ops import Model

WIDE, HEADS, SIZE, INNER, LAYERS = 768, 12, 64, 3072, 2
FLOOR, AIM = 0.9, 1.0                        # of the ratio of operations, harvested
EQUAL_FLOOR, EQUAL_AIM = 1.03, 1.0           # all lengths equal: ragged over padded
AT = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)
SETS = {                                     # lengths at these percentiles
    "RACE": (15, 115, 170, 210, 294, 374, 438, 502, 512, 512, 512, 512),
    "Wiki512": (5, 24, 51, 75, 189, 512, 512, 512, 512, 512, 512, 512),
    "SQuAD2": (37, 61, 93, 119, 144, 177, 226, 289, 334, 384, 384, 384),
    "Wiki128": (7, 28, 50, 66, 126, 128, 128, 128, 128, 128, 128, 128),
    "MNLI": (5, 12, 17, 21, 29, 41, 54, 69, 80, 108, 128, 128),
    "XNLI": (5, 13, 20, 26, 41, 66, 98, 128, 128, 128, 128, 128),
    "MRPC": (20, 30, 36, 40, 48, 59, 70, 78, 84, 92, 104, 112),
    "CoLA": (4, 6, 7, 8, 10, 12, 15, 19, 22, 28, 36, 48),
    "equal": (128,) * 12,
}
BATCHES = (8, 32)


def encoder(path: pathlib.Path) -> pathlib.Path:
    m = Model()
    x = m.input("x", "batch", "seq", WIDE)
    mask = m("Cast", m("Unsqueeze", m.input("mask", "batch", "seq", dtype=TensorProto.INT64), m.constant(np.array([1, 2]))), to=1)
    hide = m("Mul", m("Sub", m.constant(np.float32(1)), mask), m.constant(np.float32(np.finfo("f4").min)))

    def product(x, n, k):
        return m("Add", m("MatMul", x, m.weight(n, k)), m.weight(k))

    def heads(x, order):
        return m("Transpose", m("Reshape", product(x, WIDE, WIDE), m.constant(np.array([0, 0, HEADS, SIZE]))), perm=order)

    def norm(x):
        return m("LayerNormalization", x, m.weight(WIDE), m.weight(WIDE))

    for _ in range(LAYERS):
        scores = m("Mul", m("MatMul", heads(x, [0, 2, 1, 3]), heads(x, [0, 2, 3, 1])), m.constant(np.float32(SIZE ** -0.5)))
        y = m("MatMul", m("Softmax", m("Add", scores, hide), axis=-1), heads(x, [0, 2, 1, 3]))
        y = m("Reshape", m("Transpose", y, perm=[0, 2, 1, 3]), m.constant(np.array([0, 0, WIDE])))
        x = norm(m("Add", x, product(y, WIDE, WIDE)))
        x = norm(m("Add", x, product(m("Relu", product(x, WIDE, INNER)), INNER, WIDE)))
    m.save(path, x)
    return path


def operations(lengths: np.ndarray) -> float:
    return float((2 * lengths * WIDE * (4 * WIDE + 2 * INNER) + 4 * lengths.astype(float) ** 2 * WIDE).sum())


def ragged(bench: Bench, names: list[str], threads: int) -> None:
    model = encoder(bench.folder / "encoder.onnx")
    data, gains = bench.folder / "encoder", []
    data.mkdir(exist_ok=True)
    bench.table.head(f"two encoder layers without padding, {threads} thread{'s'[:threads - 1]}", "ragged ms", "padded ms", "ONNX Runtime", "operations", "harvested")
    for batch in BATCHES:
        for name, quantiles in SETS.items():
            what = f"{name}, batch {batch}"
            if names and not any(what.startswith(w) for w in names):
                continue
            rng = np.random.default_rng(11)
            lengths = np.interp(rng.random(batch) * 100, AT, quantiles).round().astype(int)
            mask = (np.arange(lengths.max())[None] < lengths[:, None]).astype("i8")
            np.save(data / "mask.npy", mask)
            np.save(data / "x.npy", rng.standard_normal((*mask.shape, WIDE), dtype="f4"))
            try:
                times = bench.race(model, threads, ["onnxruntime"])
                padded, _ = bench.prepare(model)
                packed, _ = bench.prepare(model, "--ragged", "mask", "--dim-hint", "batch=8,32", "--dim-hint", "seq=64,128,512")
                pairs = [(bench.tenon(packed, data, threads)["median_ms"], bench.tenon(padded, data, threads)["median_ms"]) for _ in range(bench.rounds)]
            except RuntimeError as error:
                bench.table.fail(what, str(error))
                continue
            ours, whole, peer = statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs), statistics.median(times["onnxruntime"])
            ratio = operations(np.full(batch, lengths.max())) / operations(lengths)
            equal = name == "equal"
            value = ours / whole if equal else whole / ours / ratio
            gains += [] if equal else [peer / ours]
            bench.table.add(what, [f"{ours:.1f}", f"{whole:.1f}", f"{peer:.1f}", f"{ratio:.2f}", f"{value:.2f}"],
                            dict(threads=threads, batch=batch, ragged_ms=ours, padded_ms=whole, onnxruntime_ms=peer, ratio=ratio, harvested=value),
                            value, EQUAL_FLOOR if equal else FLOOR, EQUAL_AIM if equal else AIM, most=equal)
    if gains:
        bench.table.add("to ONNX Runtime, geometric mean", ["", "", "", "", f"{geomean(gains):.2f}"], dict(threads=threads, onnxruntime=geomean(gains)), geomean(gains), 1.6, 1.9)
