"""What masks that hide most of an attention are worth in a whole net.

A BERT-base layer of 1,024 or 4,096 tokens under a constant mask, beside ONNX Runtime and OpenVINO,
which compute what it hides; and the first step of two decoders, 1,024 tokens at once, with and
without (`--exact`) leaving out what the causal mask hides. The bound counts multiply-adds alone.
"""
import pathlib
import statistics

import numpy as np

from measure import PEERS, Bench
from nets import gelu, layer_norm, linear
from ops import Model
from sparse import MASKS, share_of

WIDE, HEADS, INNER = 768, 12, 3072
LAYERS = {"bigbird 64": 1.7, "longformer 256 + 1": 1.86}     # the aim at 4,096 tokens
FLOOR = 1.5                                  # there; of a bound below it 0.9 of the bound
LENGTHS = 1024, 4096
TOKENS, WORDS, HARVEST = 1024, 30000, 0.9    # of what a decoder's bound lets gain
DECODERS = {                                 # parameters that each token meets; width, layers
    "gpt2": (123.5e6, 768, 12), "smollm_135m": (124.6e6, 576, 30)}


def mask_of(name: str, n: int) -> np.ndarray:
    return MASKS[name](np.arange(n)[:, None], np.arange(n)[None, :])


def layer(path: pathlib.Path, n: int, seen: np.ndarray) -> pathlib.Path:
    m, size = Model(), WIDE // HEADS
    x = m.input("x", 1, n, WIDE)

    def heads(order):
        split = m.constant(np.array([0, 0, HEADS, size]))
        return m("Transpose", m("Reshape", linear(m, x, WIDE, WIDE), split), perm=order)

    low = m.constant(np.where(seen, 0, np.finfo("f4").min).astype("f4"))
    scores = m("MatMul", heads([0, 2, 1, 3]), heads([0, 2, 3, 1]))
    scores = m("Add", m("Mul", scores, m.constant(np.float32(size ** -0.5))), low)
    y = m("MatMul", m("Softmax", scores, axis=-1), heads([0, 2, 1, 3]))
    y = m("Reshape", m("Transpose", y, perm=[0, 2, 1, 3]), m.constant(np.array([0, 0, WIDE])))
    x = layer_norm(m, m("Add", x, linear(m, y, WIDE, WIDE)), WIDE)
    y = linear(m, gelu(m, linear(m, x, WIDE, INNER)), INNER, WIDE)
    m.save(path, layer_norm(m, m("Add", x, y), WIDE))
    return path


def bound_of(products: float, attention: float, share: float) -> float:
    return (products + attention) / (products + attention * share)


def layer_row(bench: Bench, name: str, n: int, threads: int) -> None:
    seen = mask_of(name, n)
    what, model = f"{name}, n {n}", layer(bench.folder / f"layer_{n}.onnx", n, seen)
    try:
        times = bench.race(model, threads, list(PEERS), check=True)
    except RuntimeError as error:
        bench.table.fail(what, str(error))
        return
    finally:
        bench.forget(model)
    ours = statistics.median(times["tenon"])
    peers = {e: statistics.median(times[e]) for e in PEERS if e in times}
    products, attention = n * WIDE * (4 * WIDE + 2 * INNER), 2 * n * n * WIDE
    bound = bound_of(products, attention, share_of(seen[None, None]))
    better = min(peers.values()) / ours
    floor = min(FLOOR, 0.9 * bound)
    theirs = [f"{peers[e]:.1f}" if e in peers else "" for e in PEERS]
    bench.table.add(what, [f"{ours:.1f}", *theirs, f"{bound:.2f}", f"{better:.2f}"],
                    dict(threads=threads, n=n, tenon_ms=ours, bound=bound, **peers), better, floor,
                    min(LAYERS[name], bound))


def decoder_row(bench: Bench, name: str, model: pathlib.Path, threads: int) -> None:
    met, wide, layers = DECODERS[name]
    data = bench.folder / model.stem
    data.mkdir(exist_ok=True)
    np.save(data / "ids.npy", np.random.default_rng(2).integers(0, WORDS, (1, TOKENS)))
    hints = ["--dim-hint", "batch=1", "--dim-hint", f"seq={TOKENS}"]
    once = ("--warmup", 1, "--iterations", 3)
    try:
        so, _ = bench.prepare(model, *hints)
        exact, _ = bench.prepare(model, *hints, "--exact")
        pairs = [[bench.tenon(x, data, threads, *once)["median_ms"] for x in (so, exact)]
                 for _ in range(bench.rounds)]
    except RuntimeError as error:
        bench.table.fail(name, str(error))
        return
    finally:
        bench.forget(model)
    ours, whole = (statistics.median(t) for t in zip(*pairs))
    bound = bound_of(met * TOKENS, 2 * TOKENS ** 2 * wide * layers, 0.5 + 8 / TOKENS)
    gain = (whole / ours - 1) / (bound - 1)
    cells = [f"{ours:.0f}", f"{whole:.0f}", f"{bound:.3f}", f"{gain:.2f}"]
    facts = dict(threads=threads, tenon_ms=ours, exact_ms=whole, bound=bound, harvested=gain)
    bench.table.add(f"{name}, {TOKENS} tokens", cells, facts, gain, HARVEST, 1.0)


def layers(bench: Bench, names: list[str], threads: int, filled) -> None:
    of = f"{threads} thread{'s'[:threads - 1]}"
    wanted = lambda what: not names or any(what.startswith(w) for w in names)
    columns = ["Tenon ms", *(f"{p} ms" for p in PEERS.values()), "bound", "to the better"]
    bench.table.head(f"a BERT-base layer under a mask, {of}", *columns)
    for n in LENGTHS:
        for name in LAYERS:
            if wanted(name):
                layer_row(bench, name, n, threads)
    bench.table.head(f"decoders' first step, {of}", "Tenon ms", "--exact ms", "bound", "harvested")
    for name in DECODERS:
        if wanted(name):
            decoder_row(bench, name, filled(name), threads)
