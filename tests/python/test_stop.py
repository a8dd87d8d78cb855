"""A compilation ends at once: by Ctrl-C, wherever it is, and by what a progress callback raises."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import model_of
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import tenon

SOON = 2.0      # [s] on a busy machine

SLOW_COMPILER = """#!/bin/sh
case " $* " in
*" -dM "*) exec cc "$@" ;;
esac
echo begun > "$BEGUN"
sleep 60
"""

PROGRAM = """
import sys, tenon
try:
    tenon.compile(sys.argv[1], cache_dir="", progress=False)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def deep(path, layers=400):
    """Convolutions of different sizes in a row: the search for fusion and layouts takes many seconds."""
    draw, nodes, weights, x = np.random.default_rng(0), [], [], "x"
    for i in range(layers):
        weights.append(numpy_helper.from_array(draw.standard_normal((8 + (i + 1) % 61, 8 + i % 61, 3, 3)).astype(np.float32), f"w{i}"))
        nodes += [helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], pads=[1] * 4), helper.make_node("Sigmoid", [f"c{i}"], [f"s{i}"]),
                  helper.make_node("Mul", [f"c{i}", f"s{i}"], [f"y{i}"])]
        x = f"y{i}"
    path.write_bytes(model_of(nodes, [("x", T.FLOAT, ["n", 8, "h", "w"])], [(x, T.FLOAT, None)], weights).SerializeToString())
    return path


def interrupted(path, env, begun):
    """Seconds from Ctrl-C to the end, once `begun` is true."""
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, path], env=os.environ | env, stdout=subprocess.PIPE, text=True, start_new_session=True,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    until = time.time() + 60
    while not begun(child):
        assert child.poll() is None and time.time() < until
        time.sleep(0.02)
    start = time.monotonic()
    os.killpg(child.pid, signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    assert said == "interrupted\n"
    return time.monotonic() - start


def test_ctrl_c_while_tenon_searches(tmp_path):
    start = time.monotonic()
    assert interrupted(deep(tmp_path / "deep.onnx"), {}, lambda child: time.monotonic() - start > 2.5) < SOON


def test_ctrl_c_while_the_c_compiler_runs(tmp_path):
    compiler, begun = tmp_path / "slow-cc", tmp_path / "begun"
    compiler.write_text(SLOW_COMPILER)
    compiler.chmod(0o755)
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", T.FLOAT, ["n"])], [("y", T.FLOAT, ["n"])])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert interrupted(tmp_path / "m.onnx", {"CC": str(compiler), "BEGUN": str(begun)}, lambda child: begun.exists()) < SOON


def test_what_progress_raises_stops(tmp_path):
    said = []

    def stop(*what):
        said.append(time.monotonic())
        raise KeyError("enough")
    with pytest.raises(KeyError, match="enough"):
        tenon.compile(deep(tmp_path / "deep.onnx", 3), progress=stop, cache_dir="")
    assert len(said) == 1 and time.monotonic() - said[0] < SOON
    assert not list(pathlib.Path(tmp_path).glob("*.so"))
