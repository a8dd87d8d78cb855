"""What the order of rows in memory is worth to a block: the gates of a TreeLSTM, whose operands are
two rows of a pool each, read through numbers.

The same artefact reads rows in random order and adjacent ones, which is the best that any layout of
values (ED-Batch's PQ-trees) could reach. Another copies them together first (--keep), as libraries
need it.
"""
import statistics

import numpy as np

from measure import Bench

INSTANCES, ROWS = 64, 4096
OVER = 1.05                                  # random order over adjacent rows, at most

TEXT = """graph @g(%pool: f32[rows, {h}], %at: i32[n, 2], %w: f32[{k}, {m}]) -> (%o) {{
  symbol n usually {n}
  symbol rows usually {rows}
  %both: f32[n, {k}] = call(%pool, %at)
    nest both(p: f32[rows, {h}], k: i32[n, 2]) -> (o: f32[n, {k}]) {{
      o[i, j] = p[at(k[i, j // {h}], rows), j % {h}]
    }}
  %o: f32[n, {m}] = matmul(%both, %w)
}}
"""


def row_order(bench: Bench, hidden) -> None:
    bench.table.head("rows of operands, 1 thread", "random us", "adjacent us", "copied first us",
                     "random over adjacent")
    rng = np.random.default_rng(4)
    for h in hidden:
        data = bench.folder / f"rows_{h}"
        model = data.with_suffix(".tn")
        model.write_text(TEXT.format(h=h, k=2 * h, m=5 * h, n=INSTANCES, rows=ROWS))
        data.mkdir(exist_ok=True)
        np.save(data / "pool.npy", rng.standard_normal((ROWS, h), dtype="f4"))
        np.save(data / "w.npy", rng.standard_normal((2 * h, 5 * h), dtype="f4"))
        orders = [rng.permutation(ROWS)[: 2 * INSTANCES], np.arange(2 * INSTANCES)]
        times = []
        try:
            fused, _ = bench.prepare(model)
            copied, _ = bench.prepare(model, "--keep", "both")
            for _ in range(bench.rounds):
                turn = []
                for so, order in ((fused, orders[0]), (fused, orders[1]), (copied, orders[0])):
                    np.save(data / "at.npy", order.astype("i4").reshape(-1, 2))
                    turn.append(1e3 * bench.tenon(so, data, 1)["min_ms"])
                times.append(turn)
        except RuntimeError as error:
            bench.table.fail(f"hidden {h}", str(error))
            continue
        random, adjacent, first = (statistics.median(t) for t in zip(*times))
        over = random / adjacent
        cells = [f"{random:.1f}", f"{adjacent:.1f}", f"{first:.1f}", f"{over:.3f}"]
        facts = dict(hidden=h, random_us=random, adjacent_us=adjacent, copied_us=first, over=over)
        bench.table.add(f"hidden {h}, {INSTANCES} instances", cells, facts, over, OVER, most=True)
