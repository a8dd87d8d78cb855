#!/usr/bin/env python3
"""Another engine as a peer of the benches: a process that is told when to run.

    peer.py ENGINE MODEL.onnx FOLDER THREADS      ENGINE: onnxruntime, openvino or flexattention;
                                                  FOLDER has NAME.npy for each input

Reads lines "WARMUP SECONDS" and answers each with the milliseconds of every run, as JSON; "save" writes the outputs
to FOLDER/expect-N.npy. Each engine runs as its makers would for one request at a time: every optimisation on, weights
and shapes known beforehand, f32 arithmetic, denormal floats taken for 0 as Tenon does, inputs and outputs in its own memory, inputs as `tenon bench` has them.
"""
import json
import mmap
import os
import pathlib
import sys
import time

import numpy as np


def onnxruntime_session(model: str, threads: int):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def openvino_options(threads: int) -> dict:
    return {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "CPU_DENORMALS_OPTIMIZATION": True}


class OnnxRuntime:
    def __init__(self, model: str, inputs: dict, threads: int):
        self.session = onnxruntime_session(model, threads)
        self.binding = self.session.io_binding()
        for name, value in inputs.items():
            self.binding.bind_cpu_input(name, value)
        for made in self.session.get_outputs():
            self.binding.bind_output(made.name)

        self.inputs, self.bound = inputs, True
        try:
            self.run()
            self.run()                # into the outputs of the first, which are refused if they have another rank than is declared
        except RuntimeError:
            self.bound = False

    def run(self):
        return self.session.run_with_iobinding(self.binding) if self.bound else self.session.run(None, self.inputs)

    def outputs(self) -> list:
        return self.binding.copy_outputs_to_cpu() if self.bound else self.run()


class OpenVino:
    def __init__(self, model: str, inputs: dict, threads: int):
        import openvino

        core = openvino.Core()
        network = core.read_model(model)
        network.reshape({name: list(value.shape) for name, value in inputs.items()})
        self.request = core.compile_model(network, "CPU", openvino_options(threads)).create_infer_request()
        self.kept = [openvino.Tensor(value, shared_memory=True) for value in inputs.values()]
        for name, tensor in zip(inputs, self.kept):
            self.request.set_tensor(name, tensor)

    def run(self) -> None:
        self.request.infer()

    def outputs(self) -> list:
        return [np.array(x.data) for x in self.request.output_tensors]


class FlexAttention:
    """PyTorch's, compiled, of an attention that bench/sparse.py made: MODEL.npz beside the model
    has its mask, `seen`, and how many pairs of rows and keys see each other. The mask of blocks is
    made before any run, and of its sizes the fastest is kept."""
    BLOCKS = (32, 64, 128)

    def __init__(self, model: str, inputs: dict, threads: int):
        cache = pathlib.Path(__file__).resolve().parents[1] / "build/inductor"
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        import torch
        from torch.nn.attention import flex_attention as flex

        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        torch.set_grad_enabled(False)
        self.qkv = [torch.from_numpy(inputs[name]) for name in "qkv"]
        batch, heads, n, _ = self.qkv[0].shape
        with np.load(pathlib.Path(model).with_suffix(".npz")) as file:
            seen, pairs = torch.from_numpy(file["seen"]), int(file["pairs"])
        texts, kinds = (x if x > 1 else None for x in seen.shape[:2])
        plane = seen[0, 0] if not (texts or kinds) else seen[0] if kinds else seen[:, 0]
        shown = ((lambda b, h, i, j: plane[h, i, j]) if kinds else
                 (lambda b, h, i, j: plane[b, i, j]) if texts else
                 (lambda b, h, i, j: plane[i, j]))
        found = int(flex.create_mask(shown, batch, heads, n, n, device="cpu").sum())
        if found != pairs:
            raise RuntimeError(f"FlexAttention sees {found} pairs, the mask has {pairs}")
        self.shared = heads != self.qkv[1].shape[1]
        least = float("inf")
        for size in self.BLOCKS:
            torch._dynamo.reset()            # else sizes that differ make code for any size
            blocks = flex.create_block_mask(shown, texts, kinds, n, n, "cpu", BLOCK_SIZE=size)
            took, run = self.best(torch.compile(flex.flex_attention), blocks)
            if took < least:
                least, self.run = took, run

    def best(self, compiled, blocks):
        """Of three runs, after one that compiles; and what runs it."""
        run = lambda: compiled(*self.qkv, block_mask=blocks, enable_gqa=self.shared)
        took = [0.0] * 4
        for i in range(4):
            start = time.perf_counter()
            run()
            took[i] = time.perf_counter() - start
        return min(took[1:]), run

    def outputs(self) -> list:
        return [self.run().numpy()]


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "flexattention": FlexAttention}


def laid_as_tenon_has_it(value: np.ndarray) -> np.ndarray:
    """The same at the beginning of a cache line, in huge pages where it is large (cmd/inputs.c)."""
    if not value.nbytes or value.dtype.hasobject:
        return value
    room = mmap.mmap(-1, value.nbytes)
    room.madvise(mmap.MADV_HUGEPAGE)
    own = np.frombuffer(room, value.dtype, value.size).reshape(value.shape)
    own[...] = value
    return own


def main() -> None:
    name, model, folder, threads = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
    inputs = {f.stem: laid_as_tenon_has_it(np.load(f)) for f in sorted(folder.glob("*.npy")) if not f.stem.startswith("expect-")}
    engine = ENGINES[name](model, inputs, threads)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "save":
            engine.run()
            for i, value in enumerate(engine.outputs()):
                np.save(folder / f"expect-{i}.npy", value)
            print("saved", flush=True)
            continue
        warmup, seconds = line.split()
        for _ in range(int(warmup)):
            engine.run()
        times, end = [], time.perf_counter() + float(seconds)
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            engine.run()
            times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
