"""Decoders of bench/zoo with their caches as states of a session: greedy steps, against ONNX Runtime fed its own outputs.

    decode.py [--steps N] [--small] [PATTERN…]

Each model gets a prompt and then N tokens one by one, always the one that ONNX Runtime scores highest, so that both sides
see the same; after half of them the last three are taken back. Prints the largest error of the scores of any step, over
the largest score.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]
from fill import filled  # noqa: E402
from session import Session  # noqa: E402

ALLOWED = 1e-4
ENCODED = 9                          # rows of what an encoder gave, where a decoder reads such
# name: the states, how many of them grow in place; tokens are drawn below `words`; small: compiled in seconds
DECODERS = {
    "llama_small_dynamo": (["past_key_values.*=present.*"], 8, 8000, True),
    "llama_small_int4_qdq": (["past_key_values.*=present.*"], 12, 8000, True),
    "gpt2_cache": (["past_key_values.*=present.*"], 24, 50257, False),
    "smollm_135m_cache": (["past_key_values.*=present.*"], 60, 49152, False),
    "t5_small_decoder_merged": (["past_key_values.*.decoder.*=present.*.decoder.*"], 0, 32128, False),
    "whisper_tiny_decoder_past": (["past_key_values.*.decoder.*=present.*.decoder.*"], 8, 51865, False),
}


class Reference:
    """ONNX Runtime, its presents fed back as pasts."""

    def __init__(self, path, states, plainly):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        if plainly:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.fed = {i: o for i, o, _, _ in states}
        self.given = {i.name: i for i in self.session.get_inputs()}
        self.kept = None

    def empty(self, name, batch):
        at = self.given[name]
        dims = [batch if d == 0 else v if isinstance(v, int) else 0 for d, v in enumerate(at.shape)]
        return np.zeros(dims, np.float16 if "16" in at.type else np.float32)

    def run(self, inputs, batch):
        kept = self.kept or {i: self.empty(i, batch) for i in self.fed}
        out = dict(zip((o.name for o in self.session.get_outputs()), self.session.run(None, inputs | kept)))
        self.kept = {i: out[o] for i, o in self.fed.items()}
        return {k: v for k, v in out.items() if k not in self.fed.values()}

    def drop(self, n):
        self.kept = {k: v[:, :, :v.shape[2] - n] for k, v in self.kept.items()}


def step(given, tokens, past, others):
    """The inputs of a step that a decoder takes beside its cache."""
    batch, new = tokens.shape
    every = {"input_ids": tokens, "attention_mask": np.ones((batch, past + new), np.int64), "encoder_attention_mask": np.ones((batch, ENCODED), np.int64),
             "position_ids": np.broadcast_to(np.arange(past, past + new), (batch, new)).astype(np.int64), "use_cache_branch": np.array([past > 0])} | others
    return {name: every[name] for name in given}


def decode(name, folder, steps, batch=1, prompt=7):
    """The largest error of any step's scores, and what the session said of its states."""
    states, in_place, words, _ = DECODERS[name]
    model, artefact = filled(name, BUILD / "zoo"), pathlib.Path(folder) / f"{name}.so"
    subprocess.run([TENON, "compile", str(model), "-o", str(artefact), *(a for s in states for a in ("--state", s))], check=True, capture_output=True)
    ours = Session(artefact)
    theirs = Reference(model, ours.states, "int4" in name)
    assert sum(s[3] for s in ours.states) == in_place, f"{name}: {ours.states}"
    rng, worst, past = np.random.default_rng(1), 0.0, 0
    tokens = rng.integers(0, words, (batch, prompt))
    others = {k: rng.standard_normal([batch, *(v if isinstance(v, int) else ENCODED for v in at.shape[1:])]).astype(np.float32)
              for k, at in theirs.given.items() if k not in theirs.fed and at.type == "tensor(float)"}
    for k in range(steps):
        inputs = step(theirs.given.keys() - theirs.fed.keys(), tokens, past, others)
        got, want = ours.run(inputs), theirs.run(inputs, batch)
        past += tokens.shape[1]
        assert ours.length == past
        for key, w in want.items():
            assert got[key].shape == w.shape
            if w.size:               # a branch with a cache gives back none of what the encoder's part made
                worst = max(worst, float(np.abs(got[key].astype(np.float64) - w).max() / np.abs(w).max()))
        tokens = want["logits"][:, -1].argmax(-1).reshape(batch, 1)
        if k == steps // 2:
            ours.drop(3), theirs.drop(3)
            past -= 3
    ours.close()
    return worst


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=64)
    p.add_argument("--small", action="store_true")
    p.add_argument("pattern", nargs="*")
    o = p.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        for name, (*_, small) in DECODERS.items():
            if (o.small and not small) or (o.pattern and not any(re.search(x, name) for x in o.pattern)):
                continue
            try:
                worst = max(decode(name, folder, o.steps), decode(name, folder, 8, batch=2))
                why = "" if worst <= ALLOWED else f"more than {ALLOWED}"
            except (AssertionError, subprocess.CalledProcessError, Exception) as e:
                worst, why = float("nan"), f"{type(e).__name__}: {e}" + (e.stderr.decode() if hasattr(e, "stderr") and e.stderr else "")
            failed += bool(why)
            print(f"{name:28} {o.steps} steps with state   {worst:9.2e}  {why}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
