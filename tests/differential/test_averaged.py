"""A depthwise convolution that is stored and its average over whole planes in one kernel (squeeze and excite), and a product and its average. The numbers are the
interpreter's, whatever the window, the compiler and the order in which values lie."""
import pytest
from onnx import helper

from planned import agrees, are_joined, saved

PLAN = "  kernel { %a }\n  kernel {\n    %b inline\n    %c inline\n    %d\n    %mean\n  }\n  kernel {\n    %scaled inline\n    %z\n  }\n"


def squeeze(folder, channels, high, wide, size, stride):
    """A product, a depthwise convolution, swish, its mean, and a product of both."""
    weights = {"u": (channels, 8, 1, 1), "w": (channels, 1, size, size), "v": (8, channels, 1, 1)}
    nodes = [helper.make_node("Conv", ["x", "u"], ["a"]), helper.make_node("Conv", ["a", "w"], ["b"], group=channels, pads=[size // 2] * 4, strides=[stride] * 2),
             helper.make_node("Sigmoid", ["b"], ["c"]), helper.make_node("Mul", ["b", "c"], ["d"]), helper.make_node("GlobalAveragePool", ["d"], ["mean"]),
             helper.make_node("Mul", ["d", "mean"], ["scaled"]), helper.make_node("Conv", ["scaled", "v"], ["z"])]
    return saved(folder, nodes, ["n", 8, high, wide], weights, PLAN)


@pytest.mark.parametrize("words", [[], ["--cc", "clang"], ["--formats", "none"], ["--formats", "nhwc", "--target", "x86-64-v3"]])
@pytest.mark.parametrize("channels, high, wide, size, stride", [(32, 14, 14, 3, 1), (48, 15, 9, 5, 2), (20, 7, 12, 3, 1)])
def test_numbers_are_the_interpreters(tmp_path, channels, high, wide, size, stride, words):
    agrees(squeeze(tmp_path, channels, high, wide, size, stride), *words)


def head(folder, channels, high, wide):
    """A product, swish, the mean of all that it makes, and a product of that: how a network of convolutions ends."""
    weights = {"u": (24, 8, 1, 1), "w": (channels, 24, 1, 1), "v": (8, channels, 1, 1)}
    nodes = [helper.make_node("Conv", ["x", "u"], ["a"]), helper.make_node("Conv", ["a", "w"], ["b"]), helper.make_node("Sigmoid", ["b"], ["c"]),
             helper.make_node("Mul", ["b", "c"], ["d"]), helper.make_node("GlobalAveragePool", ["d"], ["mean"]), helper.make_node("Conv", ["mean", "v"], ["z"])]
    return saved(folder, nodes, ["n", 8, high, wide], weights, PLAN.split("  kernel {\n    %scaled")[0] + "  kernel { %z }\n")


@pytest.mark.parametrize("words", [[], ["--cc", "clang"], ["--formats", "none"], ["--target", "x86-64-v3"]])
@pytest.mark.parametrize("channels, high, wide", [(64, 7, 7), (96, 3, 13), (20, 5, 1)])
def test_a_product_may_be_averaged(tmp_path, channels, high, wide, words):
    agrees(head(tmp_path, channels, high, wide), *words)


@pytest.mark.parametrize("channels, high, size, stride", [(480, 14, 3, 1), (32, 112, 3, 1), (96, 112, 3, 2)])
def test_the_price_takes_it(tmp_path, channels, high, size, stride):
    are_joined(squeeze(tmp_path, channels, high, high, size, stride), "d,mean", "--target", "x86-64-v4", "--cores", "2")
