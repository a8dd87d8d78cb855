"""Open sizes, and decoders that keep their cache: what they cost against what is fixed, and against ONNX Runtime and llama.cpp.

Rows of the first table are one artefact that runs at any size against one that was compiled for just that size, in turn. Rows of the second are tokens, one after the other, after a prompt.
Rows of the third are bytes between kernels: the plan's formula against a pool that allocates as the run goes. All is compiled for what `tenon machine` measured here.
"""
import collections
import json
import pathlib
import re
import statistics
import sys

import numpy as np
import onnx

from measure import BUILD, ROOT, TENON, quiet

ENCODED = [(1, 1), (1, 16), (1, 128), (4, 128), (1, 512), (8, 64)]
SIZES = {"bert_base": ENCODED, "gpt2": ENCODED, "smollm_135m": [(1, 16), (1, 128), (1, 512)], "resnet50": [(1,), (2,), (8,)]}
DECODERS, CONTEXTS, STEPS = ["gpt2_cache", "smollm_135m_cache"], [128, 1024], 32


def dims(sizes) -> list[str]:
    return [w for name, size in zip(("batch", "seq"), sizes) for w in ("--dim", f"{name}={size}")]


def with_batch(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The model for any batch, where it was exported for one."""
    model = onnx.load(path)
    first = [v.type.tensor_type.shape.dim[0] for v in [model.graph.input[0], *model.graph.output]]
    if all(d.dim_param for d in first):
        return path
    for d in first:
        d.dim_param = "batch"
    del model.graph.value_info[:]
    onnx.save(model, folder / path.name)
    return folder / path.name


def data_of(model: pathlib.Path, sizes, folder: pathlib.Path) -> list[str]:
    """Inputs of these sizes: ones of integers, noise of others."""
    words, named, r = [], dict(zip(("batch", "seq"), sizes)), np.random.default_rng(1)
    graph = onnx.load(model, load_external_data=False).graph
    for v in graph.input:
        shape = [d.dim_value or named[d.dim_param] for d in v.type.tensor_type.shape.dim]
        x = np.ones(shape, np.int64) if v.type.tensor_type.elem_type == onnx.TensorProto.INT64 else r.standard_normal(shape).astype(np.float32)
        np.save(folder / f"{v.name}.npy", x)
        words += ["--input", f"{v.name}=@{folder / v.name}.npy"]
    return words


def open_sizes(bench, path_of, names, threads: int) -> None:
    """Both in one process, a slice of time each in turn: other work on the machine meets both."""
    bench.table.head(f"any size, {threads} thread{'s'[:threads - 1]}", "any size, ms", "this size, ms", "slower")
    slower = []
    for name in names:
        model = with_batch(path_of(name), bench.folder)
        so, fixed, out = bench.folder / f"{name}.so", bench.folder / f"{name}-fixed.so", bench.folder / "dynamic.json"
        quiet(TENON, "compile", model, "--machine", bench.machine_file, "-o", so)
        for sizes in SIZES[name]:
            row = f"{name} {'x'.join(map(str, sizes))}"
            try:
                quiet(TENON, "compile", model, "--machine", bench.machine_file, *dims(sizes), "-o", fixed)
                quiet(TENON, "bench", so, "--compare", fixed, *data_of(model, sizes, bench.folder), "--threads", threads, "--warmup", 1,
                      "--duration", bench.seconds, "--json", out, preexec_fn=bench.pin_to(threads))
                found = {r["model"]: r["median_ms"] for r in json.loads(out.read_text())["results"]}
            except RuntimeError as error:
                bench.table.fail(row, str(error))
                continue
            ours, theirs = found[str(so)], found[str(fixed)]
            slower.append(ours / theirs)
            bench.table.add(row, [f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}"], dict(threads=threads, any_ms=ours, fixed_ms=theirs), ours / theirs, 1.15, 1.05,
                            most=True)
        bench.forget(model)
    if len(slower) > 1:
        bench.table.add("median", ["", "", f"{statistics.median(slower):.3f}"], dict(median=statistics.median(slower)), statistics.median(slower), 1.03, 1.0, most=True)


def decode(bench, names, threads: int) -> None:
    bench.table.head(f"decode, {threads} thread{'s'[:threads - 1]}", "Tenon ms", "ONNX Runtime", "of bandwidth", "ratio")
    for name in names:
        quiet(sys.executable, ROOT / "bench/fill.py", BUILD / "zoo", name)
        model, so = BUILD / "zoo" / f"{name}.onnx", bench.folder / f"{name}.so"
        quiet(TENON, "compile", model, "--machine", bench.machine_file, "--state", "past_key_values.*=present.*", "-o", so)
        for context in CONTEXTS if "gpt2" not in name else CONTEXTS[:1]:
            out, ours, theirs, share = bench.folder / "decode.json", [], [], []
            try:
                for _ in range(max(bench.rounds // 2, 1)):
                    quiet(TENON, "bench", so, "--decode", STEPS, "--context", context, "--threads", threads, "--json", out, preexec_fn=bench.pin_to(threads))
                    found = json.loads(out.read_text())
                    ours.append(found["step_ms"])
                    share.append(found["bandwidth_share"])
                    theirs += json.loads(quiet(sys.executable, ROOT / "bench/decode_peer.py", model, threads, context, STEPS, preexec_fn=bench.pin_to(threads)))
            except RuntimeError as error:
                bench.table.fail(f"{name} after {context}", str(error))
                continue
            ms, peer, part = statistics.median(ours), statistics.median(theirs), statistics.median(share)
            numbers = dict(threads=threads, context=context, tenon_ms=ms, onnxruntime_ms=peer, tokens_per_s=1e3 / ms, bandwidth_share=part)
            bench.table.add(f"{name} after {context}", [f"{ms:.2f}", f"{peer:.2f}", f"{100 * part:.0f} %", f"{peer / ms:.2f}"], numbers, peer / ms, 1.2, 2.0)
            bench.table.add("  share of read bandwidth", ["", "", f"{100 * part:.0f} %", ""], numbers, part, 0.75, 0.92)
        so.unlink()


LAYERS, HEADS, HEAD = 30, 9, 64      # of the attention of smollm_135m: queries' heads, and their size
WIDTHS = {"f32": [], **{called: ["--weights", how] for called, how in {
    "bf16": "bf16", "int8": "int8", "int4": "int4", "int8 x int8": "int8,activations=int8", "int4 x f32": "int4,activations=f32"}.items()}}
PROMPT = 512


def prompt_flops(model: pathlib.Path, tokens: int) -> float:
    """Of the products of a prompt's run: with weights, and of scores and values, hidden ones too."""
    graph = onnx.load(model, load_external_data=False).graph
    elements = {t.name: int(np.prod(t.dims)) for t in graph.initializer}
    return 2.0 * tokens * (sum(elements.get(n.input[1], 0) for n in graph.node if n.op_type == "MatMul") + 2 * LAYERS * HEADS * HEAD * tokens)


def widths(bench, threads: int) -> None:
    """Weights of one model in fewer bits, a few steps each in turn; beside each the rates at which this machine multiplies and reads then."""
    name = "smollm_135m_cache"
    model, out, contexts = BUILD / "zoo" / f"{name}.onnx", bench.folder / "decode.json", (CONTEXTS[0], PROMPT)
    steps, prompts = {(w, c): [] for w in WIDTHS for c in contexts}, {w: [] for w in WIDTHS}
    bench.table.head(f"weights, {threads} thread{'s'[:threads - 1]}", "ms a token", f"ms of {PROMPT}", "of bandwidth", "of peak")
    quiet(sys.executable, ROOT / "bench/fill.py", BUILD / "zoo", name)
    for w, how in WIDTHS.items():
        quiet(TENON, "compile", model, "--machine", bench.machine_file, "--state", "past_key_values.*=present.*", *how, "-o", bench.folder / f"{w}.so")
    flops = prompt_flops(model, PROMPT)
    for _ in range(bench.rounds):
        for w in WIDTHS:
            for context in contexts:
                peak = bench.yardstick("peak", threads)
                quiet(TENON, "bench", bench.folder / f"{w}.so", "--decode", STEPS // 2, "--context", context, "--threads", threads, "--json", out, preexec_fn=bench.pin_to(threads))
                r = json.loads(out.read_text())
                steps[w, context].append((r["step_ms"], r["bandwidth_share"]))
            prompt = 1e3 * PROMPT / r["prefill_tokens_per_s"]
            prompts[w].append((prompt, flops / prompt / 1e6 / max(peak, bench.yardstick("peak", threads))))
    step, prompt = ({k: [statistics.median(x) for x in zip(*v)] for k, v in found.items()} for found in (steps, prompts))
    for w in WIDTHS:
        for context in contexts:
            ms, share = step[w, context]
            goal = (share, 0.75, 0.92) if w in ("f32", "bf16") else ()
            bench.table.add(f"{w}, after {context}", [f"{ms:.2f}", "", f"{100 * share:.0f} %", ""], dict(threads=threads, context=context, step_ms=ms, bandwidth_share=share), *goal)
        ms, peak = prompt[w]
        goal = (peak, 0.70, 0.88) if w == "f32" else ()
        bench.table.add(f"{w}, prompt", ["", f"{ms:.0f}", "", f"{100 * peak:.0f} %"], dict(threads=threads, prompt_ms=ms, peak_share=peak), *goal)
    for w, context in ((w, c) for w in ("int4", "int4 x f32") for c in contexts):
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
        quiet(TENON, "compile", model, "--machine", bench.machine_file, "--state", "past_key_values.*=present.*", *(x for w in how for x in ("--weights", w)), "-o", so)
        for context in [CONTEXTS[0], PROMPT] + CONTEXTS[1:] * (width == "f32"):
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


# Runs one after the other in one session, as section 5.1 of the paper has them: sizes of batch, new tokens, tokens before.
RUNS = {"prefill": ([(1, n, 0) for n in (128, 256, 512, 1024)], 0.22, 0.30), "decode": ([(n, 1, 128) for n in (1, 16, 32, 64)], 0.40, 0.50)}
PAGE = 4096                          # bytes, to multiples of which TVM's pool rounds (src/runtime/vm/pooled_allocator.h)


def planned_values(text: str) -> list[tuple[int, int, str]]:
    """Of a dumped plan: when each value of the arena is made and last read, and its bytes."""
    row = re.compile(r"  %.* (\S*?\[[^]]*\]) +(.*?) +(\d+)-(\d+) +arena \+")
    return [(int(m[3]), int(m[4]), m[2]) for m in map(row.match, text.splitlines()) if m]


def pool_bytes(values, sizes: list[dict]) -> int:
    """What a pool holds after runs of these sizes: a value takes a free block of its rounded size, or a new one, and gives it back after its last reader."""
    free, taken = collections.Counter(), 0
    for size in sizes:
        held, alive = [(first, last, -(-eval(words, size.copy()) // PAGE) * PAGE) for first, last, words in values], []
        for first, last, count in sorted(held):
            for block in [b for b in alive if b[0] < first]:
                alive.remove(block)
                free[block[1]] += 1
            taken += 0 if free[count] else count
            free[count] -= free[count] > 0
            alive.append((last, count))
        free.update(count for _, count in alive)
    return taken


def memory(bench) -> None:
    name, words = "smollm_135m_cache", {"min": min, "max": max}
    bench.table.head("memory between kernels", "planned MB", "a pool MB", "", "saved")
    quiet(sys.executable, ROOT / "bench/fill.py", BUILD / "zoo", name)
    quiet(TENON, "compile", BUILD / "zoo" / f"{name}.onnx", "--state", "past_key_values.*=present.*", "--stop-after=plan", "--dump=plan", "--dump-dir", bench.folder)
    text = next(bench.folder.glob(f"{name}.*-plan.txt")).read_text()
    arena, values = re.search(r"^plan @\S+: arena (.*) bytes, weights", text, re.M)[1], planned_values(text)
    for what, (runs, floor, aim) in RUNS.items():
        sizes = [words | dict(zip(("batch_size", "sequence_length", "past_sequence_length"), r)) for r in runs]
        plan, pool = max(eval(arena, s.copy()) for s in sizes), pool_bytes(values, sizes)
        bench.table.add(f"{what} in turn", [f"{plan / 1e6:.2f}", f"{pool / 1e6:.2f}", "", f"{1 - plan / pool:.2f}"], dict(planned=plan, pool=pool), 1 - plan / pool, floor, aim)
