"""STOF's rule, blocks or rows, beside Tenon's price, and both beside the clock.

Eq. 1 of Dai et al., PPoPP 2026, takes rows where of 16 x 16 tiles the share that shows something
is below 1.2 / (log2 of the tiles a side) ** 2. Rows are here the cheapest program that has all keys
of some rows at once, or the hull of those that they see; blocks the cheapest that goes over keys in
blocks (the step `online`), and passes over those that a table hides. Each is pinned and timed.
"""
import math
import re
import statistics

from choices import Kernel, listed, variant
from measure import Bench, geomean
from sparse import NAMES, PER_TEXT, Shape, attention, mask_of, share_of

LENGTHS, EVERY = (1024, 4096), 1000          # programs that are listed


def equation(share: float, n: int) -> float:
    """Below 0: rows."""
    return share - 1.2 / math.log2(max(math.ceil(n / 16), 2)) ** 2


def is_blocks(program) -> bool:
    return any(step.startswith("online ") for step in program[1])


def pinned(kernels: list[Kernel], blocks: bool) -> list[Kernel]:
    """Each with one program: the cheapest of its kind, or of all where there is none."""
    out = []
    for k in kernels:
        fits = [p for p in k.programs if is_blocks(p) == blocks]
        out.append(Kernel(k.values[0], k.origin))
        out[-1].values, out[-1].programs = k.values, (fits or k.programs)[:1]
    return out


def row(bench: Bench, name: str, s: Shape, threads: int) -> tuple[float, float] | None:
    """What is lost to the better of both by Eq. 1, and by the price."""
    what, mask = f"{name}, n {s.n}", mask_of(name, s)
    file = "_".join(re.findall("[A-Za-z0-9]+", name))
    model = attention(bench.folder / f"rule_{file}_{s}.onnx", s, mask, mask.bias)
    data, options = bench.data_of(model), ("--machine", bench.machine_file)
    try:
        kernels = listed(model, EVERY, *options)
        main = [k for k in kernels if len({is_blocks(p) for p in k.programs}) == 2]
        if len(main) != 1:
            raise RuntimeError("there is no kernel that has programs of both kinds")
        every = [variant(bench, model, pinned(kernels, b), 0, b, options) for b in (False, True)]
        turns = [[bench.tenon(so, data, threads)["median_ms"] for so in every]
                 for _ in range(bench.rounds)]
    except RuntimeError as error:
        bench.table.fail(what, str(error))
        return None
    finally:
        bench.forget(model)
        model.unlink()
    times = [statistics.median(t) for t in zip(*turns)]
    value = equation(share_of(mask.seen), s.n)
    takes = value >= 0, is_blocks(main[0].programs[0])
    lost = tuple(times[t] / min(times) for t in takes)
    words = [("rows", "blocks")[t] for t in takes]
    bench.table.add(what, [f"{value:+.3f}", *words, *(f"{t:.3f}" for t in times),
                           *(f"{x:.2f}" for x in lost)],
                    dict(threads=threads, equation=value, eq1=words[0], price=words[1],
                         rows_ms=times[0], blocks_ms=times[1]))
    return lost


def rule(bench: Bench, names: list[str], threads: int, lengths: list[int] | None) -> None:
    bench.facts()
    bench.table.head(f"STOF's rule, {threads} thread{'s'[:threads - 1]}", "Eq. 1", "it takes",
                     "price takes", "rows ms", "blocks ms", "lost by Eq. 1", "lost by price")
    shapes = [(name, Shape(n, 12, 12, 64, 2 if name in PER_TEXT else 1))
              for n in lengths or LENGTHS for name in NAMES]
    lost = [row(bench, name, s, threads) for name, s in shapes
            if not names or any(f"{name}, n {s.n}".startswith(w) for w in names)]
    means = [geomean(x) for x in zip(*filter(None, lost))]
    bench.table.add("geometric mean", [*[""] * 5, *(f"{x:.3f}" for x in means)], {})
