"""Open sizes: what they cost against fixed ones, in time and in memory.

Rows of the first table are one artefact that runs at any size against one that was compiled for just that size, in turn. Rows of the second are bytes between kernels: the plan's
formula against a pool that allocates as the run goes. All is compiled for what `tenon machine` measured here.
"""
import collections
import json
import pathlib
import re
import statistics
import sys

import numpy as np
import onnx

from decoding import STATE
from measure import BUILD, ROOT, TENON, quiet

ENCODED = [(1, 1), (1, 16), (1, 128), (4, 128), (1, 512), (8, 64)]
SIZES = {"bert_base": ENCODED, "gpt2": ENCODED, "smollm_135m": [(1, 16), (1, 128), (1, 512)], "resnet50": [(1,), (2,), (8,)]}


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
    quiet(TENON, "compile", BUILD / "zoo" / f"{name}.onnx", *STATE, "--stop-after=plan", "--dump=plan", "--dump-dir", bench.folder)
    text = next(bench.folder.glob(f"{name}.*-plan.txt")).read_text()
    arena, values = re.search(r"^plan @\S+: arena (.*) bytes, weights", text, re.M)[1], planned_values(text)
    for what, (runs, floor, aim) in RUNS.items():
        sizes = [words | dict(zip(("batch_size", "sequence_length", "past_sequence_length"), r)) for r in runs]
        plan, pool = max(eval(arena, s.copy()) for s in sizes), pool_bytes(values, sizes)
        bench.table.add(f"{what} in turn", [f"{plan / 1e6:.2f}", f"{pool / 1e6:.2f}", "", f"{1 - plan / pool:.2f}"], dict(planned=plan, pool=pool), 1 - plan / pool, floor, aim)
