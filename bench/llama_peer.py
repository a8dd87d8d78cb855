#!/usr/bin/env python3
"""llama.cpp decoding with its cache of f32, one token after the other.

    llama_peer.py FILE.gguf THREADS CONTEXT STEPS [MODEL.onnx]     prints the milliseconds of every step, as JSON

As fast as it goes with f32 in the cache: attention in several kernels, since its one kernel for it (flash attention) takes longer then, and rounds to
f16 in between; weights mapped, which is faster than to read them. With MODEL.onnx it fails where the scores
of the last step are not ONNX Runtime's.
"""
import json
import sys
import time

import llama_cpp.llama_cpp as llama
import numpy as np

F32 = 0                              # of ggml's types
NEAR = 1e-4                          # of the largest score; sums of f32 in another order differ by 1e-6 in SmolLM


@llama.llama_log_callback
def silent(level, text, data) -> None:
    pass


def check(model: str, tokens: int, scores: np.ndarray) -> None:
    """The tokens are 0, 1, 2, …: were they alike, what comes before would not matter."""
    import onnxruntime
    session, every = onnxruntime.InferenceSession(model), np.arange(tokens)[None]
    given = {"input_ids": every, "attention_mask": np.ones_like(every), "position_ids": every}
    for i in session.get_inputs():
        if i.name.startswith("past_key_values"):
            given[i.name] = np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32)
    expected = session.run(["logits"], given)[0][0, -1]
    off, most = abs(scores - expected).max(), abs(expected).max()
    if not off <= NEAR * most:
        sys.exit(f"llama.cpp computes something else: scores are up to {most:.3g} and differ by {off:.3g}")


def main() -> None:
    path, (threads, context, steps) = sys.argv[1], map(int, sys.argv[2:5])
    llama.llama_log_set(silent, None)
    llama.llama_backend_init()
    how = llama.llama_model_default_params()
    how.load_mode = llama.LLAMA_LOAD_MODE_MMAP
    model = llama.llama_model_load_from_file(path.encode(), how)
    if not model:
        sys.exit(f"llama.cpp cannot load {path}")
    with_cache = llama.llama_context_default_params()
    with_cache.n_ctx, with_cache.n_batch, with_cache.n_threads, with_cache.n_threads_batch = context + steps, context, threads, threads
    with_cache.type_k, with_cache.type_v, with_cache.flash_attn_type = F32, F32, llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
    session = llama.llama_init_from_model(model, with_cache)
    if not session:
        sys.exit(f"llama.cpp has no memory for {path}")
    words = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))

    def run(new: int, past: int) -> float:
        tokens = (llama.llama_token * new)(*range(past, past + new))
        start = time.perf_counter()
        if llama.llama_decode(session, llama.llama_batch_get_one(tokens, new)):
            sys.exit("llama.cpp cannot decode")
        llama.llama_synchronize(session)
        return 1e3 * (time.perf_counter() - start)

    run(context, 0)
    print(json.dumps([run(1, context + k) for k in range(steps)]))
    if len(sys.argv) > 5:
        check(sys.argv[5], context + steps, np.ctypeslib.as_array(llama.llama_get_logits_ith(session, -1), (words,)))


if __name__ == "__main__":
    main()
