"""Tests of the onnx package whose expectation does not follow from the specification: shown, each time they are run.

A row says what is so, and a function of (inputs, wanted, got, tolerance) that finds it true. Where it does not, the test
is a failure like any other.
"""
import numpy as np


def apart(x, y, tolerance):
    rtol, atol = tolerance
    return bool((np.abs(x - y) > atol + rtol * np.abs(y)).any())


def inverse_transform(inputs, wanted, got, tolerance):
    """What is expected lies further from the exact numbers than the test allows; what came does not."""
    x = inputs[0].astype("f8")
    exact = np.fft.ifft(x[..., 0] + 1j * x[..., 1], axis=1)
    exact = np.stack([exact.real, exact.imag], -1)
    smallest = np.spacing(np.float32(np.abs(exact).max()))           # of the largest number: what sums in f32 can tell apart
    return apart(wanted[0].astype("f8"), exact, tolerance) and np.abs(got[0] - exact).max() <= 2 * smallest


def causal_attention(inputs, wanted, got, tolerance):
    """Computed in f64, rounded once: what came is within a step of f16 of it, what is expected is not within the tolerance."""
    q, k, v = (x.astype("f8") for x in inputs)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    exact = (p / p.sum(-1, keepdims=True)) @ v
    step = np.spacing(np.abs(exact).astype("f2")).astype("f8")
    return apart(wanted[0].astype("f8"), exact, tolerance) and bool((np.abs(got[0].astype("f8") - exact) <= step).all())


def dropped(inputs, wanted, got, _):
    """Both are x / (1 - ratio) with zeros for a share of about ratio, and both say which: no generator is specified."""
    x, ratio = inputs[0], float(inputs[1]) if len(inputs) > 1 and inputs[1] is not None and np.size(inputs[1]) else 0.5
    kept = x / np.float32(1 - ratio)

    def valid(y, mask=None):
        gone = y == 0
        right = np.allclose(np.where(gone, 0, kept), y, rtol=1e-5, atol=1e-6) and (mask is None or np.array_equal(mask, ~gone))
        return right and abs(gone.mean() - ratio) < 5 * np.sqrt(ratio * (1 - ratio) / x.size) + 1e-9
    return bool(valid(*wanted) and valid(*got))


def drawn(inputs, wanted, got, _):
    """Both are zeros and ones with the means that the probabilities say: no generator is specified."""
    p = inputs[0].astype("f8")
    spread = 5 * np.sqrt((p * (1 - p)).sum())
    return all(set(np.unique(y)) <= {0, 1} and abs(y.astype("f8").sum() - p.sum()) < spread for y in (wanted[0], got[0]))


ROUNDED = "what is expected is numpy's rounding in complex64, off by more than the test allows where the exact number is 0"
NARROW = "what is expected was rounded to f16 at every step, off by more than the test allows; what comes is within a step of the exact numbers"
CHANCE = "what is expected are numpy's random numbers; the specification names no generator, and both have its distribution"
DISPUTED = {
    "test_dft_inverse": (ROUNDED, inverse_transform), "test_dft_inverse_opset19": (ROUNDED, inverse_transform),
    "test_attention_4d_causal_fp16": (NARROW, causal_attention),
    **{f"test_training_dropout{k}": (CHANCE, dropped) for k in ("", "_default", "_default_mask", "_mask")},
    **{f"test_bernoulli{k}{e}": (CHANCE, drawn) for k in ("", "_double", "_seed") for e in ("", "_expanded")},
}


def shown(name, inputs, wanted, got, tolerance):
    """Why the expectation of a test is not what the specification says, where that can be shown; else None."""
    reason, holds = DISPUTED.get(name, (None, None))
    return reason if holds and holds(inputs, wanted, got, tolerance) else None
