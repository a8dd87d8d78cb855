#!/usr/bin/env python3
"""Another engine decoding with its cache, as its makers would.

    decode_peer.py ENGINE MODEL.onnx THREADS CONTEXT STEPS      prints the milliseconds of every step, as JSON

ENGINE: onnxruntime, whose own outputs are given back as inputs, or openvino, whose cache is a state of the request. Both compute in f32 and keep f32.
"""
import json
import sys
import time

import numpy as np

from peer import onnxruntime_session, openvino_options

KEPT = "past_key_values"


def step(names, new: int, past: int) -> dict:
    every = {"input_ids": np.ones((1, new), np.int64), "attention_mask": np.ones((1, past + new), np.int64), "position_ids": np.arange(past, past + new)[None]}
    return {n: x for n, x in every.items() if n in names}


class OnnxRuntime:
    def __init__(self, model: str, threads: int):
        self.session = onnxruntime_session(model, threads)
        self.given, self.gives = [i.name for i in self.session.get_inputs()], [o.name for o in self.session.get_outputs()]
        self.cache = {i.name: np.zeros([d if isinstance(d, int) else 1 if k == 0 else 0 for k, d in enumerate(i.shape)], np.float32)
                      for i in self.session.get_inputs() if i.name.startswith(KEPT)}

    def run(self, inputs: dict) -> None:
        self.out = self.session.run(None, inputs | self.cache)

    def keep(self) -> None:
        self.cache.update({n.replace("present", KEPT): x for n, x in zip(self.gives, self.out) if n.startswith("present")})


class OpenVino:
    def __init__(self, model: str, threads: int):
        import openvino
        from openvino._offline_transformations import apply_make_stateful_transformation

        core = openvino.Core()
        network = core.read_model(model)
        self.given = [i.any_name for i in network.inputs]
        network.reshape({i.any_name: [1, *(d if d.is_static else -1 for d in list(i.partial_shape)[1:])] for i in network.inputs})
        apply_make_stateful_transformation(network, {n: n.replace(KEPT, "present") for n in self.given if n.startswith(KEPT)})
        self.request = core.compile_model(network, "CPU", openvino_options(threads) | {"KV_CACHE_PRECISION": "f32"}).create_infer_request()

    def run(self, inputs: dict) -> None:
        self.request.infer(inputs, share_inputs=True, share_outputs=True)

    def keep(self) -> None:
        pass


def main() -> None:
    engine, model, threads, context, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    peer = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}[engine](model, threads)
    times, past = [], 0
    for new in [context] + [1] * steps:
        inputs = step(peer.given, new, past)
        start = time.perf_counter()
        peer.run(inputs)
        times.append(1e3 * (time.perf_counter() - start))
        peer.keep()
        past += new
    print(json.dumps(times[1:]))


if __name__ == "__main__":
    main()
