"""Requests whose work differs, run together: what a node of theirs takes against one by one.

Each model of bench/cells runs batches of requests in three ways that take turns: together, one
by one with the same artefact, and one by one with a plain one. A node is a block of the model that
a request asks for, its control not counted. Beside the batches that ran is the number below which
no order of them comes: the longest chain of blocks of each kind. The bound of what is gained is
that of the same blocks alone, in batches as large: nothing is recorded or gathered for them. DyNet
batches the same TreeLSTM where it can be installed (bench/requirements-dynet.txt).

Other tables tell what policies are worth (bench/batch_policies.py), and what it costs that requests
can run together (bench/batch_costs.py).

Two models of bench/loops.py are ONNX files: a decoder's requests of different prompts together over
one by one, and an encoder with early exits over ONNX Runtime in a loop.
"""
from batch_costs import COSTS, costs
from batch_policies import COUNTED, TIMED, counted, timed
from measure import BUILD, Bench
from row_order import row_order

HIDDEN, BATCHES = (64, 128, 256, 512), (1, 8, 32, 64, 256)
QUICK_HIDDEN, QUICK_BATCHES = 128, (1, 8, 64)
SMALLER = {                                  # hidden sizes and batches of models that are larger
    "mv_rnn": ((64, 128), BATCHES),
    "berxit": ((256, 768), (1, 8)),
    "deebert": ((128, 256, 512), (1, 8, 32)),
}
NAMES = ["tree_lstm", "tree_lstm_2", "tree_gru", "mv_rnn", "bilstm", "bilstm_characters", "birnn",
         "nested_rnn", "lattice_lstm", "lattice_gru", "drnn", "stack_rnn", "berxit", "deebert"]
CONTROL = ["sums", "running"]
GAIN = {64: 1.6, 128: 1.9, 256: 2.2, 512: 4.0}       # of TreeLSTM, 64 together over a plain one
FOR_MANY = 0.95                              # of a request alone: a plain artefact's time over ours
LEAST = ("tree_lstm", "bilstm")              # which are to run no more batches than their chains
SHARE, CONTROL_NS = 0.75, 30
OVER_DYNET, OVER_UNBATCHED = {64: 6, 128: 4, 256: 2, 512: 2}, 12
LOOPS = {                                    # requests, and what they are to be faster than
    "decoder": (16, "plain", 4.5, 6.0),
    "exits": (32, "onnxruntime", 1.5, 3.0),
}
ROW_ORDER = "rows"                           # a table of its own: what their order is worth
DYNET = BUILD / "venv-dynet/bin/python"
FLAGS = ("0", "1", "2")


def measured(bench: Bench, name: str, hidden: int, batches, threads: int = 1) -> list[dict]:
    bench.facts()
    return bench.script("batch_run.py", name, hidden, ",".join(map(str, batches)), bench.rounds,
                        bench.seconds / 2, threads, bench.machine_file, bench.folder,
                        threads=threads)


def dynet(bench: Bench, hidden: int, batches) -> dict[str, list[dict]]:
    """By its flag; none where it is not installed."""
    if not DYNET.exists():
        return {}
    sizes = ",".join(map(str, batches))
    return {flag: bench.script("dynet_peer.py", hidden, sizes, bench.rounds, bench.seconds / 2,
                               flag, bench.folder, python=DYNET) for flag in FLAGS}


def us(seconds: float) -> str:
    return f"{seconds * 1e6:.2f}"


def show(bench: Bench, name: str, hidden: int, row: dict) -> None:
    gain, what = row["plain"] / row["together"], f"{name} {hidden}, batch {row['batch']}"
    is_gate = name == "tree_lstm" and row["batch"] == 64
    floor = FOR_MANY if row["batch"] == 1 else GAIN.get(hidden) if is_gate else None
    cells = [us(row[k]) for k in ("together", "alone", "plain")] + [f"{gain:.2f}"]
    facts = row | dict(model=name, hidden=hidden, gain=gain)
    bench.table.add(what, [*cells, f"{row['batches']} / {row['least']}"], facts, gain, floor)
    if name in LEAST:
        over = row["batches"] / row["least"]
        bench.table.add("  batches over the chains", ["", "", "", "", f"{over:.2f}"],
                        dict(model=name, hidden=hidden, over=over), over, 1.0, most=True)
    if "kernels" in row:
        share, bound = row["kernels"] / row["together"], row["plain"] / row["kernels"]
        bench.table.add("  share of the bound", [us(row["kernels"]), "", "", f"{bound:.2f}",
                                                 f"{100 * share:.0f} %"],
                        dict(model=name, hidden=hidden, bound=bound, share=share),
                        share if name == "tree_lstm" else None, SHARE)


