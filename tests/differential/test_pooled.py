"""Pooling in the kernel of the convolution before it: some rows at a time, or inside of tiles of a transform domain. The numbers are the
interpreter's, whatever the windows, the compiler and the order in which values lie."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
POOLS = {"halves": ("MaxPool", dict(kernel_shape=[2, 2], strides=[2, 2])), "means": ("AveragePool", dict(kernel_shape=[2, 2], strides=[2, 2])),
         "overlap": ("MaxPool", dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])), "thirds": ("MaxPool", dict(kernel_shape=[3, 3], strides=[3, 3]))}
PLAN = "graph pooled {\n  kernel {\n    %a inline\n    %b scratch 1\n    %y\n  }\n  kernel {\n    %z\n  }\n}\n"


def pooled(folder, pool, high, wide, stride=1):
    """conv, relu, pooling, and a convolution that reads it: so what lies between may lie in any order."""
    rng = np.random.default_rng(3)
    weights = {"w": (32, 16, 3, 3), "v": (8, 32, 1, 1)}
    kind, words = POOLS[pool]
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[stride, stride]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node(kind, ["b"], ["y"], **words), helper.make_node("Conv", ["y", "v"], ["z"])]
    graph = helper.make_graph(nodes, "pooled", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16, high, wide])],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array((rng.standard_normal(s) * 0.2).astype(np.float32), w) for w, s in weights.items()])
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    (folder / "plan.txt").write_text(PLAN)
    return path


def tenon(*words):
    return subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("words", [[], ["--exact"], ["--exact", "--cc", "clang"], ["--weights-growth", "3000", "--cc", "clang"], ["--exact", "--formats", "none"]])
@pytest.mark.parametrize("pool, high, wide, stride", [("halves", 24, 24, 1), ("means", 17, 22, 1), ("overlap", 19, 15, 1), ("overlap", 21, 24, 2), ("thirds", 12, 13, 1)])
def test_numbers_are_the_interpreters(tmp_path, pool, high, wide, stride, words):
    model = pooled(tmp_path, pool, high, wide, stride)
    done = tenon("verify", model, "--dim", "n=2", "--fuse-plan", tmp_path / "plan.txt", *words)
    assert done.returncode == 0 and "agrees" in done.stdout, done.stderr


def test_the_price_takes_it(tmp_path):
    model = pooled(tmp_path, "halves", 112, 112)
    done = tenon("explain", model, "--dim", "n=1", "--why", "b,y", "--target", "x86-64-v3")
    assert done.returncode == 0 and "are in kernel" in done.stdout, done.stdout + done.stderr
