"""A depthwise convolution that is stored and its average over whole planes in one kernel (squeeze and excite). The numbers are the
interpreter's, whatever the window, the compiler and the order in which values lie."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
PLAN = "graph squeeze {\n  kernel { %a }\n  kernel {\n    %b inline\n    %c inline\n    %d\n    %mean\n  }\n  kernel {\n    %scaled inline\n    %z\n  }\n}\n"


def squeeze(folder, channels, high, wide, size, stride):
    """A product, a depthwise convolution, swish, its mean, and a product of both."""
    rng = np.random.default_rng(3)
    weights = {"u": (channels, 8, 1, 1), "w": (channels, 1, size, size), "v": (8, channels, 1, 1)}
    nodes = [helper.make_node("Conv", ["x", "u"], ["a"]), helper.make_node("Conv", ["a", "w"], ["b"], group=channels, pads=[size // 2] * 4, strides=[stride] * 2),
             helper.make_node("Sigmoid", ["b"], ["c"]), helper.make_node("Mul", ["b", "c"], ["d"]), helper.make_node("GlobalAveragePool", ["d"], ["mean"]),
             helper.make_node("Mul", ["d", "mean"], ["scaled"]), helper.make_node("Conv", ["scaled", "v"], ["z"])]
    graph = helper.make_graph(nodes, "squeeze", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, high, wide])],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array((rng.standard_normal(s) * 0.2).astype(np.float32), w) for w, s in weights.items()])
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    (folder / "plan.txt").write_text(PLAN)
    return path


def tenon(*words):
    return subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("words", [[], ["--cc", "clang"], ["--formats", "none"], ["--formats", "nhwc", "--target", "x86-64-v3"]])
@pytest.mark.parametrize("channels, high, wide, size, stride", [(32, 14, 14, 3, 1), (48, 15, 9, 5, 2), (20, 7, 12, 3, 1)])
def test_numbers_are_the_interpreters(tmp_path, channels, high, wide, size, stride, words):
    model = squeeze(tmp_path, channels, high, wide, size, stride)
    done = tenon("verify", model, "--dim", "n=2", "--fuse-plan", tmp_path / "plan.txt", *words)
    assert done.returncode == 0 and "agrees" in done.stdout, done.stderr


def test_the_price_takes_it(tmp_path):
    model = squeeze(tmp_path, 480, 14, 14, 3, 1)
    done = tenon("explain", model, "--dim", "n=1", "--why", "d,mean", "--target", "x86-64-v4")
    assert done.returncode == 0 and "are in kernel" in done.stdout, done.stdout + done.stderr