def control(bench: Bench, names: list[str]) -> None:
    bench.table.head("control alone, 1 thread", "together ns", "alone ns", "plain ns", "nodes")
    for name in names:
        try:
            row = measured(bench, name, 1, (64,))[0]
        except RuntimeError as error:
            bench.table.fail(name, str(error))
            continue
        ns = [row[k] * 1e9 for k in ("together", "alone", "plain")]
        bench.table.add(name, [*(f"{x:.1f}" for x in ns), str(row["nodes"])], row, ns[0],
                        CONTROL_NS, most=True)


def with_loops(bench: Bench, names: list[str]) -> None:
    bench.facts()
    bench.table.head("ONNX with control, 1 thread", "together ms", "plain ms", "ONNX Runtime ms",
                     "gain", "mean batch")
    for name in names:
        count, other, floor, aim = LOOPS[name]
        try:
            row = bench.script("loops_run.py", name, "small" if bench.quick else "large", count,
                               bench.rounds, bench.machine_file, bench.folder)
        except RuntimeError as error:
            bench.table.fail(name, str(error))
            continue
        gain = row[other] / row["together"]
        cells = [f"{row[k] * 1e3:.1f}" for k in ("together", "plain", "onnxruntime")]
        cells += [f"{gain:.2f}", f"{row['asked'] / row['batches']:.1f}"]
        bench.table.add(f"{name}, {count} requests", cells, row | dict(gain=gain), gain, floor, aim)


def beside_dynet(bench: Bench, ours: dict[int, list[dict]], theirs: dict[int, dict]) -> None:
    bench.table.head("tree_lstm beside DyNet", "Tenon us", "unbatched us", "agenda us", "depths us",
                     "over best", "over unbatched")
    for hidden, flags in theirs.items():
        for i, row in enumerate(ours[hidden]):
            times = [flags[f][i]["time"] for f in FLAGS]
            best, single = min(times) / row["together"], times[0] / row["together"]
            gate = row["batch"] == 64
            what = f"hidden {hidden}, batch {row['batch']}"
            cells = [us(t) for t in (row["together"], *times)] + [f"{best:.2f}", f"{single:.2f}"]
            facts = dict(hidden=hidden, batch=row["batch"], dynet=times, over_best=best,
                         over_unbatched=single)
            bench.table.add(what, cells, facts, best, OVER_DYNET.get(hidden) if gate else None)
            if gate:
                bench.table.add("  over unbatched", ["", "", "", "", "", f"{single:.2f}"],
                                dict(hidden=hidden, over_unbatched=single), single, OVER_UNBATCHED)


def gains(bench: Bench, names: list[str], hidden, batches, threads: int) -> dict[int, list[dict]]:
    """Of each model; the rows of tree_lstm by hidden size."""
    head = f"requests together, {threads} thread" + "s" * (threads > 1)
    bench.table.head(head, "together us", "alone us", "plain us", "gain", "batches / least")
    ours = {}
    for name in names:
        sizes, counts = SMALLER.get(name, (HIDDEN, BATCHES))
        if bench.quick:
            sizes = (min(sizes, key=lambda h: abs(h - QUICK_HIDDEN)),)
            counts = [b for b in QUICK_BATCHES if b in counts]
        for h in hidden or sizes:
            try:
                rows = measured(bench, name, h, batches or counts, threads)
            except RuntimeError as error:
                bench.table.fail(f"{name} {h}", str(error))
                continue
            for row in rows:
                show(bench, name, h, row | {"threads": threads})
            if name == "tree_lstm":
                ours[h] = rows
    return ours


ALL = [*NAMES, *TIMED, *COUNTED, *COSTS, *LOOPS, ROW_ORDER, *CONTROL]


def batch(bench: Bench, names: list[str], hidden, batches, threads: int) -> None:
    """names: of ALL. hidden, batches: sizes of states and of batches; None: the usual ones. More
    threads than one are for models and policies alone."""
    def wanted(every):
        return [n for n in every if n in names]

    ours = gains(bench, wanted(NAMES), hidden, batches, threads) if wanted(NAMES) else {}
    if wanted(TIMED):
        timed(bench, wanted(TIMED), threads)
    if threads > 1:
        return
    if wanted(COUNTED):
        counted(bench, wanted(COUNTED))
    if wanted(COSTS):
        costs(bench, wanted(COSTS))
    if wanted(LOOPS):
        with_loops(bench, wanted(LOOPS))
    if wanted([ROW_ORDER]):
        row_order(bench, hidden or ([QUICK_HIDDEN] if bench.quick else HIDDEN))
    if wanted(CONTROL):
        control(bench, wanted(CONTROL))
    theirs = {}
    for h, rows in ours.items():
        try:
            theirs |= {h: flags for flags in [dynet(bench, h, [r["batch"] for r in rows])] if flags}
        except RuntimeError as error:
            bench.table.fail(f"DyNet, hidden {h}", str(error))
    if theirs:
        beside_dynet(bench, ours, theirs)
    elif ours:
        bench.table.say("DyNet is not installed here: bench/requirements-dynet.txt")
