#!/usr/bin/env python3
"""One model of bench/cells by each policy of Tenon's runtime: which blocks run next.

    policy_run.py MODEL HIDDEN BATCH ROUNDS SECONDS THREADS MACHINE FOLDER      prints JSON

A table is learnt of BATCHES batches and used on others, as agenda and depth are. Of each policy the
batches that ran, a mean of them; with ROUNDS, the least seconds of a node too. Results are held
against those of the plain artefact, and have the same bits by any policy.
"""
import json
import pathlib
import sys

import cells
import numpy as np
from batch_run import check, compiled, in_turn, ran, value

BATCHES = 4


def draw(model, count: int, seed: int) -> list[list[dict]]:
    rng = np.random.default_rng(seed)
    return [[model.request(rng) for _ in range(count)] for _ in range(BATCHES)]


def main() -> None:
    name, hidden, count, rounds, seconds, threads, machine, folder = sys.argv[1:]
    model, many, plain = compiled(name, int(hidden), pathlib.Path(folder), machine)
    learns, *sessions = (many.session(threads=int(threads)) for _ in range(4))
    known, others = (draw(model, int(count), seed) for seed in (12, 11))
    learnt = learns.learn(sum(known, []), batch=int(count))
    least = sum(cells.counts([model.work(r) for r in rs]).least for rs in known)
    constants = BATCHES * sum(not b.nodes and not b.host for b in learns.blocks)
    if least + constants != learnt.bound:
        raise SystemExit(f"the least number of batches is {least}, and {learnt.bound} as learnt, "
                         f"with {constants} of constants")
    by = dict(zip(("depth", "agenda", "fsm"), sessions))
    for policy, session in by.items():
        session.policy = learnt.table if policy == "fsm" else policy
    check(model, by["depth"], plain.session(threads=int(threads)), others[0])
    found = {"least": 0, "batches": dict.fromkeys(by, 0), "states": learnt.states,
             "episodes": learnt.episodes}
    for requests in others:
        found["least"] += cells.counts([model.work(r) for r in requests]).least / BATCHES
        wanted = [value(x) for x in by["depth"].run_many(requests)]
        for policy, session in by.items():
            before = ran(session)
            made = [value(x) for x in session.run_many(requests)]
            found["batches"][policy] += (ran(session) - before) / BATCHES
            if not all(map(np.array_equal, made, wanted)):
                raise SystemExit(f"by {policy} the results have other bits than by depth")
    nodes = cells.counts([model.work(r) for rs in others for r in rs]).nodes
    found["times"] = in_turn({p: (lambda s=s: [s.run_many(rs) for rs in others], nodes)
                              for p, s in by.items()}, int(rounds), float(seconds))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
