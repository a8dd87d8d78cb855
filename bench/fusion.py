"""Fusion: the search against the rules of others (rivals.py), with the same kernels, formats and threads.

Tables: kernels and bytes kept (T1), times (T2), the search (T3), the prices (T4), what each part gives (T5), arena
and compiling (T7, T8). Counts need no measuring: they come from `tenon explain --json`.
"""
import pathlib
import re
import statistics
import time

from measure import TENON, Bench, geomean, quiet, rank_correlation
from plot import bars
from rivals import RULES, objects, plan_of

MODES = ["none", *RULES, "dp"]
MB = 2**20
# One technique more in each: values between kernels in the model's order until formats are searched, sums as the model says until the last.
PARTS = {"none": ("none", "none", "--exact"), "tvm": ("tvm", "none", "--exact"), "dp": ("dp", "none", "--exact"), "dp, formats": ("dp", "search", "--exact"),
         "all": ("dp", "search")}
# Kernels of the search, where there is a number to hold it to: one product or window a kernel, and what that leaves.
MOST_KERNELS = {"vgg16": 16, "efficientnet_b0": 82, "mobilenet_v1": 28, "yolov4_416": 113, "resnet50": 55, "bert_base": 97}


def fused(bench: Bench, model: pathlib.Path, mode: str, *options) -> tuple:
    """The options that fuse by a mode of the compiler, or by the plan of a rule."""
    if mode not in RULES:
        return "--fuse", mode
    file = bench.folder / f"{model.stem}.{mode}.plan"
    file.write_text(plan_of(model, mode, "--machine", bench.machine_file, *options))
    return "--fuse-plan", file


def told(bench: Bench, model: pathlib.Path, mode: str) -> dict:
    """The largest graph's plan: bodies of loops are small."""
    return max(objects(quiet(TENON, "explain", model, *fused(bench, model, mode), "--json", "--machine", bench.machine_file)), key=lambda plan: plan["nests"])


def counts(bench: Bench, names: list[str], path_of) -> None:
    table = bench.table
    bench.facts()
    table.head("kernels", "nests", *MODES, "rate to tvm", "kept MB: tvm", "dp")
    plans = {}
    for name in names:
        try:
            plans[name] = {mode: told(bench, path_of(name), mode) for mode in MODES}
        except RuntimeError as error:
            table.fail(name, str(error))
            continue
        plan = plans[name]
        n = {mode: plan[mode]["kernels"] for mode in MODES}
        kept = {mode: sum(g["saved_bytes"] for g in plan[mode]["groups"]) / MB for mode in MODES}
        floor = MOST_KERNELS.get(name)
        table.add(name, [str(plan["none"]["nests"])] + [str(n[mode]) for mode in MODES] + [f"{n['tvm'] / n['dp']:.2f}", f"{kept['tvm']:.1f}", f"{kept['dp']:.1f}"],
                  {"model": name, "nests": plan["none"]["nests"], "kernels": n, "kept_mb": kept}, *([n["dp"], floor, floor] if floor else []), most=True)
    table.head("the search", "states", "sets", "prices", "new", "ms", "exact", "predicted ms: tvm", "dp", "apart")
    for name, plan in plans.items():
        dp = plan["dp"]
        reasons = {}
        for pair in dp["apart"]:
            reasons[pair["reason"]] = reasons.get(pair["reason"], 0) + 1
        predicted = {mode: sum(g["seconds"] for g in plan[mode]["groups"]) * 1e3 for mode in MODES}
        table.add(name, [str(dp[k]) for k in ("states", "sets", "priced", "composed")] + [f"{dp['search_seconds'] * 1e3:.0f}", "yes" if dp["exact"] else "no"]
                  + [f"{predicted[mode]:.2f}" for mode in ("tvm", "dp")] + [", ".join(f"{n} {r}" for r, n in sorted(reasons.items()))],
                  {"model": name, "search": {k: dp[k] for k in ("states", "sets", "priced", "composed", "search_seconds", "exact", "bound", "second_best")},
                   "predicted_ms": predicted, "apart": reasons}, dp["search_seconds"] if dp["exact"] else float("inf"), 2.0, 0.5, most=True)


