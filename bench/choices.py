"""How good the choice is: the cheapest schedules of every kernel of a model, predicted and measured.

`tenon compile --dump=choose --alternatives N` lists them. Artefact i has the i-th cheapest schedule in each kernel that
has so many, and runs under --profile, in turn with the others, so a kernel is timed where it stands: with what its
neighbours leave in the caches. Turns are short and many, since what else a machine does comes and goes, and of each kernel and
schedule the least of all turns counts. One more artefact has the cheapest schedules again: how often it is as good as the first
says what such times are worth.
"""
import collections
import json
import pathlib
import re
import statistics

from measure import TENON, Bench, geomean, quiet, rank_correlation

NAME = r'%("(?:[^"\\]|\\.)*"|[^\s:]+)'
WITHIN = 1.05                            # of the best: as good
LEAST_MS = 0.005                         # what is shorter is the clock's noise, and no one's time
TURNS, TURN_SECONDS = 20, 0.1            # longer turns differ by a fifth between runs of one artefact, these by 2 %


class Kernel:
    """All kernels that say the same: the values they make, and their cheapest programs, [(predicted ms, steps)]."""

    def __init__(self, value: str, origin: str):
        self.values, self.origin, self.programs = [value], origin, []


def listed(model: pathlib.Path, n: int, *options) -> list[Kernel]:
    text = quiet(TENON, "compile", model, "--dump=choose", "--stop-after=choose", "--alternatives", n, *options)
    kernels: dict[str, Kernel] = {}
    at = None
    for line in text.splitlines():
        if head := re.match(rf"; {NAME}: \d+ programs, (.*)", line):
            at = kernels.setdefault(head[1], Kernel(head[1], head[2]))
        elif again := re.match(rf"; {NAME}: as {NAME}$", line):
            if again[2] in kernels:
                kernels[again[2]].values.append(again[1])
        elif at and (price := re.match(r";   \S+ s, alone (\S+) s$", line)):
            at.programs.append((float(price[1]) * 1e3, []))
        elif at and at.programs and line.startswith(";     "):
            at.programs[-1][1].append(line[6:])
        else:
            at = None
    return list(kernels.values())


def variant(bench: Bench, model: pathlib.Path, kernels: list[Kernel], i: int, at: int, options) -> pathlib.Path:
    """Artefact `at`, in which every kernel has its i-th program, or its last."""
    pins, so = bench.folder / f"{model.stem}.choices", bench.folder / f"{model.stem}.{at}.so"
    pins.write_text("".join(f"%{v} {{\n" + "\n".join(k.programs[min(i, len(k.programs) - 1)][1]) + "\n}\n"
                            for k in kernels if k.programs for v in k.values))
    quiet(TENON, "compile", model, "--choices", pins, "-o", so, *options)
    return so


def measured(bench: Bench, model: pathlib.Path, kernels: list[Kernel], n: int, threads: int, turns: tuple, options) -> dict[str, tuple]:
    """Of each kernel, by where it comes from: ms of one call with each program, calls, and ms with the first program again. Only
    those that stand alone or among their like in every artefact: code that two kinds of kernels share is one row."""
    data = bench.data_of(model)
    every = [variant(bench, model, kernels, i, at, options) for at, i in enumerate([*range(n), 0])]
    best = [collections.defaultdict(lambda: (float("inf"), 0)) for _ in every]
    for _ in range(turns[0]):
        for i, so in enumerate(every):
            for row in bench.tenon(so, data, threads, "--warmup", 2, "--duration", turns[1], "--profile")["kernels"]:
                if row["calls"]:
                    best[i][row["origin"]] = min(best[i][row["origin"]], (row["ms"] / row["calls"], row["calls"]))
    for so in every:
        so.unlink()
    out = {}
    for k in kernels:
        seen = [b[k.origin] for b in best[:len(k.programs)] if k.origin in b]
        if seen and len(seen) == len(k.programs) and len({calls for _, calls in seen}) == 1:
            out[k.origin] = [ms for ms, _ in seen], seen[0][1], best[n][k.origin][0]
    return out


