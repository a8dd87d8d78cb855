#!/usr/bin/env python3
"""One model of bench/loops.py as Tenon runs its requests, together and one by one with a plain
artefact, and as ONNX Runtime runs them in a loop; one thread each.

    loops_run.py MODEL SIZE REQUESTS ROUNDS MACHINE FOLDER     prints what it found, as JSON

Times are the least of ROUNDS turns, in seconds of all requests. Results together are held against
those of each request alone, bit for bit, and against ONNX Runtime's.
"""
import json
import pathlib
import sys
import time

import loops
import numpy as np
import onnxruntime
import tenon

LONGEST, NEW = 24, 32                        # tokens of a prompt at most, and made behind it
CLOSE = 1e-3

# By size: layers of SmolLM-135M, which has 30 of them, and of BERT base.
DECODERS = {"small": 2, "large": 8}
ENCODERS = {"small": 6, "large": 12}


def decoder(size: str) -> loops.Decoder:
    return loops.Decoder(layers=DECODERS[size], hidden=576, heads=9, kv=3, inner=1536, words=49152)


def encoder(size: str) -> loops.Exits:
    return loops.Exits(layers=ENCODERS[size], hidden=768, heads=12, tokens=16)


def seconds(what) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def check(session, single, peer, requests: list[dict]) -> None:
    for i, (r, got) in enumerate(zip(requests, session.run_many(requests))):
        if isinstance(got, Exception):
            raise SystemExit(f"request {i}: {got}")
        (name, x), = got.items()
        want = peer.run(None, r)[0]
        if not np.array_equal(x, session.run(r)[name]):
            raise SystemExit(f"request {i} is not what it gives alone")
        for how, y in (("together", x), ("plain", single.run(r)[name])):
            if y.shape != want.shape or not np.allclose(y, want, rtol=CLOSE, atol=CLOSE):
                raise SystemExit(f"request {i}, {how}, is not what ONNX Runtime gives")


def main() -> None:
    name, size, count, rounds, machine, folder = sys.argv[1:]
    model = {"decoder": decoder, "exits": encoder}[name](size)
    path = model.write(pathlib.Path(folder) / f"{name}.onnx")
    many, plain = (tenon.compile(path, many=m, machine=machine) for m in (True, False))
    session, single = many.session(threads=1), plain.session(threads=1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(17)
    requests = [model.request(rng, LONGEST, NEW) if name == "decoder" else model.request(rng)
                for _ in range(int(count))]
    check(session, single, peer, requests)
    ways = {"together": lambda: session.run_many(requests),
            "plain": lambda: [single.run(r) for r in requests],
            "onnxruntime": lambda: [peer.run(None, r) for r in requests]}
    times = dict.fromkeys(ways, float("inf"))
    for _ in range(int(rounds)):
        for way, what in ways.items():
            times[way] = min(times[way], seconds(what))
    ran = many.session(threads=1)
    ran.run_many(requests)
    blocks = [b for b in ran.blocks if not b.host and b.nodes]
    print(json.dumps({"model": name, "size": size, "requests": len(requests), **times,
                      "asked": sum(b.asked for b in blocks),
                      "batches": sum(b.ran for b in blocks)}))


if __name__ == "__main__":
    main()
