"""What it costs that requests can run together: seconds of compiling with --many over without, and
the memory that a batch takes over the rows that are alive at once.

The rows counted are those of a run by depth of all requests at once, which the runtime cuts into
pieces.
"""
from measure import Bench

HIDDEN, BATCH, MOST = 256, 256, 2.0
COSTS = {f"cost {model}": model for model in ("tree_lstm", "bilstm", "lattice_lstm")}


def costs(bench: Bench, names: list[str]) -> None:
    bench.facts()
    bench.table.head("costs of --many", "with", "without", "ratio")
    for name in names:
        try:
            row = bench.script("cost_run.py", COSTS[name], HIDDEN, BATCH, bench.machine_file,
                               bench.folder)
        except RuntimeError as error:
            bench.table.fail(name, str(error))
            continue
        rows = row["rows"] * row["row"]
        for what, many, other, show in (
            ("compiling s", row["many"], row["plain"], "{:.2f}"),
            ("memory and rows MB", row["grown"] / 1e6, rows / 1e6, "{:.1f}"),
        ):
            over = many / other
            bench.table.add(f"{COSTS[name]}, {what}", [show.format(x) for x in (many, other)]
                            + [f"{over:.2f}"], dict(what=what, many=many, other=other, over=over),
                            over, MOST, most=True)
