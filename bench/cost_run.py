#!/usr/bin/env python3
"""What it costs that one model of bench/cells can run many requests together.

    cost_run.py MODEL HIDDEN BATCH MACHINE FOLDER       prints JSON

Seconds that compiling takes with --many and without, each with a cache of its own; the bytes by
which a batch makes a process grow more at its largest than with rows of LITTLE numbers, for which
as much is recorded; and the bytes of the rows that are alive at once where each block runs as early
as it can, less those.
"""
import ctypes
import json
import pathlib
import re
import sys
import time

import cells
import numpy as np
import tenon
from batch_run import check

LITTLE = 16


def seconds(path: pathlib.Path, many: bool, machine: str) -> tuple[float, tenon.Model]:
    start = time.perf_counter()
    model = tenon.compile(path, many=many, machine=machine,
                          cache_dir=f"{path.with_suffix('')}-cache{int(many)}")
    return time.perf_counter() - start, model


def resident(what: str) -> int:
    """VmRSS, or VmHWM, the most of it since it was forgotten."""
    text = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{what}:\s+(\d+) kB", text)[1])


def growth(model: tenon.Model, requests: list[dict]) -> int:
    """Bytes that a session and requests together take at most."""
    model.session(threads=1).run(requests[0])                    # code and weights are read
    ctypes.CDLL(None).malloc_trim(0)                             # what is free is given back
    pathlib.Path("/proc/self/clear_refs").write_text("5")        # the most so far is forgotten
    before = resident("VmRSS")
    model.session(threads=1).run_many(requests)
    return resident("VmHWM") - before


def main() -> None:
    name, hidden, count, machine, folder = sys.argv[1:]
    grown, row, took = {}, {}, {}
    for h in (LITTLE, int(hidden)):
        model = cells.MODELS[name](h)
        path = model.write(pathlib.Path(folder) / f"{name}-{h}.tn")
        (took["plain"], plain), (took["many"], many) = (seconds(path, m, machine)
                                                        for m in (False, True))
        rng = np.random.default_rng(11)
        requests = [model.request(rng) for _ in range(int(count))]
        grown[h], row[h] = growth(many, requests), model.row_bytes()
        check(model, many.session(threads=1), plain.session(threads=1), requests)
    rows = cells.most_alive([model.work(r) for r in requests])
    print(json.dumps(took | {k: of[h] - of[LITTLE] for k, of in (("grown", grown), ("row", row))}
                     | {"rows": rows}))


if __name__ == "__main__":
    main()
