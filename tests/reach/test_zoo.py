"""Models of bench/zoo compiled for other processors and run under their emulators, against ONNX Runtime.

By day a few; with TENON_NIGHTLY=1 all that are not large, for 64-bit Arm. Text does not go to an emulated program.
"""
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/zoo"))
import zoo  # noqa: E402

NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
BY_DAY = [("early_exit_if", "armv8-a"), ("gru_sequence", "armv8-a"), ("lstm_text", "rv64gcv"), ("gnn_scatter", "armv8.2-dot")]


def has_text(arrays):
    return any(np.asarray(x).dtype.kind in "OUS" for x in arrays)


@pytest.mark.parametrize("name, target", [(n, "armv8-a") for n in zoo.names(zoo.ZOO) if not zoo.is_large(n)] if NIGHTLY else BY_DAY)
def test_agrees_with_onnx_runtime(tmp_path, name, target):
    path = zoo.filled(name, zoo.BUILD / "zoo")
    sets = zoo.drawn(zoo.ZOO / f"{name}.inputs.json")[:1]
    outputs, (want,) = zoo.references(name, path, sets)
    if NIGHTLY and (has_text(want) or has_text(sets[0].values())):
        pytest.skip("text does not go to an emulated program")
    out = tmp_path / "out"
    zoo.tenon("run", path, *zoo.written(sets[0], tmp_path), "--target", target, "--output-dir", out)
    got = [np.load(out / f"{zoo.re.sub('[^A-Za-z0-9_.-]', '_', each)}.npy") for each in outputs]
    allowed = zoo.ALLOWED.get(name, zoo.PLAIN)
    assert zoo.error_of(name, outputs, got, want, allowed) <= allowed
    shutil.rmtree(out)
