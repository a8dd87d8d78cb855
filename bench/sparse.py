"""Attention under masks: how much of the time of a dense one each takes, against the share of 16 x 16 tiles that its mask shows.

Each model is softmax(q k^T + mask) v of 12 heads of 64 with the mask as exporters store it, a constant [n, n]. The dense
model is the same without a mask, and takes turns with each. ONNX Runtime runs the same file.
"""
import pathlib
import statistics

import numpy as np

from measure import Bench
from ops import Model

HEADS, SIZE = 12, 64
LENGTHS = (128, 1000, 1024, 4096)
PEER_LENGTH = 1024                           # at which ONNX Runtime takes part
MOST, OVERHEAD_MS = 1.15, 0.3                # time over share * dense + overhead
AIM = 1.05


def documents(i, j):
    ends = np.cumsum(np.random.default_rng(3).integers(len(i) // 16 + 1, len(i) // 4 + 2, 32))
    return np.searchsorted(ends, i, "right") == np.searchsorted(ends, j, "right")


def big_bird(i, j):
    """Blocks of 64: three around the diagonal, two for all, three at random."""
    blocks, n = (len(i) + 63) // 64, len(i)
    a, b = np.mgrid[:blocks, :blocks]
    seen = (abs(a - b) <= 1) | (a < 2) | (b < 2)
    for row, columns in enumerate(np.random.default_rng(5).integers(0, blocks, (blocks, 3))):
        seen[row, columns] = True
    return np.repeat(np.repeat(seen, 64, 0), 64, 1)[:n, :n]


def random_blocks(i, j):
    blocks, n = (len(i) + 31) // 32, len(i)
    seen = np.random.default_rng(7).random((blocks, blocks)) < 0.1
    return np.repeat(np.repeat(seen | np.eye(blocks, dtype=bool), 32, 0), 32, 1)[:n, :n]


def tree(i, j):
    """A binary tree of drafts, level behind level: each node sees the way to the root."""
    seen = np.eye(len(i), dtype=bool)
    for row in range(1, len(i)):
        seen[row] |= seen[(row - 1) // 2]
    return seen


def root(i):
    return int(len(i) ** 0.5)


MASKS = {                                    # by rows i [n, 1] and keys j [1, n]
    "causal": lambda i, j: j <= i,
    "causal window 64": lambda i, j: (j <= i) & (j > i - 64),
    "window sqrt n": lambda i, j: abs(i - j) <= root(i),
    "longformer sqrt n": lambda i, j: (abs(i - j) <= root(i)) | (i < root(i)) | (j < root(i)),
    "longformer 256 + 1": lambda i, j: (abs(i - j) <= 256) | (i < 1) | (j < 1),
    "bigbird 64": big_bird,
    "prefix n / 4, causal": lambda i, j: (j <= i) | (j < len(i) // 4),
    "documents": documents,
    "random 32-blocks": random_blocks,
    "tree": tree,
}


def seen_of(name: str, n: int) -> np.ndarray:
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    return np.broadcast_to(MASKS[name](i, j), (n, n))


def share_of(seen: np.ndarray) -> float:
    """Of tiles of 16 x 16 that show something."""
    n = len(seen)
    padded = np.zeros(((n + 15) // 16 * 16,) * 2, bool)
    padded[:n, :n] = seen
    return padded.reshape(len(padded) // 16, 16, -1, 16).any((1, 3)).mean()


def attention(path: pathlib.Path, n: int, seen: np.ndarray | None) -> pathlib.Path:
    m = Model()
    q, k, v = (m.input(name, 1, HEADS, n, SIZE) for name in "qkv")
    scores = m("Mul", m("MatMul", q, m("Transpose", k, perm=[0, 1, 3, 2])), m.constant(np.float32(SIZE ** -0.5)))
    if seen is not None:
        scores = m("Add", scores, m.constant(np.where(seen, 0, -np.inf).astype(np.float32)))
    m.save(path, m("MatMul", m("Softmax", scores, axis=-1), v))
    return path


def sparse(bench: Bench, names: list[str], threads: int) -> None:
    bench.table.head(f"attention under masks, {threads} thread{'s'[:threads - 1]}", "Tenon ms", "dense ms", "share of tiles", "ONNX Runtime", "time over allowed")
    for n in LENGTHS:
        dense = attention(bench.folder / f"dense_{n}.onnx", n, None)
        dense_so, data = bench.prepare(dense)
        for name in MASKS:
            what = f"{name}, n {n}"
            if names and not any(what.startswith(w) for w in names):
                continue
            seen = seen_of(name, n)
            model = attention(bench.folder / f"{'_'.join(name.replace('/', '').replace(',', '').split())}_{n}.onnx", n, seen)
            try:
                peer = None
                if n == PEER_LENGTH:
                    times = bench.race(model, threads, ["onnxruntime"], check=True)
                    peer = statistics.median(times["onnxruntime"])
                so, own = bench.prepare(model)
                pairs = [(bench.tenon(so, own, threads)["median_ms"], bench.tenon(dense_so, data, threads)["median_ms"]) for _ in range(bench.rounds)]
            except RuntimeError as error:
                bench.table.fail(what, str(error))
                continue
            ours, whole, share = statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs), share_of(seen)
            over = ours / (share * whole + OVERHEAD_MS)
            bench.table.add(what, [f"{ours:.3f}", f"{whole:.3f}", f"{share:.3f}", f"{peer:.3f}" if peer else "", f"{over:.2f}"],
                            dict(threads=threads, n=n, tenon_ms=ours, dense_ms=whole, share=share, onnxruntime_ms=peer), over, MOST, AIM, most=True)
            bench.forget(model)
        bench.forget(dense)
