"""Convolutions of images and of frames whose sizes are open: what their code does, which programs they get, and that each computes
what the interpreter does at all sizes around the bounds of its tiles.
"""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))


def tenon(*words):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def convolution(folder, channels, filters, sizes, batch="batch", kernel=3, stride=1, silu=False):
    """A convolution of an image of these sizes, each a number or a name, that is as large as its image over the stride."""
    rng = np.random.default_rng(0)
    rank = len(sizes)
    w = rng.standard_normal((filters, channels, *[kernel] * rank)).astype(np.float32) / 8
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[kernel // 2] * 2 * rank, strides=[stride] * rank)]
    if silu:
        nodes += [helper.make_node("Sigmoid", ["c"], ["s"]), helper.make_node("Mul", ["c", "s"], ["y"])]
    out = "y" if silu else "c"
    graph = helper.make_graph(nodes, "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, *sizes])],
                              [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, "w"), numpy_helper.from_array(rng.standard_normal(filters).astype(np.float32), "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "m.onnx")
    return out


def dump(folder, stage, *words):
    return tenon("compile", folder / "m.onnx", f"--dump={stage}", f"--stop-after={stage}", *words)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_distances_are_computed_once(tmp_path, target):
    """How far apart rows of a copied image lie follows from its sizes: no read divides for it."""
    convolution(tmp_path, 16, 16, ["height", "width"])
    lines = dump(tmp_path, "emit", "--target", target).splitlines()
    reads = [line for line in lines if "tn_load_f32x" in line and "(b" in line]
    assert reads and not any("tn_div" in line or "tn_mod" in line or "tn_quo" in line for line in reads), reads
    assert any("const int64_t z" in line and "tn_div" in line for line in lines)
