#!/usr/bin/env python3
"""One model of bench/cells as Tenon runs its requests: together, one by one with the same
artefact, and one by one with one that was not made for many.

    batch_run.py MODEL HIDDEN BATCHES ROUNDS SECONDS THREADS MACHINE FOLDER     prints JSON

Times are the least of ROUNDS turns, in seconds of all nodes. All results are held against those of
the plain artefact first, and those of requests together against those of each alone, bit for bit;
some of each batch against NumPy.
"""
import json
import pathlib
import sys
import time

import cells
import numpy as np
import tenon

ALONE = 32                                   # requests at most that run one by one
CHECKED = 6                                  # of each batch, by NumPy in double precision
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


def in_turn(ways: dict, rounds: int, seconds: float) -> dict[str, float]:
    """Of ways to run so many nodes: the least seconds of one node."""
    times = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for way, (what, nodes) in ways.items():
            times[way] = min(times[way], least(what, seconds) / nodes)
    return times


def value(result) -> np.ndarray:
    if isinstance(result, Exception):
        raise result
    return next(iter(result.values()))


def check(model, many, plain, requests: list[dict]) -> None:
    together = many.run_many(requests)
    for i, (r, got) in enumerate(zip(requests, together)):
        what = f"request {i} of {len(requests)}"
        got, alone, single = value(got), value(many.run(r)), value(plain.run(r))
        if not np.array_equal(got, alone):
            raise SystemExit(f"{what} is {abs(got - alone).max():.1e} off what it gives alone")
        wants = {"a plain artefact": single}
        if i < CHECKED:
            wants["NumPy"] = model.expected(r).reshape(single.shape)
        for whose, want in wants.items():
            off = abs(got - want).max()
            if not off <= EXACT * abs(want).max():
                raise SystemExit(f"{what} is {off:.1e} off {whose}")


def compiled(name: str, hidden: int, folder: pathlib.Path, machine: str) -> tuple:
    """A model, and artefacts of it: for many requests, and a plain one."""
    model = cells.MODELS[name](hidden)
    path = model.write(folder / f"{name}.tn")
    return model, *(tenon.compile(path, many=m, machine=machine) for m in (True, False))


def ran(session: tenon.Session) -> int:
    """Batches of blocks so far."""
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
    name, hidden, sizes, rounds, seconds, threads, machine, folder = sys.argv[1:]
    folder, rounds, seconds = pathlib.Path(folder), int(rounds), float(seconds)
    model, many, plain = compiled(name, int(hidden), folder, machine)
    session, single = (x.session(threads=int(threads)) for x in (many, plain))
    rows, rng = [], np.random.default_rng(11)
    for b in map(int, sizes.split(",")):
        requests = [model.request(rng) for _ in range(b)]
        check(model, session, single, requests)
        counts, few = cells.counts([model.work(r) for r in requests]), requests[:ALONE]
        nodes, before = cells.counts([model.work(r) for r in few]).nodes, ran(session)
        session.run_many(requests)
        row = {"batch": b, "nodes": counts.nodes, "least": counts.least,
               "levels": len(counts.levels), "batches": ran(session) - before}
        row |= in_turn({"together": (lambda: session.run_many(requests), counts.nodes),
                        "alone": (lambda: [session.run(r) for r in few], nodes),
                        "plain": (lambda: [single.run(r) for r in few], nodes)}, rounds, seconds)
        if b == 64 and isinstance(model, cells.TreeLSTM):
            kinds = {k for _, k in counts.levels}
            found = of_cells(model, folder, sorted(kinds), max(counts.levels.values()),
                             seconds / 10, machine)
            row["kernels"] = kernels(found, counts) / counts.nodes
        rows.append(row)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
