"""Pooling in the kernel of the convolution before it: some rows at a time, or inside of tiles of a transform domain. The numbers are the
interpreter's, whatever the windows, the compiler and the order in which values lie."""
import pytest
from onnx import helper

from planned import agrees, are_joined, saved, tenon

POOLS = {"halves": ("MaxPool", dict(kernel_shape=[2, 2], strides=[2, 2])), "means": ("AveragePool", dict(kernel_shape=[2, 2], strides=[2, 2])),
         "overlap": ("MaxPool", dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])), "thirds": ("MaxPool", dict(kernel_shape=[3, 3], strides=[3, 3]))}
PLAN = "  kernel {\n    %a inline\n    %b scratch 1\n    %y\n  }\n  kernel {\n    %z\n  }\n"


def pooled(folder, pool, high, wide, stride=1):
    """conv, relu, pooling, and a convolution that reads it: so what lies between may lie in any order."""
    kind, words = POOLS[pool]
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[stride, stride]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node(kind, ["b"], ["y"], **words), helper.make_node("Conv", ["y", "v"], ["z"])]
    return saved(folder, nodes, ["n", 16, high, wide], {"w": (32, 16, 3, 3), "v": (8, 32, 1, 1)}, PLAN)


@pytest.mark.parametrize("words", [[], ["--exact"], ["--exact", "--cc", "clang"], ["--weights-growth", "3000", "--cc", "clang"], ["--exact", "--formats", "none"]])
@pytest.mark.parametrize("pool, high, wide, stride", [("halves", 24, 24, 1), ("means", 17, 22, 1), ("overlap", 19, 15, 1), ("overlap", 21, 24, 2), ("thirds", 12, 13, 1)])
def test_numbers_are_the_interpreters(tmp_path, pool, high, wide, stride, words):
    agrees(pooled(tmp_path, pool, high, wide, stride), *words)


def test_the_price_takes_it(tmp_path):
    are_joined(pooled(tmp_path, "halves", 112, 112), "b,y", "--target", "x86-64-v3")


def test_a_window_of_many_channels_over_a_product_of_one(tmp_path):
    """A transposed convolution: they share the samples alone, and are two kernels."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[4, 2]), helper.make_node("ConvTranspose", ["y", "v"], ["z"], strides=[2], dilations=[3], pads=[1, 1])]
    agrees(saved(tmp_path, nodes, ["n", 9, "size"], {"w": (1, 9, 2), "v": (1, 2, 4)}, "  kernel {\n    %y\n  }\n  kernel {\n    %z\n  }\n"))
    assert tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "n.so").returncode == 0
