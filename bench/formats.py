"""Orders of dimensions: the search against what others do, with the same kernels to choose from.

Each model is compiled once for each way in which orders are chosen (`tenon compile --formats HOW`), and the artefacts run in
turn, many short turns each, there and back. A turn's time is that of its fastest run, a ratio the median over all turns of what two
neighbours give: what disturbs a machine for a second or a minute disturbs both, or is left out. Artefacts of the same bytes are one.

One format for all is that: no value lies in a transform domain, which is a format like any other (`--exact`). With domains beside, where they pay, each of
the two is one order for all.
"""
import filecmp
import pathlib
import re
import statistics

from measure import TENON, Bench, geomean, quiet

HOW = ["search", "nhwc", "none"]
ONE = ["nhwc", "none"]
ALONE = {f"{how} alone": how for how in ONE}     # without domains
TURNS = 4                            # for each round that is asked for, each so much shorter
SIZE = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
MB = 2**20


def told(text: str, pattern: str) -> re.Match:
    found = re.search(pattern, text)
    if not found:
        raise RuntimeError(f"the compiler says nothing like {pattern}")
    return found


def size_of(found: re.Match, at: int = 1) -> float:
    return float(found[at]) * SIZE[found[at + 1]]


def compiled(bench: Bench, model: pathlib.Path, how: str) -> dict:
    """The artefact, and what compiling told: bytes that a kernel reads in one order and writes in another, the arena."""
    so = bench.folder / f"{model.stem}.{how}.so"
    who = ["--formats", ALONE[how], "--exact"] if how in ALONE else ["--formats", how]
    text = quiet(TENON, "compile", model, "-o", so, *who, "--explain-formats", "--machine", bench.machine_file)
    changes = re.search(r"(\d+) times? a kernel reads one order and writes another, ([\d.]+) ([KMG]?B) in all", text)
    return {"so": so, "changes": int(changes[1]) if changes else 0, "changed_bytes": size_of(changes, 2) if changes else 0,
            "arena": size_of(told(text, r"arena ([\d.]+) ([KMG]?B)"))}


def in_turn(bench: Bench, so: dict, data: pathlib.Path, threads: int) -> dict:
    """The fastest run [ms] of every turn of each artefact."""
    same = {name: next(first for first in so if filecmp.cmp(so[first], so[name], shallow=False)) for name in so}
    names, seconds, turns = sorted(set(same.values()), key=list(so).index), bench.seconds / TURNS / 2, {name: [] for name in so}
    slow = bench.tenon(so[names[0]], data, threads, "--warmup", 0, "--iterations", 1)["median_ms"] > 300 * seconds
    how = ("--warmup", 1, "--iterations", 3) if slow else ("--warmup", 2, "--duration", seconds)
    for turn in range(bench.rounds * TURNS):
        for name in names if turn % 2 == 0 else names[::-1]:
            turns[name].append(bench.tenon(so[name], data, threads, *how)["min_ms"])
    return {name: turns[same[name]] for name in so}


def formats(bench: Bench, names: list[str], path_of, threads: int) -> None:
    bench.facts()
    table = bench.table
    table.head(f"formats, {threads} thread{'s'[:threads - 1]}", *[f"{how} ms" for how in HOW], "one format", "to one format", "to one order", "to none", "changes",
               "arena MB")
    gains = {"one format": [], "one order": [], "none": []}
    for name in names:
        try:
            model = path_of(name)
            data = bench.data_of(model)
            made = {how: compiled(bench, model, how) for how in [*HOW, *ALONE]}
            turns = in_turn(bench, {how: made[how]["so"] for how in made}, data, threads)
        except RuntimeError as error:
            table.fail(name, str(error))
            continue
        ms = {how: statistics.median(turn) for how, turn in turns.items()}
        gain = {how: statistics.median(other / search for other, search in zip(turns[how], turns["search"])) for how in made}
        gain["one format"] = min(gain[how] for how in ALONE)
        gain["one order"] = min(gain[how] for how in ONE)
        for what in gains:
            gains[what].append(gain[what])
        searched = made["search"]
        table.add(name, [f"{ms[how]:.2f}" for how in HOW] + [f"{min(ms[how] for how in ALONE):.2f}"] + [f"{gain[w]:.3f}" for w in gains]
                  + [f"{searched['changes']}, {searched['changed_bytes'] / MB:.1f} MB", f"{searched['arena'] / MB:.1f}"],
                  {"threads": threads, "ms": ms, "turns": turns, "gain": gain} | {how: {k: v for k, v in made[how].items() if k != "so"} for how in made},
                  min(gain[what] for what in gains), 0.98)
        for how in made:
            made[how]["so"].unlink()
        bench.forget(model)
    if len(names) < 2 or not gains["none"]:
        return
    for what, floor, aim in (("one format", 1.05, 1.15), ("one order", 0.98, 1.05), ("none", 1.12, 1.3)):
        table.add(f"geometric mean to {what}", [""] * (len(HOW) + 1) + [f"{geomean(gains[what]):.3f}"], {"threads": threads, "to": what, "geomean": geomean(gains[what])},
                  geomean(gains[what]), floor, aim)


def layout_text(bench: Bench, model: pathlib.Path, how: str = "search") -> str:
    return quiet(TENON, "compile", model, "--formats", how, "--stop-after=layout", "--dump=layout", "--time", "--machine", bench.machine_file)


def priced(text: str) -> tuple[int, float, float]:
    """Values that could lie otherwise; the price of all kernels as chosen, and as the model says [ms]."""
    found = re.search(r"; \d+ of (\d+) values have .*: ([\d.e+]+) ms of kernels instead of ([\d.e+]+) ms", text)
    return (int(found[1]), float(found[2]), float(found[3])) if found else (0, 0.0, 0.0)


def searches(bench: Bench, names: list[str], path_of) -> None:
    """What choosing takes: the whole stage, schedules priced and all; whether the choice is the exact optimum of the prices; and the price of the same kernels as
    others choose, which is no less."""
    table = bench.table
    table.head("choosing orders", "seconds", "values", "exact")
    prices = {}
    for name in names:
        try:
            text = layout_text(bench, path_of(name))
            values, searched, plain = priced(text)
            prices[name] = {"search": searched} | {how: priced(layout_text(bench, path_of(name), how))[1] or plain for how in HOW[1:-1]} | {"none": plain}
        except RuntimeError as error:
            table.fail(name, str(error))
            continue
        seconds, exact = float(told(text, r"\nlayout +([\d.]+) s")[1]), "beam" not in text
        table.add(name, [f"{seconds:.2f}", str(values), "yes" if exact else "no"],
                  {"model": name, "seconds": seconds, "values": values, "exact": exact}, seconds if exact else float("inf"), 2.0, 0.3, most=True)
    table.head("prices of the same kernels", *[f"{how} ms" for how in HOW], "to the least")
    for name, ms in prices.items():
        if not ms["search"]:
            continue                     # no value has a choice
        ratio = min(ms.values()) / ms["search"]
        table.add(name, [f"{ms[how]:.4g}" for how in HOW] + [f"{ratio:.4f}"], {"model": name, "priced_ms": ms}, ratio, 1.0)
