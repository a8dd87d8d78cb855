"""Padded batches computed for their tokens alone: how much of the padding's work is saved, for the
lengths of eight sets of texts.

The model is two layers of a BERT-base encoder with an additive mask, as exporters write it. Tenon
compiles it as it is and with --ragged; both take turns with ONNX Runtime's sorted micro-batches,
and ONNX Runtime on the whole batch is beside. Lengths are drawn from the quantiles of data sets
that the CoRa paper uses. What is harvested is the speed-up over padded, by the ratio of operations.
"""
import pathlib
import statistics

import numpy as np
from onnx import TensorProto

from measure import Bench, Peer, geomean
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
MICRO = 16
HINTS = ("--dim-hint", "batch=8,32,128", "--dim-hint", "seq=64,128,512")
TABLES = ("token_count", "neither", "upto", "row", "column", "place", "sees", "seen", "used")


def encoder(path: pathlib.Path) -> pathlib.Path:
    m = Model()
    x = m.input("x", "batch", "seq", WIDE)
    mask = m.input("mask", "batch", "seq", dtype=TensorProto.INT64)
    mask = m("Cast", m("Unsqueeze", mask, m.constant(np.array([1, 2]))), to=1)
    lowest = m.constant(np.float32(np.finfo("f4").min))
    hide = m("Mul", m("Sub", m.constant(np.float32(1)), mask), lowest)

    def product(x, n, k):
        return m("Add", m("MatMul", x, m.weight(n, k)), m.weight(k))

    def heads(x, order):
        shape = m.constant(np.array([0, 0, HEADS, SIZE]))
        return m("Transpose", m("Reshape", product(x, WIDE, WIDE), shape), perm=order)

    def norm(x):
        return m("LayerNormalization", x, m.weight(WIDE), m.weight(WIDE))

    for _ in range(LAYERS):
        scores = m("MatMul", heads(x, [0, 2, 1, 3]), heads(x, [0, 2, 3, 1]))
        scores = m("Mul", scores, m.constant(np.float32(SIZE ** -0.5)))
        y = m("MatMul", m("Softmax", m("Add", scores, hide), axis=-1), heads(x, [0, 2, 1, 3]))
        y = m("Reshape", m("Transpose", y, perm=[0, 2, 1, 3]), m.constant(np.array([0, 0, WIDE])))
        x = norm(m("Add", x, product(y, WIDE, WIDE)))
        x = norm(m("Add", x, product(m("Relu", product(x, WIDE, INNER)), INNER, WIDE)))
    m.save(path, x)
    return path


def operations(lengths: np.ndarray) -> float:
    linear, square = 2 * lengths * WIDE * (4 * WIDE + 2 * INNER), lengths.astype(float) ** 2
    return float((linear + 4 * square * WIDE).sum())


def save_batch(folder: pathlib.Path, x: np.ndarray, lengths: np.ndarray) -> None:
    """Inputs of the sequences x[b, :lengths[b]], padded to the longest."""
    folder.mkdir(exist_ok=True)
    longest = max(int(lengths.max()), 1)
    np.save(folder / "mask.npy", (np.arange(longest)[None] < lengths[:, None]).astype("i8"))
    np.save(folder / "x.npy", np.ascontiguousarray(x[:, :longest]))


class MicroBatches:
    """ONNX Runtime as one uses it without a compiler for ragged batches: sequences sorted by
    length, MICRO at a time, each such batch padded to its own longest."""

    def __init__(self, bench: Bench, model, data: pathlib.Path, x, lengths, threads: int):
        order = np.argsort(lengths, kind="stable")
        self.peers = []
        for i in range(0, len(order), MICRO):
            some = order[i:i + MICRO]
            folder = data / f"micro-{i // MICRO}"
            save_batch(folder, x[some], lengths[some])
            peer = Peer("onnxruntime", model, folder, threads, bench.pin_to(threads))
            if peer.why:
                self.end()
                raise RuntimeError(peer.why)
            self.peers.append(peer)

    def time(self, seconds: float) -> float:
        """Of all of them, one after the other."""
        share = seconds / len(self.peers)
        return sum(statistics.median(p.times(1, share)) for p in self.peers)

    def end(self) -> None:
        for p in self.peers:
            p.end()


