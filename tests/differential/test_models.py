"""Whole models against ONNX Runtime, on the same seeded inputs.

The error of an output is the largest difference from ONNX Runtime's, relative to the largest value of
ONNX Runtime's. It stays below 1e-4 for every model; what it was is written to model_errors.txt in the
build folder. BERT is compiled once, with batch and seq unknown, and run at four sizes.
"""
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import onnxruntime
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
sys.path.insert(0, str(ROOT / "bench"))
from fill import filled  # noqa: E402

ALLOWED = 1e-4
VISION = ["mobilenet_v1", "resnet50", "vgg16", "efficientnet_b0", "squeezenet1_1", "mixer_b16"]
BERT_SIZES = [(1, 1), (1, 128), (2, 37), (3, 512)]
WORDS = 30522                     # BERT's vocabulary


def tenon(*args) -> str:
    done = subprocess.run([TENON, *map(str, args)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"tenon {' '.join(map(str, args))}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Compiled:
    """A model file, compiled once, and ONNX Runtime's session of the same file."""

    def __init__(self, path: pathlib.Path, folder: pathlib.Path):
        self.so = folder / f"{path.stem}.so"
        start = time.monotonic()
        tenon("compile", path, "-o", self.so)
        self.seconds = time.monotonic() - start
        self.reference = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def error(self, inputs: dict[str, np.ndarray], folder: pathlib.Path) -> float:
        """The largest relative error over all outputs."""
        given = []
        for name, x in inputs.items():
            np.save(folder / f"{name}.npy", x)
            given += ["--input", f"{name}=@{folder / name}.npy"]
        tenon("run", self.so, *given, "--output-dir", folder / "out")
        names = [o.name for o in self.reference.get_outputs()]
        worst = 0.0
        for name, want in zip(names, self.reference.run(names, inputs)):
            got = np.load(folder / "out" / f"{name.replace('/', '_')}.npy")
            assert got.dtype == want.dtype and got.shape == want.shape
            assert np.isfinite(got).all() == np.isfinite(want).all()
            worst = max(worst, float(np.abs(got - want).max() / np.abs(want).max()))
        return worst


@pytest.fixture(scope="module")
def table():
    """(model, sizes, error, seconds of compiling), written when the last test is done."""
    rows = []
    yield rows
    lines = [f"{'model':18}{'inputs':>18}{'largest error':>16}{'compiled in':>14}"]
    lines += [f"{model:18}{sizes:>18}{error:16.2e}{seconds:12.1f} s" for model, sizes, error, seconds in rows]
    (BUILD / "model_errors.txt").write_text("\n".join(lines) + "\n")


def judge(table, model: str, sizes: str, error: float, seconds: float) -> None:
    table.append((model, sizes, error, seconds))
    assert error < ALLOWED


def test_digits(table, tmp_path):
    model = Compiled(ROOT / "examples/digits/digits.onnx", tmp_path)
    held_out = np.load(ROOT / "examples/digits/held_out.npz")
    judge(table, "digits", f"{len(held_out['images'])} images", model.error({"image": held_out["images"]}, tmp_path), model.seconds)


@pytest.mark.parametrize("name", VISION)
def test_vision(table, tmp_path, name):
    model = Compiled(filled(name, BUILD / "models"), tmp_path)
    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224), dtype=np.float32)
    judge(table, name, "1x3x224x224", model.error({"input": x}, tmp_path), model.seconds)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return Compiled(filled("bert_base", BUILD / "models"), tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize("batch, seq", BERT_SIZES)
def test_bert(table, bert, tmp_path, batch, seq):
    """Words are random; each row of the batch but the first is a sentence that ends early."""
    rng = np.random.default_rng(2)
    ids = rng.integers(0, WORDS, (batch, seq), dtype=np.int64)
    lengths = np.array([seq] + [max(1, seq * (batch - i) // batch) for i in range(1, batch)])
    mask = (np.arange(seq)[None, :] < lengths[:, None]).astype(np.int64)
    judge(table, "bert_base", f"{batch}x{seq}", bert.error({"ids": ids, "mask": mask}, tmp_path), bert.seconds)


@pytest.mark.parametrize("name, sizes", [(name, {}) for name in VISION] + [("bert_base", dict(zip(("batch", "seq"), size))) for size in BERT_SIZES[1:3]])
def test_trees_keep_to_their_memory(tmp_path, name, sizes):
    """Every access of every kernel inside its buffer, every element written once: without running any. By day the
    smaller models."""
    if name in ("resnet50", "vgg16", "mixer_b16") and not os.environ.get("TENON_NIGHTLY"):
        pytest.skip("at night")
    tenon("compile", filled(name, BUILD / "models"), "--stop-after=schedule", "--dump=schedule", "--dump-dir", tmp_path)
    [dump] = tmp_path.glob("*schedule*.tn")
    done = subprocess.run([BUILD / "tests" / "tool_prove", dump, *(f"{symbol}={size}" for symbol, size in sizes.items())], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
