#!/usr/bin/env python3
"""Tenon and its peers in one run, in turn, on the same cores; and what Tenon's compiler costs.

    bench.py [WHAT] [options] [NAME…]

    all          models, nets, attention and the compiler's cost (default)
    models       the nets of bench/models against ONNX Runtime and OpenVINO, on one and two threads
    nets         eight nets of our own that are unlike them, the same way
    attention    12 heads of 64 against its three kernels one by one, and the peers
    ops          73 operators in shapes that leave the cache against ONNX Runtime; products against the core's peak
    threads      two threads against one
    compiler     compiling, loading, memory
    dynamic      one artefact for all sizes against one for each; decoders with their cache against ONNX Runtime, OpenVINO and llama.cpp,
                 with weights of fewer bits, of a prompt, without fusion, variants, state; bytes between kernels against a pool's
    profile      the slowest kernels of models and nets, and how well their times were predicted
    formats      formats as searched against one order for all and the model's own orders; and what searching takes
    fusion       kernels, bytes and the search, beside plans by rules of others; with --threads N times too
    choices      the cheapest schedules of each kernel of models and nets: whether the one that is taken is the fastest
    real         open sizes against fixed ones and ONNX Runtime: convolutions, nets of bench/zoo, and models that packages ship; NAME may also
                 be convolutions, nets or packages
    sparse       attention under masks against the share of it that each shows, and against
                 FlexAttention where bench/requirements-torch.txt is installed;
                 --rule: blocks of keys against rows
    layers       an encoder layer under masks, and decoders' first step, which the causal mask halves
    ragged       padded batches computed for their tokens alone against the work that padding is
    batch        requests with control of their own run together against one by one, and DyNet
    web          WebAssembly in Node against onnxruntime-web

NAME picks rows of WHAT. Every number is printed beside its floor and its aim, met or missed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import batch
import decoding
import fusion
import layers
import ragged
import real
import record
import sizes
import sparse
import stof_rule
import web
from choices import TURNS, TURN_SECONDS, choices
from formats import formats, searches
from measure import BUILD, MAKE_INPUTS, MODELS, PEERS, ROOT, TENON, Bench, geomean, processor, python, quiet, rank_correlation

ZOO = ["mobilenet_v1", "mobilenet_v2", "resnet50", "vgg16", "efficientnet_b0", "squeezenet1_1", "mixer_b16", "vit_b_16", "bert_base",
       "gpt2", "smollm_135m", "yolov4_416"]
NETS = ["grouped", "dense", "large_depthwise", "inception", "high_resolution", "windowed_attention", "denoiser",
        "generator"]
FORMATS = ["mobilenet_v1", "mobilenet_v2", "efficientnet_b0", "resnet50", "squeezenet1_1", "yolov4_416", "mixer_b16", "mixer_s32", "segmentation"]
SCALING = ["mobilenet_v1", "mobilenet_v2", "resnet50", "bert_base"]
SEQUENCES = [128, 256, 512, 1024, 2048]
COLD_SECONDS, WARM_SECONDS, LOAD_MS, RESIDENT, COMPILE_MEMORY = (4, 2), (0.5, 0.2), 50, 1.3, 3
MB = 1e6


def filled(name: str) -> pathlib.Path:
    quiet(sys.executable, ROOT / "bench/fill.py", MODELS, name)
    return MODELS / f"{name}.onnx"


def made(script: str, folder: pathlib.Path, *args) -> list[pathlib.Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [pathlib.Path(p) for p in quiet(sys.executable, ROOT / "bench" / script, folder, *args).split()]


def rows(names: list[str], wanted: list[str]) -> list[str]:
    unknown = [w for w in wanted if not any(n.startswith(w) for n in names)]
    if unknown:
        sys.exit(f"bench: {', '.join(unknown)}: no such row. There are: {', '.join(names)}")
    return [n for n in names if not wanted or any(n.startswith(w) for w in wanted)]


# ---- speed against peers --------------------------------------------------------------------------------


def against_peers(bench: Bench, title: str, names: list[str], path_of, threads: int, floor: float, least: float, aim: float) -> None:
    """A row for each model, its ratio to the better peer; and their geometric mean."""
    engines, ratios = list(PEERS), []
    bench.table.head(f"{title}, {threads} thread{'s'[:threads - 1]}", "Tenon ms", *[f"{PEERS[e]} ms" for e in engines], "ratio to best")
    for name in names:
        try:
            path = path_of(name)
            times = bench.race(path, threads, engines)
        except RuntimeError as error:
            bench.table.fail(name, str(error))
            continue
        ours = statistics.median(times["tenon"])
        theirs = {e: statistics.median(times[e]) for e in engines if e in times}
        ratio = min(theirs.values()) / ours
        ratios.append(ratio)
        bench.table.add(name, [f"{ours:.2f}"] + [f"{theirs[e]:.2f}" if e in theirs else "-" for e in engines] + [f"{ratio:.2f}"],
                        dict(threads=threads, tenon_ms=ours, peer_ms=theirs, ratio=ratio, rounds=times), ratio, least, aim)
        bench.forget(path)
    if len(ratios) > 1:
        bench.table.add("geometric mean", ["", *[""] * len(engines), f"{geomean(ratios):.3f}"], dict(threads=threads, geomean=geomean(ratios)),
                        geomean(ratios), floor, aim)


def thread_counts(bench: Bench, o) -> list[int]:
    return [t for t in (o.threads or [1, 2]) if t <= len(bench.cores)]


def models(bench: Bench, o) -> None:
    for threads in thread_counts(bench, o):
        against_peers(bench, "models", rows(ZOO, o.names), filled, threads, 0.97 if threads == 1 else 0.95, 0.85, 1.1)


def nets(bench: Bench, o) -> None:
    path_of = lambda name: made("nets.py", BUILD / "nets", name)[0]
    for threads in thread_counts(bench, o):
        against_peers(bench, "nets", rows(NETS, o.names), path_of, threads, 0.95, 0.8, 1.1)


def attention(bench: Bench, o) -> None:
    """Against the sum of its three kernels, each alone, as they are where nothing fuses them."""
    for threads in thread_counts(bench, o):
        bench.table.head(f"attention, {threads} thread{'s'[:threads - 1]}", "Tenon ms", "three kernels", *[f"{PEERS[e]} ms" for e in PEERS], "ratio to three")
        for seq in [s for s in SEQUENCES if not o.names or str(s) in o.names]:
            path, *parts = made("attention.py", bench.folder, str(seq))
            try:
                times = bench.race(path, threads, list(PEERS), check=True)
                apart = 0.0
                for part in parts:
                    so, data = bench.prepare(part)
                    apart += statistics.median(bench.tenon(so, data, threads)["median_ms"] for _ in range(bench.rounds))
            except RuntimeError as error:
                bench.table.fail(f"sequence of {seq}", str(error))
                continue
            ours = statistics.median(times["tenon"])
            theirs = {e: statistics.median(times[e]) for e in PEERS if e in times}
            bench.table.add(f"sequence of {seq}", [f"{ours:.3f}", f"{apart:.3f}", *[f"{theirs[e]:.3f}" if e in theirs else "-" for e in PEERS],
                                                   f"{apart / ours:.2f}"],
                            dict(threads=threads, seq=seq, tenon_ms=ours, apart_ms=apart, peer_ms=theirs), apart / ours, 1.3, 2.0)
            for p in (path, *parts):
                bench.forget(p)


def threads_gain(bench: Bench, o) -> None:
    if len(bench.cores) < 2:
        sys.exit("bench threads: there is one core")
    bench.table.head("two threads against one", "one, ms", "two, ms", "times faster")
    for name in rows(SCALING, o.names):
        path = filled(name)
        so, data = bench.prepare(path)
        one, two = [], []
        for _ in range(bench.rounds):
            one.append(bench.tenon(so, data, 1)["median_ms"])
            two.append(bench.tenon(so, data, 2)["median_ms"])
        a, b = statistics.median(one), statistics.median(two)
        bench.table.add(name, [f"{a:.2f}", f"{b:.2f}", f"{a / b:.2f}"], dict(one_ms=a, two_ms=b, gain=a / b), a / b, 1.75, 1.92)
        bench.forget(path)


# ---- operators ----------------------------------------------------------------------------------------------


def cases() -> dict[str, str | None]:
    """Every operator and what it is held to, asked of the script that knows, since NumPy is not for this process."""
    ask = "import sys; sys.path.insert(0, sys.argv[1]); import ops; " \
          "print({n: ('product' if n in ops.PRODUCTS else c[1]) for n, c in ops.ALL.items()})"
    import ast
    return ast.literal_eval(quiet(sys.executable, "-c", ask, ROOT / "bench"))


def moved_bytes(bench: Bench, so: pathlib.Path, data: pathlib.Path, threads: int) -> float:
    """What goes in and out of all kernels, as the artefact says."""
    out = bench.folder / "profile.json"
    quiet(TENON, "bench", so, "--threads", threads, "--iterations", 1, "--warmup", 0, "--profile", "--json", out, *bench.inputs(data))
    return sum(k["bytes"] for k in json.loads(out.read_text())["kernels"])


def ops(bench: Bench, o) -> None:
    """On one thread; thin products, which only bandwidth holds back, on two as well."""
    known = cases()
    wanted = rows(list(known), o.names)
    for threads in thread_counts(bench, o):
        only_thin = not o.threads and threads > 1
        named = [n for n in wanted if known[n] != "product" and (not only_thin or known[n] == "thin")]
        ratios = {}
        if named:
            bench.table.head(f"operators, {threads} thread{'s'[:threads - 1]}", "Tenon ms", "ONNX Runtime", "ratio", "GB/s", "of bandwidth")
        for name in named:
            operator(bench, name, known[name], threads, ratios)
        if only_thin:
            continue
        if len(ratios) > 1:
            worst = min(ratios, key=ratios.get)
            bench.table.add("geometric mean", ["", "", f"{geomean(ratios.values()):.3f}", "", ""],
                            dict(threads=threads, geomean=geomean(ratios.values()), worst=worst), geomean(ratios.values()), 1.0, 1.5)
            print(f"worst: {', '.join(f'{n} {ratios[n]:.2f}' for n in sorted(ratios, key=ratios.get)[:8])}")
        products(bench, [n for n in wanted if known[n] == "product"], threads)


def operator(bench: Bench, name: str, kind: str | None, threads: int, ratios: dict) -> None:
    path = made("ops.py", bench.folder, name)[0]
    yard = {"thin": "read", "move": "copy", "map": "copy"}.get(kind)
    try:
        times = bench.race(path, threads, ["onnxruntime"], check=True, yard=yard)
        so, data = bench.prepare(path)
        moved = moved_bytes(bench, so, data, threads)
    except RuntimeError as error:
        bench.table.fail(name, str(error))
        return
    finally:
        bench.forget(path)
    ours, theirs = statistics.median(times["tenon"]), statistics.median(times["onnxruntime"])
    ratio, rate = theirs / ours, moved / ours * 1e-6
    ratios[name] = ratio
    numbers = dict(threads=threads, tenon_ms=ours, onnxruntime_ms=theirs, ratio=ratio, gbps=rate, rounds=times)
    share = None
    if yard:
        share = moved / times["least"] * 1e-6 / times["most"]
        numbers["share"] = share
    bench.table.add(name, [f"{ours:.3f}", f"{theirs:.3f}", f"{ratio:.2f}", f"{rate:.1f}", f"{100 * share:.0f} %" if share else ""], numbers, ratio, 0.5, 0.9)
    if share:
        floor, aim = (0.8, 0.95) if kind == "thin" else (0.7, 0.9)
        bench.table.add(f"  share of {yard} bandwidth", ["", "", "", "", f"{100 * share:.0f} %"],
                        dict(threads=threads, of=name, share=share), share, floor, aim)


def products(bench: Bench, names: list[str], threads: int) -> None:
    if not names:
        return
    bench.table.head(f"products, {threads} thread{'s'[:threads - 1]}", "Tenon GFLOP/s", "ONNX Runtime", "ratio", "of peak")
    for name in names:
        path, n = made("ops.py", bench.folder, name)[0], int(name.split("_")[1])
        times = bench.race(path, threads, ["onnxruntime"], check=True, yard="peak")
        rate = {e: 2 * n**3 / statistics.median(times[e]) * 1e-6 for e in ("tenon", "onnxruntime")}
        share = 2 * n**3 / times["least"] * 1e-6 / times["most"]
        bench.table.add(f"{n} x {n} x {n}", [f"{rate['tenon']:.1f}", f"{rate['onnxruntime']:.1f}", f"{rate['tenon'] / rate['onnxruntime']:.2f}", f"{100 * share:.0f} %"],
                        dict(threads=threads, tenon_gflops=rate["tenon"], onnxruntime_gflops=rate["onnxruntime"], peak_gflops=times["most"], share=share),
                        share, 0.85, 0.94)
        bench.forget(path)


# ---- compiling, loading, memory ------------------------------------------------------------------------


def compile_once(model: pathlib.Path, so: pathlib.Path, cache: pathlib.Path) -> tuple[float, int]:
    """Seconds, and the memory of the largest process in it: Tenon's or a C compiler's."""
    start = time.perf_counter()
    child = subprocess.Popen([TENON, "compile", str(model), "-o", str(so), "--cache-dir", str(cache)], stdout=subprocess.DEVNULL)
    _, status, use = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"bench: compiling {model.name} failed")
    return time.perf_counter() - start, use.ru_maxrss * 1024


def compiler(bench: Bench, o) -> None:
    table = bench.table
    table.head("compiler, all cores", "measured", "beside")
    model, so, cache = filled("resnet50"), bench.folder / "resnet50.so", bench.folder / "cache"
    cold, memory = compile_once(model, so, cache)
    warm = statistics.median(compile_once(model, so, cache)[0] for _ in range(3))
    table.add("resnet50, empty cache", [f"{cold:.1f} s", ""], dict(seconds=cold), cold, *COLD_SECONDS, most=True)
    table.add("resnet50, warm cache", [f"{warm:.2f} s", ""], dict(seconds=warm), warm, *WARM_SECONDS, most=True)
    memory_row(table, "resnet50", memory, model)
    loading(bench)


def memory_row(table, name: str, memory: int, model: pathlib.Path) -> None:
    size = model.stat().st_size
    table.add(f"{name}, peak memory", [f"{memory / MB:.0f} MB", f"model {size / MB:.0f} MB"], dict(bytes=memory, model_bytes=size), memory / size,
              COMPILE_MEMORY, most=True)


def loading(bench: Bench) -> None:
    table, model, so, data = bench.table, filled("vgg16"), bench.folder / "vgg16.so", bench.folder / "vgg16-data"
    data.mkdir()
    python(MAKE_INPUTS, model, data)
    _, memory = compile_once(model, so, bench.folder / "cache")
    memory_row(table, "vgg16", memory, model)
    runs = [json.loads(quiet(BUILD / "bench_load", so, data / "input.npy", preexec_fn=bench.pin_to(1))) for _ in range(3)]
    load = statistics.median(r["load_ms"] for r in runs)
    used, needed = max(r["peak_bytes"] for r in runs), model.stat().st_size + runs[0]["arena_bytes"]
    table.add("vgg16, loading", [f"{load:.2f} ms", ""], dict(ms=load), load, LOAD_MS, most=True)
    table.add("vgg16, resident in a run", [f"{used / MB:.0f} MB", f"needs {needed / MB:.0f} MB"], dict(bytes=used, weights_and_arena_bytes=needed),
              used / needed, RESIDENT, most=True)


# ---- profiles --------------------------------------------------------------------------------------------------


def profile(bench: Bench, o) -> None:
    bench.facts()
    for name in rows(ZOO + NETS, o.names):
        path = filled(name) if name in ZOO else made("nets.py", BUILD / "nets", name)[0]
        so, data = bench.prepare(path)
        for threads in thread_counts(bench, argparse.Namespace(threads=o.threads or [1])):
            told = bench.tenon(so, data, threads, "--duration", bench.seconds, "--profile", "--machine", bench.machine_file)
            kernels = told["kernels"]
            print(f"\n{name}, {threads} thread{'s'[:threads - 1]}: {told['median_ms']:.2f} ms, {len(kernels)} different kernels")
            print(f"{'ms':>9}{'share':>8}{'calls':>7}{'GFLOP/s':>9}{'GB/s':>8}{'roof':>7}  kernel")
            for k in kernels[:o.top]:
                print(f"{k['ms']:9.3f}{100 * k['share']:6.1f} %{k['calls']:7g}{k['gflops']:9.1f}{k['gbps']:8.2f}{100 * k['roof']:5.0f} %  {k['name']}  {k['origin'][:80]}")
            predicted = [k for k in kernels if k["predicted_ms"] > 0]
            if len(predicted) > 2:
                r = rank_correlation([k["predicted_ms"] for k in predicted], [k["ms"] for k in predicted])
                bench.table.add(f"{name}: rank correlation", [f"{r:.3f}"], dict(threads=threads, model=name, rank_correlation=r), r, 0.8, 0.95)
        bench.forget(path)


def pick_choices(bench: Bench, o) -> None:
    path_of = lambda name: filled(name) if name in ZOO else made("nets.py", BUILD / "nets", name)[0]
    choices(bench, rows(ZOO + NETS, o.names), path_of, o.alternatives, o.threads or [1],
            (o.rounds or TURNS, o.seconds or TURN_SECONDS), o.top)


# ---- formats ---------------------------------------------------------------------------------------------------


def pick_formats(bench: Bench, o) -> None:
    path_of = lambda name: filled(name) if name in ZOO else made("nets.py", BUILD / "nets", name)[0]
    for threads in thread_counts(bench, o):
        formats(bench, rows(FORMATS, o.names), path_of, threads)
    searches(bench, [n for n in [*ZOO, "mixer_b16_42", "segmentation"] if not o.names or any(n.startswith(w) for w in o.names)], path_of)


# ---- fusion ----------------------------------------------------------------------------------------------------


def pick_fusion(bench: Bench, o) -> None:
    """Counts of all; times too where threads are named."""
    names = rows(ZOO, o.names)
    fusion.counts(bench, names, filled)
    for threads in o.threads or []:
        fusion.times(bench, names, filled, threads)
        fusion.parts(bench, names, filled, threads)
    if o.plot:
        fusion.plot(bench, o.plot)


# ---- open sizes, and what stays between runs ----------------------------------------------------------------------


def dynamic(bench: Bench, o) -> None:
    bench.facts()
    for threads in thread_counts(bench, argparse.Namespace(threads=o.threads or [1])):
        every = rows([*sizes.SIZES, *decoding.DECODERS], o.names)
        sized, decoders = [n for n in every if n in sizes.SIZES], [n for n in every if n in decoding.DECODERS]
        if sized:
            sizes.open_sizes(bench, filled, sized, threads)
        if decoders:
            decoding.decode(bench, decoders, threads)
            decoding.widths(bench, threads)
            decoding.beside_llama(bench, threads)
            decoding.ablation(bench, threads)
            sizes.memory(bench)


# ---- real models ---------------------------------------------------------------------------------------------------


def pick_real(bench: Bench, o) -> None:
    for threads in thread_counts(bench, argparse.Namespace(threads=o.threads or [1])):
        real.real(bench, o.names, threads)


def pick_sparse(bench: Bench, o) -> None:
    for threads in thread_counts(bench, argparse.Namespace(threads=o.threads or [1])):
        if o.rule:
            stof_rule.rule(bench, o.names, threads, o.lengths)
        else:
            sparse.sparse(bench, o.names, threads, o.heads, o.size, o.lengths)


def pick_layers(bench: Bench, o) -> None:
    for threads in thread_counts(bench, argparse.Namespace(threads=o.threads or [1])):
        layers.layers(bench, o.names, threads, filled)


def pick_ragged(bench: Bench, o) -> None:
    for threads in thread_counts(bench, argparse.Namespace(threads=o.threads or [1])):
        ragged.ragged(bench, o.names, threads, o.batches)


def pick_batch(bench: Bench, o) -> None:
    for threads in thread_counts(bench, argparse.Namespace(threads=o.threads or [1])):
        batch.batch(bench, rows(batch.ALL, o.names), o.size, o.batches, threads)


def pick_web(bench: Bench, o) -> None:
    named = rows(["mobilenet_v2", "squeezenet1_1", "bert_base", "denoiser"], o.names)
    web.web(bench, [made("nets.py", BUILD / "nets", n)[0] if n == "denoiser" else filled(n) for n in named])


# ---- the door -----------------------------------------------------------------------------------------------------


def everything(bench: Bench, o) -> None:
    for part in (models, nets, attention, threads_gain, compiler):
        part(bench, o)


WHAT = {"all": everything, "models": models, "nets": nets, "attention": attention, "ops": ops, "threads": threads_gain,
        "compiler": compiler, "profile": profile, "formats": pick_formats, "fusion": pick_fusion, "choices": pick_choices, "dynamic": dynamic, "real": pick_real, "sparse": pick_sparse, "layers": pick_layers,
        "ragged": pick_ragged, "batch": pick_batch, "web": pick_web}


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def head_pairs(text: str) -> list[tuple[int, int]]:
    """12/12,32/8: heads of queries, and of keys and values, which divide them."""
    pairs = [tuple(int(word) for word in pair.split("/")) for pair in text.split(",")]
    if any(len(pair) != 2 or min(pair) < 1 or pair[0] % pair[1] for pair in pairs):
        raise ValueError(text)
    return pairs


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("what", nargs="?", default="all", metavar="WHAT")
    words.add_argument("names", nargs="*", metavar="NAME", help="rows whose names begin so")
    words.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    words.add_argument("--rounds", type=int, metavar="N", help="rounds of turns (default 5)")
    words.add_argument("--seconds", type=float, metavar="S", help="of each turn (default 2)")
    words.add_argument("--threads", type=int, action="append", metavar="N", help="on N threads; repeat for more")
    words.add_argument("--machine", metavar="FILE", help="facts of this machine, as tenon machine wrote them (default: measured now)")
    words.add_argument("--top", type=int, default=12, metavar="N", help="kernels that profile shows")
    words.add_argument("--alternatives", type=int, default=8, metavar="N", help="schedules of each kernel that choices times")
    words.add_argument("--plot", metavar="FILE.svg", help="fusion: the times as bars")
    words.add_argument("--heads", type=head_pairs, metavar="Q/K,…",
                       help="sparse: heads of queries and of keys (default 12/12)")
    words.add_argument("--size", type=numbers, metavar="N,…",
                       help="sparse: sizes of a head (default 64); batch: of hidden states")
    words.add_argument("--batches", type=numbers, metavar="N,…",
                       help="batch: requests together; ragged: sequences (default 8,32)")
    words.add_argument("--lengths", type=numbers, metavar="N,…",
                       help="sparse: rows (default 128,1000,1024,4096; --quick: 128,1024)")
    words.add_argument("--rule", action="store_true",
                       help="sparse: what STOF's rule and the price choose of 12/12 heads of 64, "
                            "and the times of both")
    words.add_argument("--json", metavar="FILE", help="write every number to FILE")
    words.add_argument("--record", metavar="MACHINE",
                       help="keep the tables in bench/results/MACHINE.json and .md")
    o = words.parse_args()
    if o.what not in WHAT:                   # a name alone is a model's
        o.what, o.names = "models", [o.what, *o.names]
    bench = Bench(o)
    try:
        busy = os.getloadavg()[0]
        now = (f"one thread {bench.yardstick('peak', 1):.1f} GFLOP/s (f32), memory "
               f"{bench.yardstick('read', 1):.1f} GB/s read, "
               f"{bench.yardstick('copy', 1):.1f} GB/s copied, load {busy:.1f}")
        bench.table.say(f"{processor()}, cores {', '.join(map(str, bench.cores))}: {now}")
        if busy > 0.8:
            bench.table.say(f"this machine is busy (load {busy:.1f}): the numbers below are worth less")
        WHAT[o.what](bench, o)
    finally:
        bench.close()
    table = bench.table
    table.say(f"\n{table.missed} missed, {table.failed} failed" if table.missed or table.failed else "\nevery floor met")
    if o.record:
        print(f"wrote {record.record(o.record, o.what, processor(), now, table.tables)}")
    if o.json:
        facts = {"processor": processor(), "cores": bench.cores, "machine": bench.facts_read, "rows": table.rows}
        pathlib.Path(o.json).write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