def prelude(bench: Bench, so: pathlib.Path, data: pathlib.Path, threads: int) -> float:
    """The share of a run in which tables are made: where tokens are, and which blocks are seen. A
    kernel that packs an input beside is none of them: a table is nothing against that."""
    said = bench.tenon(so, data, threads, "--profile", "--warmup", "3", "--iterations", "10")
    return sum(k["share"] for k in said["kernels"]
               if k["name"].startswith(TABLES) and "packed" not in k["name"])


def ragged(bench: Bench, names: list[str], threads: int, batches: list[int] | None) -> None:
    model = encoder(bench.folder / "encoder.onnx")
    data, gains, micro_gains = bench.folder / "encoder", [], []
    data.mkdir(exist_ok=True)
    bench.table.head(f"two encoder layers without padding, {threads} thread{'s'[:threads - 1]}",
                     "ragged ms", "padded ms", "ONNX Runtime", f"in sorted {MICRO}s", "operations",
                     "prelude", "harvested")
    for batch in batches or BATCHES:
        for name, quantiles in SETS.items():
            what = f"{name}, batch {batch}"
            if names and not any(what.startswith(w) for w in names):
                continue
            rng = np.random.default_rng(11)
            lengths = np.interp(rng.random(batch) * 100, AT, quantiles).round().astype(int)
            x = rng.standard_normal((batch, lengths.max(), WIDE), dtype="f4")
            save_batch(data, x, lengths)
            micro = None
            try:
                times = bench.race(model, threads, ["onnxruntime"])
                micro = MicroBatches(bench, model, data, x, lengths, threads)
                padded, _ = bench.prepare(model)
                packed, _ = bench.prepare(model, "--ragged", "mask", *HINTS)
                turns = [(bench.tenon(packed, data, threads)["median_ms"],
                          bench.tenon(padded, data, threads)["median_ms"],
                          micro.time(bench.seconds)) for _ in range(bench.rounds)]
                tables = prelude(bench, packed, data, threads)
            except RuntimeError as error:
                bench.table.fail(what, str(error))
                continue
            finally:
                if micro:
                    micro.end()
            ours, whole, sorted_ = (statistics.median(t) for t in zip(*turns))
            peer = statistics.median(times["onnxruntime"])
            ratio = operations(np.full(batch, lengths.max())) / operations(lengths)
            equal = name == "equal"
            value = ours / whole if equal else whole / ours / ratio
            gains += [] if equal else [peer / ours]
            micro_gains += [] if equal else [sorted_ / ours]
            bench.table.add(what, [f"{ours:.1f}", f"{whole:.1f}", f"{peer:.1f}", f"{sorted_:.1f}",
                                   f"{ratio:.2f}", f"{100 * tables:.2f} %", f"{value:.2f}"],
                            dict(threads=threads, batch=batch, ragged_ms=ours, padded_ms=whole,
                                 onnxruntime_ms=peer, microbatches_ms=sorted_, ratio=ratio,
                                 prelude=tables, harvested=value),
                            value, EQUAL_FLOOR if equal else FLOOR, EQUAL_AIM if equal else AIM,
                            most=equal)
    for peer, some, floor, aim in (("ONNX Runtime", gains, 1.6, 1.9),
                                   (f"its sorted {MICRO}s", micro_gains, 1.0, 1.2)):
        if some:
            gain = geomean(some)
            key = "onnxruntime" if some is gains else "microbatches"
            bench.table.add(f"to {peer}, geometric mean", [""] * 6 + [f"{gain:.2f}"],
                            {"threads": threads, key: gain}, gain, floor, aim)
