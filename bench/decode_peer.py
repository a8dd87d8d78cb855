#!/usr/bin/env python3
"""ONNX Runtime decoding with its cache: its own outputs given back as inputs.

    decode_peer.py MODEL.onnx THREADS CONTEXT STEPS      prints the milliseconds of every step, as JSON
"""
import json
import sys
import time

import numpy as np
import onnxruntime


def main() -> None:
    model, threads, context, steps = sys.argv[1], *map(int, sys.argv[2:5])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given, gives = {i.name: i for i in session.get_inputs()}, [o.name for o in session.get_outputs()]
    cache = {n: np.zeros([d if isinstance(d, int) else 1 if k == 0 else 0 for k, d in enumerate(i.shape)], np.float32)
             for n, i in given.items() if n.startswith("past_key_values")}

    def run(new: int, past: int) -> float:
        every = {"input_ids": np.ones((1, new), np.int64), "attention_mask": np.ones((1, past + new), np.int64),
                 "position_ids": np.arange(past, past + new)[None]}
        start = time.perf_counter()
        out = session.run(None, {n: every[n] for n in given if n in every} | cache)
        took = time.perf_counter() - start
        cache.update({n.replace("present", "past_key_values"): x for n, x in zip(gives, out) if n.startswith("present")})
        return 1e3 * took

    run(context, 0)
    print(json.dumps([run(1, context + k) for k in range(steps)]))


if __name__ == "__main__":
    main()
