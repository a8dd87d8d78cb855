#!/usr/bin/env python3
"""ONNX Runtime as a peer of bench.py: a process that is told when to run.

    peer.py MODEL.onnx FOLDER      FOLDER has NAME.npy for each input

Reads lines "WARMUP SECONDS" and answers each with the milliseconds of every run, as JSON. One thread,
every optimisation on, outputs left in ONNX Runtime's own memory.
"""
import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime


def main() -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for given in session.get_inputs():
        binding.bind_cpu_input(given.name, np.load(pathlib.Path(sys.argv[2]) / f"{given.name}.npy"))
    for made in session.get_outputs():
        binding.bind_output(made.name)
    print("ready", flush=True)
    for line in sys.stdin:
        warmup, seconds = line.split()
        for _ in range(int(warmup)):
            session.run_with_iobinding(binding)
        times, end = [], time.perf_counter() + float(seconds)
        while len(times) < 5 or time.perf_counter() < end:
            start = time.perf_counter()
            session.run_with_iobinding(binding)
            times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
