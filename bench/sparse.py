"""Attention under masks: how much of the time of a dense one each takes, against the share of
16 x 16 tiles that its mask shows, and a little more (overhead_ms).

Each model is softmax(q k^T + mask) v with the mask as exporters store it: a constant [n, n] that
is added, a bool for each head that chooses, tokens of a padded batch. Heads that share keys are
ONNX's Attention. The dense model is the same without the mask, and takes turns with each. ONNX
Runtime runs the same file. FlexAttention, where torch is installed (requirements-torch.txt), takes
turns under masks whose names do not say causal; its mask of blocks is made of the same bools before
the clock starts. Before any of them is timed the compiled mask is held against the one whose share
is counted.
"""
import dataclasses
import importlib.util
import json
import pathlib
import re
import statistics

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from measure import TENON, Bench, geomean, quiet
from ops import Model

HEADS, SIZES = [(12, 12)], [64]              # of queries and of keys
LENGTHS, QUICK_LENGTHS = (128, 1000, 1024, 4096), (128, 1024)
PEER_LENGTH = 1024                           # at which ONNX Runtime takes part
MOST, OVERHEAD_MS = 1.15, 0.3                # time over share * dense + overhead, at least
AIM = 1.05
FLEX_FLOOR, FLEX_AIM = 1.7, 2.5              # FlexAttention's time over Tenon's, the geometric mean
HIDES = -9000.0                              # from here down: exporters write -10000
EXACT = 2e-5                                 # of the largest value; a key of 4096 is ten times that


