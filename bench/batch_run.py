#!/usr/bin/env python3
"""One model of bench/cells.py as Tenon runs its requests: together, one by one with the same
artefact, and one by one with one that was not made for many.

    batch_run.py MODEL HIDDEN BATCHES ROUNDS SECONDS MACHINE FOLDER   prints what it found, as JSON

Times are the least of ROUNDS turns, in seconds of all nodes. Results are held against NumPy first,
and those of requests together against those of each alone, bit for bit.
"""
import json
import pathlib
import sys
import time

import cells
import numpy as np
import tenon

ALONE = 32                                   # requests at most that run one by one
CHECKED = 6                                  # of each batch, in double precision
EXACT = 1e-4                                 # of the largest value
ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)


def least(what, seconds: float) -> float:
    """Of runs for so many seconds; three of them at least."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        what()
        times.append(time.perf_counter() - start)
    return min(times)


def value(result) -> np.ndarray:
    if isinstance(result, Exception):
        raise result
    return next(iter(result.values()))


def check(model, many, plain, requests: list[dict]) -> None:
    together = many.run_many(requests)
    for i, (r, got) in enumerate(zip(requests, together)):
        got, alone = value(got), value(many.run(r))
        if not np.array_equal(got, alone):
            raise SystemExit(f"request {i} of {len(requests)} is {abs(got - alone).max():.1e} "
                             "off what it gives alone")
        if i < CHECKED:
            want = model.expected(r)
            for how, x in (("together", got), ("plain", value(plain.run(r)))):
                off = abs(x.reshape(want.shape) - want).max()
                if not off <= EXACT * abs(want).max():
                    raise SystemExit(f"request {i} of {len(requests)}, {how}, is {off:.1e} "
                                     "off NumPy")


def batches(model: tenon.Model, requests: list[dict]) -> int:
    session = model.session(threads=1)
    session.run_many(requests)
    return sum(b.ran for b in session.blocks if b.nodes and not b.host)


def of_cells(model, folder: pathlib.Path, kinds, most: int, seconds: float, machine: str) -> dict:
    """Seconds of each kind of block, by rows; what a call from Python takes is not in it."""
    text = cells.Text(folder / "nothing.tn")
    g = cells.Graph(text, "main", {"x": cells.tensor("n", 1)})
    g.end(g.op("identity", None, "x"))
    nothing = tenon.compile(text.save(), machine=machine).session(threads=1)
    one = {"x": np.zeros((1, 1), np.float32)}
    call, found = least(lambda: nothing.run(one), seconds), {}
    for kind in kinds:
        path = model.write_cell(folder / "cell.tn", kind)
        cell = tenon.compile(path, dim_hints={"n": (1, 8, 64)}, machine=machine)
        session, found[kind] = cell.session(threads=1), {}
        for n in [n for n in ROWS if n < 2 * most]:
            r = model.cell_request(kind, n)
            found[kind][n] = max(least(lambda: session.run(r), seconds) - call, 1e-9)
    return found


def kernels(found: dict, counts: cells.Counts) -> float:
    """Seconds that the blocks take in the batches that they run in."""
    return sum(float(np.interp(n, list(found[kind]), list(found[kind].values())))
               for (_, kind), n in counts.levels.items())


def main() -> None:
    name, hidden, sizes, rounds, seconds, machine, folder = sys.argv[1:]
    folder, rounds, seconds = pathlib.Path(folder), int(rounds), float(seconds)
    model = cells.MODELS[name](int(hidden))
    path = model.write(folder / f"{name}.tn")
    many, plain = (tenon.compile(path, many=m, machine=machine) for m in (True, False))
    session, single = many.session(threads=1), plain.session(threads=1)
    rows, rng = [], np.random.default_rng(11)
    for b in map(int, sizes.split(",")):
        requests = [model.request(rng) for _ in range(b)]
        check(model, session, single, requests)
        counts, few = cells.counts([model.work(r) for r in requests]), requests[:ALONE]
        nodes = cells.counts([model.work(r) for r in few]).nodes
        ways = {"together": (lambda: session.run_many(requests), counts.nodes),
                "alone": (lambda: [session.run(r) for r in few], nodes),
                "plain": (lambda: [single.run(r) for r in few], nodes)}
        times = dict.fromkeys(ways, float("inf"))
        for _ in range(rounds):
            for way, (what, n) in ways.items():
                times[way] = min(times[way], least(what, seconds) / n)
        row = {"batch": b, "nodes": counts.nodes, "least": counts.least, **times,
               "levels": len(counts.levels), "batches": batches(many, requests)}
        if b == 64 and isinstance(model, cells.TreeLSTM):
            kinds = {k for _, k in counts.levels}
            found = of_cells(model, folder, sorted(kinds), max(counts.levels.values()),
                             seconds / 10, machine)
            row["kernels"] = kernels(found, counts) / counts.nodes
        rows.append(row)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
