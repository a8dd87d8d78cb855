"""Which blocks run next: by a table that is learnt beside by depth and by agenda, DyNet's policies,
in the same runtime.

In time, and in batches. A table is learnt of other requests than it is used on. A session runs by
the table where it is faster than depth, which costs nothing to find; a batch of few rows costs
little more than its rows, so fewer batches are not always less time.
"""
from measure import Bench

HIDDEN, BATCH = 128, 32
LITTLE = 16                                  # hidden: where only batches are counted
TIMED = {                                    # what a model is to be faster than DyNet's policies
    "policies lattice": ("lattice_lstm", 1.3),
    "policies trees": ("tree_lstm_2", 1.1),
    "policies chains": ("bilstm", 1.0),
}
COUNTED = {                                  # batch; limits of the table over the least, and of
    "batches trees": ("tree_lstm_2", 64, 1.3, {}),           # other policies over the table
    "batches lattice": ("lattice_lstm", 32, 1.3, {"agenda": 1.5, "depth": 2.1}),
}


def measured(bench: Bench, model: str, hidden: int, batch: int, rounds: int, threads: int) -> dict:
    bench.facts()
    return bench.script("policy_run.py", model, hidden, batch, rounds, bench.seconds / 2, threads,
                        bench.machine_file, bench.folder, threads=threads)


def timed(bench: Bench, names: list[str], threads: int) -> None:
    head = f"policies, {threads} thread" + "s" * (threads > 1)
    bench.table.head(head, "depth us", "agenda us", "learnt us", "best over ours")
    for name in names:
        model, floor = TIMED[name]
        try:
            found = measured(bench, model, HIDDEN, BATCH, bench.rounds, threads)
        except RuntimeError as error:
            bench.table.fail(name, str(error))
            continue
        times = found["times"]
        ours = min(times["depth"], times["fsm"])
        over = min(times["depth"], times["agenda"]) / ours
        cells = [f"{times[k] * 1e6:.2f}" for k in ("depth", "agenda", "fsm")] + [f"{over:.2f}"]
        bench.table.add(f"{name}, {model}", cells, found | dict(over=over, threads=threads), over,
                        floor)


def counted(bench: Bench, names: list[str]) -> None:
    bench.table.head("batches by policy", "depth", "agenda", "learnt", "least", "ratio")
    for name in names:
        model, batch, most, floors = COUNTED[name]
        try:
            found = measured(bench, model, LITTLE, batch, 0, 1)
        except RuntimeError as error:
            bench.table.fail(name, str(error))
            continue
        ran, least = found["batches"], found["least"]
        over = ran["fsm"] / least
        cells = [f"{ran[k]:.1f}" for k in ("depth", "agenda", "fsm")]
        bench.table.add(f"{name}, {batch}", [*cells, f"{least:.1f}", f"{over:.2f}"],
                        found | dict(over=over), over, most, most=True)
        for policy, floor in floors.items():
            gain = ran[policy] / ran["fsm"]
            bench.table.add(f"  {policy} over learnt", [""] * 4 + [f"{gain:.2f}"],
                            dict(policy=policy, gain=gain), gain, floor)