def documents(i, j, seed=3):
    ends = np.cumsum(np.random.default_rng(seed).integers(len(i) // 16 + 1, len(i) // 4 + 2, 32))
    return np.searchsorted(ends, i, "right") == np.searchsorted(ends, j, "right")


def big_bird(i, j):
    """Blocks of 64: three around the diagonal, two for all, three at random."""
    blocks, n = (len(i) + 63) // 64, len(i)
    a, b = np.mgrid[:blocks, :blocks]
    seen = (abs(a - b) <= 1) | (a < 2) | (b < 2)
    for row, columns in enumerate(np.random.default_rng(5).integers(0, blocks, (blocks, 3))):
        seen[row, columns] = True
    return np.repeat(np.repeat(seen, 64, 0), 64, 1)[:n, :n]


def random_blocks(i, j, seed=7):
    blocks, n = (len(i) + 31) // 32, len(i)
    seen = np.random.default_rng(seed).random((blocks, blocks)) < 0.1
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


PER_HEAD = {                                 # and by a head
    "blocks per head": lambda i, j, head: random_blocks(i, j, head),
    "window per head": lambda i, j, head: abs(i - j) <= 16 << head % 5,
}
PER_TEXT = {                                 # of a batch of two
    "documents per batch": lambda i, j, text: documents(i, j, text),
    "lengths per batch": lambda i, j, text: (j < len(i) // (1 + 2 * text)) & (i >= 0),
}
ALIBI = "ALiBi + causal"
NAMES = [*MASKS, *PER_HEAD, *PER_TEXT, ALIBI]


@dataclasses.dataclass(frozen=True)
class Shape:
    """Of an attention: `heads` of queries, `shared` of keys and values."""
    n: int
    heads: int
    shared: int
    size: int
    batch: int = 1

    def __str__(self):
        return f"{self.batch}_{self.heads}_{self.shared}_{self.size}_{self.n}"


@dataclasses.dataclass(frozen=True)
class Mask:
    """seen: bool [batch or 1, heads or 1, n, n]; bias: added to scores as well, [heads, 1, n]."""
    seen: np.ndarray
    bias: np.ndarray | None = None
    given: bool = False                      # as tokens [batch, n] of each run

    def pairs(self, s: Shape) -> int:
        """Of rows and keys that see each other, in all heads of all texts."""
        return int(self.seen.sum()) * (s.batch * s.heads // np.prod(self.seen.shape[:2]))


def mask_of(name: str, s: Shape) -> Mask:
    i, j = np.arange(s.n)[:, None], np.arange(s.n)[None, :]
    if name in PER_HEAD:
        return Mask(np.stack([PER_HEAD[name](i, j, head) for head in range(s.heads)])[None])
    if name in PER_TEXT:
        seen = np.stack([PER_TEXT[name](i, j, text) for text in range(s.batch)])[:, None]
        return Mask(seen, given=name.startswith("lengths"))
    if name == ALIBI:
        slopes = 2.0 ** (-8 * np.arange(1, s.heads + 1) / s.heads)
        return Mask((j <= i)[None, None], (slopes[:, None, None] * j).astype(np.float32))
    return Mask(np.broadcast_to(MASKS[name](i, j), (1, 1, s.n, s.n)))


def share_of(seen: np.ndarray) -> float:
    """Of tiles of 16 x 16 that show something."""
    n, tiles = seen.shape[-1], (seen.shape[-1] + 15) // 16
    padded = np.zeros((*seen.shape[:2], 16 * tiles, 16 * tiles), bool)
    padded[..., :n, :n] = seen
    return float(padded.reshape(-1, tiles, 16, tiles, 16).any((2, 4)).mean())


def attention(path: pathlib.Path, s: Shape, mask: Mask | None, bias=None) -> pathlib.Path:
    m = Model()
    q = m.input("q", s.batch, s.heads, s.n, s.size)
    k, v = (m.input(name, s.batch, s.shared, s.n, s.size) for name in "kv")
    seen, low = None, None                   # what chooses; what is added
    if mask and mask.given:
        tokens = m.input("mask", s.batch, s.n, dtype=TensorProto.INT64)
        kept = m("Cast", m("Unsqueeze", tokens, m.constant(np.array([1, 2]))), to=TensorProto.FLOAT)
        hidden = m("Sub", m.constant(np.float32(1)), kept)
        low = m("Mul", hidden, m.constant(np.finfo(np.float32).min))
    elif mask and mask.seen.shape[1] > 1:
        seen = m.constant(mask.seen)
    elif mask:
        plain = mask.seen if len(mask.seen) > 1 else mask.seen[0, 0]
        low = m.constant(np.where(plain, 0, -np.inf).astype(np.float32))
    if bias is not None:
        slope = m.constant(bias[None])
        low = m("Add", slope, low) if low else slope
    if s.heads != s.shared:
        if mask and mask.given:              # ONNX Runtime's Attention takes masks of all rows
            low = m("Expand", low, m.constant(np.array([s.batch, 1, s.n, s.n])))
        m.save(path, m("Attention", q, k, v, *filter(None, [seen or low]), scale=s.size ** -0.5))
        return path
    scores = m("MatMul", q, m("Transpose", k, perm=[0, 1, 3, 2]))
    scores = m("Mul", scores, m.constant(np.float32(s.size ** -0.5)))
    scores = m("Add", scores, low) if low else scores
    scores = m("Where", seen, scores, m.constant(np.float32(-np.inf))) if seen else scores
    m.save(path, m("MatMul", m("Softmax", scores, axis=-1), v))
    return path


def pairs_in(model: pathlib.Path, s: Shape, data: pathlib.Path) -> int:
    """The pairs that the file's own mask shows, or the tokens that it is given."""
    if (data / "mask.npy").exists():
        return int(np.load(data / "mask.npy").sum()) * s.heads * s.n
    for constant in onnx.load(model).graph.initializer:
        mask = numpy_helper.to_array(constant)
        if mask.shape[-2:] == (s.n, s.n):
            shown = mask if mask.dtype == bool else mask > HIDES
            return int(shown.sum()) * (s.batch * s.heads * s.n * s.n // mask.size)
    return 0


def softmax_of(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def check(bench: Bench, so: pathlib.Path, data: pathlib.Path, s: Shape, mask: Mask) -> None:
    """The artefact against float64: with the queries that are timed, and with zeros, where all keys
    that are seen count alike."""
    q, k, v = (np.load(data / f"{name}.npy").astype(np.float64) for name in "qkv")
    output = json.loads(quiet(TENON, "inspect", so, "--json"))["outputs"][0]["name"]
    given = bench.folder / "queries.npy"
    for queries in (q, np.zeros_like(q)):
        np.save(given, queries.astype(np.float32))
        words = [w.replace(str(data / "q.npy"), str(given)) for w in bench.inputs(data)]
        quiet(TENON, "run", so, *words, "--output-dir", bench.folder)
        got = np.load(bench.folder / f"{output}.npy")
        for b, h in np.ndindex(s.batch, s.heads):
            keys = h * s.shared // s.heads
            scores = queries[b, h] @ k[b, keys].T * s.size ** -0.5
            if mask.bias is not None:
                scores += mask.bias[h]
            seen = mask.seen[b % len(mask.seen), h % mask.seen.shape[1]]
            want = softmax_of(np.where(seen, scores, -np.inf)) @ v[b, keys]
            off = abs(got[b, h] - want).max()
            if not off <= EXACT * abs(v).max():
                raise RuntimeError(f"head {h} of text {b} is {off:.1e} off what its mask shows")


def overhead_ms(facts: dict[str, float], s: Shape) -> float:
    """What a mask may cost besides its share of the dense time: OVERHEAD_MS, or the time in which
    q, k, v come from memory and the result goes there, if they are larger than the last cache."""
    row = 4 * s.batch * s.n * s.size
    read, written = row * (s.heads + 2 * s.shared), row * s.heads
    if read + written <= facts["l3.bytes"]:
        return OVERHEAD_MS
    return max(OVERHEAD_MS,
               1e3 * (read / facts["memory.read"] + written / facts["memory.write"]))


def peers_of(name: str, s: Shape) -> list[str]:
    flex = importlib.util.find_spec("torch") and "causal" not in name
    return ["onnxruntime"] * (s.n == PEER_LENGTH) + ["flexattention"] * bool(flex)


def row(bench: Bench, name: str, s: Shape, threads: int, ratios: list[float]) -> None:
    """ratios: FlexAttention's time over Tenon's is added."""
    what, mask = f"{name}, n {s.n}", mask_of(name, s)
    file = "_".join(re.findall("[A-Za-z0-9]+", name))
    model = attention(bench.folder / f"{file}_{s}.onnx", s, mask, mask.bias)
    kind = "dense" if mask.bias is None else "dense_bias"
    dense = attention(bench.folder / f"{kind}_{s}.onnx", s, None, mask.bias)
    data, engines, peer, flex = bench.data_of(model), peers_of(name, s), None, None
    if mask.given:
        np.save(data / "mask.npy", mask.seen[:, 0, 0].astype(np.int64))
    try:
        stored = pairs_in(model, s, data)
        if stored != mask.pairs(s):
            raise RuntimeError(f"{stored} pairs are in the model, the share is of {mask.pairs(s)}")
        so, _ = bench.prepare(model)
        check(bench, so, data, s, mask)
        if "flexattention" in engines:
            np.savez(model.with_suffix(".npz"), seen=mask.seen, pairs=mask.pairs(s))
        if engines:
            times = bench.race(model, threads, engines, check=True)
            if times["why"]:
                raise RuntimeError(" ".join(times["why"].values()))
            peer, flex = (statistics.median(times[e]) if e in engines else None
                          for e in ("onnxruntime", "flexattention"))
            if flex:
                ratios.append(flex / statistics.median(times["tenon"]))
        dense_so, dense_data = bench.prepare(dense)
        pairs = [(bench.tenon(so, data, threads)["median_ms"],
                  bench.tenon(dense_so, dense_data, threads)["median_ms"])
                 for _ in range(bench.rounds)]
    except RuntimeError as error:
        bench.table.fail(what, str(error))
        return
    finally:
        bench.forget(model)
        model.unlink()
        model.with_suffix(".npz").unlink(missing_ok=True)
    ours, whole = (statistics.median(times) for times in zip(*pairs))
    share = share_of(mask.seen)
    more = overhead_ms(bench.facts(), s)
    over = ours / (share * whole + more)
    cells = [f"{ours:.3f}", f"{whole:.3f}", f"{share:.3f}", f"{more:.2f}", f"{peer:.3f}" if peer else "",
             f"{flex:.3f}" if flex else "", f"{over:.2f}"]
    numbers = dict(threads=threads, tenon_ms=ours, dense_ms=whole, share=share, more_ms=more,
                   onnxruntime_ms=peer, flexattention_ms=flex)
    bench.table.add(what, cells, numbers | dataclasses.asdict(s), over, MOST, AIM, most=True)


def sparse(bench: Bench, names: list[str], threads: int, heads, sizes, lengths) -> None:
    """A table for each of heads (of queries, of keys) and sizes; None: the usual ones."""
    if not importlib.util.find_spec("torch"):
        bench.table.say("without FlexAttention: bench/requirements-torch.txt is not installed")
    for queries, keys in heads or HEADS:
        for size in sizes or SIZES:
            title = f"masks, {queries}/{keys} x {size}, {threads} thread{'s'[:threads - 1]}"
            bench.table.head(title, "Tenon ms", "dense ms", "share of tiles", "more ms",
                             "ONNX Runtime", "FlexAttention ms", "over allowed")
            ratios = []
            for n in lengths or (QUICK_LENGTHS if bench.quick else LENGTHS):
                for name in NAMES:
                    if names and not any(f"{name}, n {n}".startswith(w) for w in names):
                        continue
                    batch = 2 if name in PER_TEXT else 1
                    row(bench, name, Shape(n, queries, keys, size, batch), threads, ratios)
                for dense in bench.folder.glob("dense_*.onnx"):
                    bench.forget(dense)
            if ratios:
                mean = geomean(ratios)
                bench.table.add("FlexAttention over Tenon", [*[""] * 5, f"{mean:.3f}", ""],
                                dict(threads=threads, geomean=mean), mean, FLEX_FLOOR, FLEX_AIM)
