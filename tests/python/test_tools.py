"""The tenon command that comes with the package, and its verbs from Python."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, model_of
from onnx import TensorProto as T
from onnx import helper

import tenon

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


def run(*words):
    return subprocess.run([sys.executable, "-m", "tenon", *map(str, words)], capture_output=True, text=True)


def test_the_command(tmp_path):
    assert run("--version").stdout == f"tenon {tenon.__version__}\n"
    done = run("compile", DIGITS, "-o", tmp_path / "digits.so")
    assert done.returncode == 0 and "kernels" in done.stdout, done.stderr
    assert tenon.load(tmp_path / "digits.so").inputs[0].name == "image"
    done = run("compile", "/there/is/none.onnx", "-o", tmp_path / "m.so")
    assert done.returncode == 2 and "cannot open" in done.stderr
    done = subprocess.run(f"{sys.executable} -m tenon operators | head -1", shell=True, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.startswith("|")


def test_it_is_installed():
    script = pathlib.Path(sys.executable).with_name("tenon")
    if not script.exists():
        pytest.skip("not run from an installed package")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout == f"tenon {tenon.__version__}\n"


def test_verify():
    outputs = tenon.verify(DIGITS, {"image": np.zeros((2, 1, 8, 8), np.float32)})
    assert [o["output"] for o in outputs] == ["probability"] and outputs[0]["agrees"]
    nan = model_of([helper.make_node("Sqrt", ["x"], ["y"])], [("x", T.FLOAT, ["n"])], [("y", T.FLOAT, ["n"])])
    assert tenon.verify(nan, dims={"n": 3}, seed=3)[0]["agrees"]
    close = tenon.verify(DIGITS, dims={"batch": 2}, atol=0, rtol=1e-12)
    assert not close[0]["agrees"] and close[0]["max_abs"] > 0


def test_bench_and_profile(digits):
    x = {"image": np.zeros((2, 1, 8, 8), np.float32)}
    told = tenon.bench(digits, x, threads=1, iterations=20)
    assert told["iterations"] == 20 and told["threads"] == 1 and told["median_ms"] > 0
    told = tenon.profile(digits, x, threads=1, iterations=20)
    assert len(told["kernels"]) == len(digits.kernels) and all(k["ms"] >= 0 for k in told["kernels"])
    assert os.path.exists(digits.path)


def test_explain():
    told = tenon.explain(DIGITS, dims={"batch": 1})
    assert told["kernels"] == len(told["groups"]) > 1
    assert tenon.explain(DIGITS, why=("conv1", "relu1")) == "conv1 and relu1 are in kernel 2"


def test_what_fails_is_an_exception():
    with pytest.raises(tenon.UsageError, match="there/is/none.onnx: error: cannot open"):
        tenon.verify("/there/is/none.onnx")
    with pytest.raises(tenon.ModelError):
        tenon.explain(b"no model")
    with pytest.raises(tenon.UsageError, match="treads"):
        tenon.bench(DIGITS, treads=1)
