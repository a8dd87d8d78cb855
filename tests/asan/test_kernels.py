"""Emitted kernels under the address sanitizer: compiled with -fsanitize=address and run by a tenon that was
too (./dev test asan), on memory that is exact to the byte, so an access outside a buffer ends the run.

By day a sample, TENON_NIGHTLY=1 all: one model for each group of operators, and random ones.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

ROOT = Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build-asan" / "tenon"))
NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
CC = "gcc -fsanitize=address"
EVERY = sorted(p for p in (ROOT / "tests" / "fuzz" / "corpus-onnx").iterdir() if p.suffix == "" and p.name not in ("empty-code", "null-string", "external"))
SAMPLE = EVERY if NIGHTLY else [p for p in EVERY if p.name in ("conv", "gemm", "softmax", "pools", "slice", "gather", "layer_norm", "reduce")]

pytestmark = pytest.mark.skipif("asan" not in TENON, reason="the host is not under the sanitizer: ./dev test asan")


def tenon(folder, *args):
    env = os.environ | {"TENON_CACHE_DIR": str(folder / "cache"), "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([TENON, *map(str, args)], cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def symbols_of(path):
    model = onnx.load(path, load_external_data=False)
    return sorted({d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim if d.dim_param})


def test_an_access_behind_a_buffer_is_seen(tmp_path):
    """A loop of one trip too many, which the text of a kernel may say, for its author is trusted."""
    (tmp_path / "m.tn").write_text("graph @t(%x: f32[8]) -> (%a) {\n  %a: f32[8] = relu(%x)\n}\n")
    dump = tenon(tmp_path, "compile", "m.tn", "--plain", "--dump", "schedule", "--stop-after", "schedule").stdout
    assert "serial i < 8" in dump
    for trips, seen in (8, False), (9, True):
        (tmp_path / "k.tn").write_text(re.sub(r"i < 8", lambda m: m[0].replace("8", str(trips)), dump))
        done = tenon(tmp_path, "run", "k.tn", "--cc", CC)
        assert ("heap-buffer-overflow" in done.stderr) == seen, done.stderr
        assert (done.returncode != 0) == seen, done.stderr


@pytest.mark.parametrize("path", SAMPLE, ids=lambda p: p.name)
@pytest.mark.parametrize("options", [[], ["--plain"]] if NIGHTLY else [[]], ids=lambda o: " ".join(o) or "best")
def test_operators(tmp_path, path, options):
    for size in (1, 5, 19):
        dims = [f"--dim={s}={size}" for s in symbols_of(path)]
        done = tenon(tmp_path, "verify", path, "--cc", CC, *dims, *options)
        assert "AddressSanitizer" not in done.stderr, done.stderr
        assert done.returncode in (0, 2, 4), done.stderr            # some sizes do not fit a model


@pytest.mark.parametrize("seed", range(40 if NIGHTLY else 2))
def test_random_models(tmp_path, seed):
    sys.path.insert(0, str(ROOT / "tests" / "differential"))
    import random_models
    random_models.TENON = TENON
    random_models.DIRTY = os.environ | {"CC": CC, "ASAN_OPTIONS": "detect_leaks=0"}
    wrong = random_models.faults(random_models.graphs_of(1000 + seed, 4), tmp_path, [], threads=1 + seed % 2)
    assert not wrong, "\n".join(what for _, what in wrong)
