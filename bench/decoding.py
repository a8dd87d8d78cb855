"""Decoders that keep their cache as states: tokens one after the other after a prompt, against ONNX Runtime, OpenVINO and llama.cpp, with weights of
fewer bits, and without each part of what makes them fast. All is compiled for what `tenon machine` measured here.
"""
import json
import pathlib
import statistics
import sys

import numpy as np
import onnx

from measure import BUILD, PEERS, ROOT, TENON, quiet

DECODERS, CONTEXTS, STEPS = ["gpt2_cache", "smollm_135m_cache"], [128, 1024], 32
STATE = ["--state", "past_key_values.*=present.*"]


def decode(bench, names, threads: int) -> None:
    bench.table.head(f"decode, {threads} thread{'s'[:threads - 1]}", "Tenon ms", *PEERS.values(), "of bandwidth", "ratio")
    for name in names:
        quiet(sys.executable, ROOT / "bench/fill.py", BUILD / "zoo", name)
        model, so = BUILD / "zoo" / f"{name}.onnx", bench.folder / f"{name}.so"
        quiet(TENON, "compile", model, "--machine", bench.machine_file, *STATE, "-o", so)
        for context in CONTEXTS if "gpt2" not in name else CONTEXTS[:1]:
            out, ours, theirs, share = bench.folder / "decode.json", [], {p: [] for p in PEERS}, []
            try:
                for _ in range(max(bench.rounds // 2, 1)):
                    quiet(TENON, "bench", so, "--decode", STEPS, "--context", context, "--threads", threads, "--json", out, preexec_fn=bench.pin_to(threads))
                    found = json.loads(out.read_text())
                    ours.append(found["step_ms"])
                    share.append(found["bandwidth_share"])
                    for p, times in theirs.items():
                        times += json.loads(quiet(sys.executable, ROOT / "bench/decode_peer.py", p, model, threads, context, STEPS, preexec_fn=bench.pin_to(threads)))
            except RuntimeError as error:
                bench.table.fail(f"{name} after {context}", str(error))
                continue
            ms, peers, part = statistics.median(ours), {p: statistics.median(times) for p, times in theirs.items()}, statistics.median(share)
            ratio = min(peers.values()) / ms
            numbers = dict(threads=threads, context=context, tenon_ms=ms, peers_ms=peers, tokens_per_s=1e3 / ms, bandwidth_share=part)
            bench.table.add(f"{name} after {context}", [f"{ms:.2f}", *(f"{t:.2f}" for t in peers.values()), f"{100 * part:.0f} %", f"{ratio:.2f}"], numbers, ratio, 1.2, 2.0)
            bench.table.add("  share of read bandwidth", [*("" for _ in peers), "", f"{100 * part:.0f} %", ""], numbers, part, 0.75, 0.92)
        so.unlink()


LAYERS, HEADS, HEAD = 30, 9, 64      # of the attention of smollm_135m: queries' heads, and their size
WIDTHS = {"f32": [], **{called: ["--weights", how] for called, how in {
    "bf16": "bf16", "int8": "int8", "int4": "int4", "int8 x int8": "int8,activations=int8", "int4 x f32": "int4,activations=f32"}.items()}}
PROMPT = 512


def contexts_of(width: str) -> list[int]:
    return [CONTEXTS[0], PROMPT] + CONTEXTS[1:] * (width in ("f32", "bf16"))


def prompt_flops(model: pathlib.Path, tokens: int) -> float:
    """Of the products of a prompt's run: with weights, and of scores and values, hidden ones too."""
    graph = onnx.load(model, load_external_data=False).graph
    elements = {t.name: int(np.prod(t.dims)) for t in graph.initializer}
    return 2.0 * tokens * (sum(elements.get(n.input[1], 0) for n in graph.node if n.op_type == "MatMul") + 2 * LAYERS * HEADS * HEAD * tokens)


def widths(bench, threads: int) -> None:
    """Weights of one model in fewer bits, a few steps each in turn; beside each the rates at which this machine multiplies and reads then."""
    name = "smollm_135m_cache"
    model, out = BUILD / "zoo" / f"{name}.onnx", bench.folder / "decode.json"
    steps, prompts = {(w, c): [] for w in WIDTHS for c in contexts_of(w)}, {w: [] for w in WIDTHS}
    bench.table.head(f"weights, {threads} thread{'s'[:threads - 1]}", "ms a token", f"ms of {PROMPT}", "of bandwidth", "of peak")
    quiet(sys.executable, ROOT / "bench/fill.py", BUILD / "zoo", name)
    for w, how in WIDTHS.items():
        quiet(TENON, "compile", model, "--machine", bench.machine_file, *STATE, *how, "-o", bench.folder / f"{w}.so")
    flops = prompt_flops(model, PROMPT)
    for _ in range(bench.rounds):
        for w in WIDTHS:
            for context in contexts_of(w):
                peak = bench.yardstick("peak", threads)
                quiet(TENON, "bench", bench.folder / f"{w}.so", "--decode", STEPS // 2, "--context", context, "--threads", threads, "--json", out, preexec_fn=bench.pin_to(threads))
                r = json.loads(out.read_text())
                steps[w, context].append((r["step_ms"], r["bandwidth_share"]))
                if context == PROMPT:
                    prompt = 1e3 * PROMPT / r["prefill_tokens_per_s"]
                    prompts[w].append((prompt, flops / prompt / 1e6 / max(peak, bench.yardstick("peak", threads))))
    step, prompt = ({k: [statistics.median(x) for x in zip(*v)] for k, v in found.items()} for found in (steps, prompts))
    for w in WIDTHS:
        for context in contexts_of(w):
            ms, share = step[w, context]
            goal = (share, 0.75, 0.92) if w in ("f32", "bf16") else ()
            bench.table.add(f"{w}, after {context}", [f"{ms:.2f}", "", f"{100 * share:.0f} %", ""], dict(threads=threads, context=context, step_ms=ms, bandwidth_share=share), *goal)
        ms, peak = prompt[w]
        goal = (peak, 0.70, 0.88) if w == "f32" else ()
        bench.table.add(f"{w}, prompt", ["", f"{ms:.0f}", "", f"{100 * peak:.0f} %"], dict(threads=threads, prompt_ms=ms, peak_share=peak), *goal)
    for w, context in ((w, c) for w in ("int4", "int4 x f32") for c in contexts_of(w)):
        times = step["f32", context][0] / step[w, context][0]
        bench.table.add(f"{w} against f32, after {context}", ["", "", "", f"{times:.2f}"], dict(threads=threads, context=context, times=times), times, 4.0, 6.0)
    times = prompt["f32"][0] / max(prompt[w][0] for w in WIDTHS if w != "f32")
    bench.table.add("slowest prompt against f32", ["", "", "", f"{times:.2f}"], dict(threads=threads, times=times), times, 0.97, 1.0)
    for w in WIDTHS:
        (bench.folder / f"{w}.so").unlink()


# llama.cpp's widths and Tenon's that are alike: Q8_0 and Q4_0 have a scale for every 32 elements, so groups of 32 read as many bytes. llama.cpp makes
# what it multiplies those by integers of 8 bits as well; so does Tenon by int4, and by int8 where it is asked to.
ALIKE = {"f32": ("f32", []), "bf16": ("bf16", ["bf16"]), "int8": ("int8", ["int8,group=32"]), "int4": ("int4", ["int4,group=32"]),
         "int8 x int8": ("int8", ["int8,group=32,activations=int8"]), "int4 x f32": ("int4", ["int4,group=32,activations=f32"])}


def beside_llama(bench, threads: int) -> None:
    """Tokens against llama.cpp with the same weights, in as many bits, and a cache of f32 in both."""
    name = "smollm_135m_cache"
    model, so, file, out = BUILD / "zoo" / f"{name}.onnx", bench.folder / "beside.so", bench.folder / "beside.gguf", bench.folder / "decode.json"
    try:
        quiet(sys.executable, "-c", "import gguf, llama_cpp")
    except RuntimeError:
        print("\nllama.cpp is not there, or did not build: no rows against it")
        return
    bench.table.head(f"llama.cpp, {threads} thread{'s'[:threads - 1]}", "Tenon ms", "llama.cpp", "ratio")
    quiet(sys.executable, ROOT / "bench/fill.py", BUILD / "zoo", name)
    for called, (width, how) in ALIKE.items():
        try:
            quiet(sys.executable, ROOT / "bench/llama_file.py", model, width, file)
            if width == "f32":
                quiet(sys.executable, ROOT / "bench/llama_peer.py", file, threads, 16, 4, model, preexec_fn=bench.pin_to(threads))
        except RuntimeError as error:
            bench.table.fail(f"llama.cpp, {called}", str(error))
            return
        quiet(TENON, "compile", model, "--machine", bench.machine_file, *STATE, *(x for w in how for x in ("--weights", w)), "-o", so)
        for context in contexts_of(width):
            ours, theirs = [], []
            try:
                for _ in range(bench.rounds):
                    quiet(TENON, "bench", so, "--decode", STEPS // 2, "--context", context, "--threads", threads, "--json", out, preexec_fn=bench.pin_to(threads))
                    ours.append(json.loads(out.read_text())["step_ms"])
                    steps = json.loads(quiet(sys.executable, ROOT / "bench/llama_peer.py", file, threads, context, STEPS // 2, preexec_fn=bench.pin_to(threads)))
                    theirs.append(statistics.median(steps))
            except RuntimeError as error:
                bench.table.fail(f"{called} after {context}", str(error))
                continue
            ms, peer = statistics.median(ours), statistics.median(theirs)
            numbers = dict(threads=threads, context=context, width=called, tenon_ms=ms, llama_ms=peer)
            bench.table.add(f"{called} after {context}", [f"{ms:.2f}", f"{peer:.2f}", f"{peer / ms:.2f}"], numbers, peer / ms, 0.95, 1.15)
        so.unlink()
        file.unlink()


# What a token takes without each: options that leave it out. A cache that is no state is copied to another by the model itself.
WITHOUT = {"all of it": STATE, "one program for all sizes": [*STATE, "--variants", "1"], "every nest its own kernel": [*STATE, "--fuse", "none"], "no state": [],
           "OpenBLAS for each product": [*STATE, "--library", "blas=always"]}


def token_ms(bench, so: pathlib.Path, context: int, kept: bool, threads: int) -> float:
    out = bench.folder / "token.json"
    sizes = {"batch_size": 1, "sequence_length": 1, "past_sequence_length": context, "past_sequence_length + sequence_length": context + 1}
    how = ["--decode", STEPS // 2, "--context", context] if kept else [*(w for d, n in sizes.items() for w in ("--dim", f"{d}={n}")), "--warmup", 1, "-n", STEPS // 2]
    quiet(TENON, "bench", so, *how, "--threads", threads, "--json", out, preexec_fn=bench.pin_to(threads))
    return json.loads(out.read_text())["step_ms" if kept else "median_ms"]


def ablation(bench, threads: int) -> None:
    """Relax's, its section 5.2: each part left out by itself, in turn; what a part gives is at least nothing."""
    name = "smollm_135m_cache"
    quiet(sys.executable, ROOT / "bench/fill.py", BUILD / "zoo", name)
    made, found = {}, {}
    bench.table.head(f"a token without, {threads} thread{'s'[:threads - 1]}", *(f"after {c}, ms" for c in CONTEXTS), *("slower" for _ in CONTEXTS))
    for what, how in WITHOUT.items():
        made[what] = bench.folder / f"without-{len(made)}.so"
        try:
            quiet(TENON, "compile", BUILD / "zoo" / f"{name}.onnx", "--machine", bench.machine_file, *how, "-o", made[what])
        except RuntimeError as error:
            bench.table.fail(what, str(error))
            del made[what]
    for _ in range(bench.rounds):
        for what, so in made.items():
            for context in CONTEXTS:
                found.setdefault((what, context), []).append(token_ms(bench, so, context, bool(WITHOUT[what]), threads))
    for what, so in made.items():
        ms = [statistics.median(found[what, c]) for c in CONTEXTS]
        slower = [m / statistics.median(found["all of it", c]) for m, c in zip(ms, CONTEXTS)]
        bench.table.add(what, [*(f"{m:.2f}" for m in ms), *(f"{s:.2f}" for s in slower)], dict(threads=threads, ms=ms, slower=slower),
                        *([min(slower), 1.0] if what != "all of it" else []))
        so.unlink()