def compare(bench: Bench, name: str, model: pathlib.Path, n: int, threads: int, turns: tuple, show: int) -> dict | None:
    options = ("--machine", bench.machine_file)
    kernels = listed(model, n, *options)
    times = measured(bench, model, kernels, n, threads, turns, options)
    rows = []
    for k in kernels:
        if k.origin not in times or min(times[k.origin][0]) < LEAST_MS:
            continue
        ms, calls, again = times[k.origin]
        predicted = [p for p, _ in k.programs]
        rows.append(dict(origin=k.origin, calls=calls, chosen_ms=ms[0], again_ms=again, best_ms=min(ms), predicted_ms=predicted, measured_ms=ms, best=ms.index(min(ms)),
                         programs=["\n".join(s) for _, s in k.programs]))
    if not rows:
        return None
    rows.sort(key=lambda r: r["calls"] * (r["best_ms"] - r["chosen_ms"]))
    print(f"\n{name}: {len(rows)} kernels; chosen and best of {n} [ms a run], predicted over measured, and what is lost")
    for r in rows[:show]:
        print(f"{r['calls'] * r['chosen_ms']:9.3f}{r['calls'] * r['best_ms']:9.3f}  #{r['best']}{r['predicted_ms'][0] / r['chosen_ms']:6.2f}"
              f"{r['predicted_ms'][r['best']] / r['best_ms']:6.2f}{100 * (r['chosen_ms'] / r['best_ms'] - 1):5.0f} %  {r['origin'][:90]}")
    within = [rank_correlation(r["predicted_ms"], r["measured_ms"]) for r in rows if len(r["measured_ms"]) > 2]
    within = [w for w in within if w == w]
    good = sum(r["chosen_ms"] <= WITHIN * r["best_ms"] for r in rows)
    same = sum(max(r["chosen_ms"], r["again_ms"]) <= WITHIN * min(r["chosen_ms"], r["again_ms"]) for r in rows)
    return dict(model=name, threads=threads, kernels=rows, within=statistics.mean(within) if within else None,
                over=rank_correlation([r["predicted_ms"][0] for r in rows], [r["chosen_ms"] for r in rows]) if len(rows) > 2 else None,
                share=good / len(rows), same=same / len(rows), good=good, of=len(rows),
                chosen_ms=sum(r["calls"] * r["chosen_ms"] for r in rows), best_ms=sum(r["calls"] * r["best_ms"] for r in rows))


def choices(bench: Bench, names: list[str], path_of, n: int, threads: list[int], turns: tuple, show: int) -> None:
    bench.facts()                            # what is priced is this machine
    table, good, of, tables = bench.table, 0, 0, []
    for name in names:
        try:
            path = path_of(name)
            tables += [compare(bench, name, path, n, t, turns, show) for t in threads]
        except RuntimeError as error:
            table.fail(name, str(error))
        bench.forget(path)
    tables = [t for t in tables if t]
    table.head("choices", "kernels", "chosen ms", "best ms", "rank within", "over kernels", f"within {100 * (WITHIN - 1):.0f} %", "the same twice")
    for t in tables:
        number = lambda x: "-" if x is None else f"{x:.3f}"
        table.add(f"{t['model']}, {t['threads']} thread{'s'[:t['threads'] - 1]}", [str(t["of"]), f"{t['chosen_ms']:.2f}", f"{t['best_ms']:.2f}",
                  number(t["within"]), number(t["over"]), f"{100 * t['share']:.0f} %", f"{100 * t['same']:.0f} %"], t, t["over"], 0.8, 0.95)
        good, of = good + t["good"], of + t["of"]
    if of:
        lost = geomean(t["chosen_ms"] / t["best_ms"] for t in tables)
        table.add("chosen among the best", [str(of), f"{lost:.3f} of best", "", "", "", f"{100 * good / of:.0f} %", ""],
                  dict(share=good / of, lost=lost), good / of, 0.8, 0.95)
