"""Open sizes, and decoders that keep their cache: what they cost against what is fixed, and against ONNX Runtime.

Rows of the first table are one artefact that runs at any size against one that was compiled for just that size, in turn. Rows of the second are tokens, one after the other, after a prompt.
"""
import json
import pathlib
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
        quiet(TENON, "compile", model, "-o", so)
        for sizes in SIZES[name]:
            row = f"{name} {'x'.join(map(str, sizes))}"
            try:
                quiet(TENON, "compile", model, *dims(sizes), "-o", fixed)
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
        quiet(TENON, "compile", model, "--state", "past_key_values.*=present.*", "-o", so)
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
