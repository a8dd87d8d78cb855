"""Random models (random_models.py) against ONNX Runtime, each compiled once and run at several sizes.

By day a few seeds by the best schedule; TENON_NIGHTLY=1 runs more, and goes round the options.
"""
import os

import pytest

from random_models import OPTIONS, faults, forced, graphs_of

NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
SEEDS = range(60) if NIGHTLY else range(3)
GRAPHS = 10                          # in one model


@pytest.mark.parametrize("seed", SEEDS)
def test_random(tmp_path, seed):
    options = OPTIONS[seed % len(OPTIONS)] if NIGHTLY else []
    wrong = faults(graphs_of(seed, GRAPHS), tmp_path, options, threads=1 + seed % 2)
    assert not wrong, "\n".join(f"{g.prefix if g else ''} {what}" for g, what in wrong)


@pytest.mark.parametrize("seed", range(1000, 1060) if NIGHTLY else range(1001, 1003))
def test_random_orders_forced(tmp_path, seed):
    """Every value that can lies in a random order: nothing else changes."""
    graphs = graphs_of(seed, GRAPHS)
    options = forced(graphs, tmp_path, seed)
    assert len(options) > 4
    wrong = faults(graphs, tmp_path, [*options, "--cc", ("gcc", "clang")[seed // 2 % 2]], threads=1 + seed % 2)
    assert not wrong, "\n".join(f"{g.prefix if g else ''} {what}" for g, what in wrong)