def compiled(bench: Bench, model: pathlib.Path, mode: str, *options: str) -> dict:
    so = bench.folder / f"{model.stem}.{mode}.so"
    start = time.monotonic()
    text = quiet(TENON, "compile", model, "-o", so, *fused(bench, model, mode, *options), "--machine", bench.machine_file, *options)
    arena = re.search(r"arena ([\d.]+) ([KMG]?)B", text)
    return {"so": so, "seconds": time.monotonic() - start,
            "arena_mb": float(arena[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[arena[2]] / MB if arena else None}


def in_turn(bench: Bench, made: dict, data: pathlib.Path, threads: int) -> dict[str, list[float]]:
    rounds = {key: [] for key in made}
    for _ in range(bench.rounds):
        for key in made:
            rounds[key].append(bench.tenon(made[key]["so"], data, threads)["median_ms"])
    return rounds


def prices(bench: Bench, so: pathlib.Path, data: pathlib.Path, threads: int) -> dict:
    """Of the kernels of one artefact: how far the order of predicted times is that of measured ones."""
    rows = [k for k in bench.tenon(so, data, threads, "--warmup", 3, "--duration", bench.seconds, "--profile")["kernels"] if k["calls"]]
    measured, predicted = [k["ms"] / k["calls"] for k in rows], [k["predicted_ms"] for k in rows]
    return {"kernels": len(rows), "rank": rank_correlation(measured, predicted)}


def times(bench: Bench, names: list[str], path_of, threads: int) -> None:
    table = bench.table
    bench.facts()
    table.head(f"times, {threads} thread{'s'[:threads - 1]}", *[f"{mode} ms" for mode in MODES], "to tvm", "to none", "dp: regret", "rank", "arena MB: tvm", "dp", "compiling s")
    gains = {"tvm": [], "none": []}
    for name in names:
        try:
            model = path_of(name)
            data = bench.data_of(model)
            made = {mode: compiled(bench, model, mode) for mode in MODES}
            rounds = in_turn(bench, made, data, threads)
            priced = prices(bench, made["dp"]["so"], data, threads)
        except RuntimeError as error:
            table.fail(name, str(error))
            continue
        ms = {mode: statistics.median(r) for mode, r in rounds.items()}
        gain = {mode: ms[mode] / ms["dp"] for mode in gains}
        for mode, ratio in gain.items():
            gains[mode].append(ratio)
        arena = {mode: made[mode]["arena_mb"] for mode in MODES}
        table.add(name, [f"{ms[mode]:.2f}" for mode in MODES] + [f"{gain[mode]:.3f}" for mode in gains]
                  + [f"{100 * (ms['dp'] / min(ms.values()) - 1):.1f} %", f"{priced['rank']:.2f}"]
                  + [f"{arena[mode]:.1f}" if arena[mode] else "symbols" for mode in ("tvm", "dp")] + [f"{made['dp']['seconds']:.1f}"],
                  {"model": name, "threads": threads, "ms": ms, "rounds": rounds, "prices": priced, "arena_mb": arena, "compile_s": {mode: made[mode]["seconds"] for mode in MODES}},
                  min(ms[mode] / ms["dp"] for mode in MODES[:-1]), 0.97, 1.0)
        for mode in MODES:
            made[mode]["so"].unlink()
        bench.forget(model)
    for mode, floor, aim in (("tvm", 1.15, 1.3), ("none", 1.4, 1.8)):
        if len(gains[mode]) > 1:
            table.add(f"geometric mean to {mode}", [""] * len(MODES) + [f"{geomean(gains[mode]):.3f}" if mode == of else "" for of in gains], {"threads": threads, "to": mode, "geomean": geomean(gains[mode])},
                      geomean(gains[mode]), floor, aim)


def plot(bench: Bench, path: str) -> None:
    """The rows of `times` as bars."""
    rows = [{"label": f"{r['model']}, {r['threads']} thread{'s'[:r['threads'] - 1]}", "ms": {mode: r["ms"][mode] for mode in MODES}} for r in bench.table.rows if "ms" in r]
    if rows:
        pathlib.Path(path).write_text(bars("Time of each way of fusing, by that of dp", rows, "dp"))


def parts(bench: Bench, names: list[str], path_of, threads: int) -> None:
    """What each technique gives, one more from column to column."""
    table = bench.table
    table.head(f"each part, {threads} thread{'s'[:threads - 1]}", *[f"{part} ms" for part in PARTS], *[f"{part} gives" for part in list(PARTS)[1:]])
    for name in names:
        try:
            model = path_of(name)
            made = {}
            for part, (fuse, formats, *exact) in PARTS.items():
                made[part] = compiled(bench, model, fuse, "--formats", formats, *exact)
                made[part]["so"] = made[part]["so"].rename(bench.folder / f"{model.stem}.part{len(made)}.so")
            rounds = in_turn(bench, made, bench.data_of(model), threads)
        except RuntimeError as error:
            table.fail(name, str(error))
            continue
        ms = {part: statistics.median(r) for part, r in rounds.items()}
        times_of = list(ms.values())
        table.add(name, [f"{t:.2f}" for t in times_of] + [f"{a / b:.2f}" for a, b in zip(times_of, times_of[1:])], {"model": name, "threads": threads, "parts_ms": ms, "rounds": rounds})
        for part in made.values():
            part["so"].unlink()
        bench.forget(model)
