"""Sums under windows: convolutions to few channels and with long windows, windows that do not overlap, and what is read under a window through
other operators. The numbers are the interpreter's, and the steps are those that read the image as vectors."""
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from planned import agrees as agrees_joined, saved, tenon

PLAN = "  kernel { %z }\n"


def convolution(folder, channels, outputs, window, strides, pads, size):
    return saved(folder, [helper.make_node("Conv", ["x", "w"], ["z"], strides=strides, pads=pads)], ["n", channels, *size],
                 {"w": (outputs, channels, *window)}, PLAN)


def agrees(model, *words):
    done = tenon("verify", model, "--dim", "n=2", *words)
    assert done.returncode == 0 and "agrees" in done.stdout, done.stderr


def steps(model, *words):
    """The schedules chosen."""
    done = tenon("compile", model, "--dump=choose", "--stop-after=choose", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


FEW = {"to_one": (9, 1, [7, 3], [1, 1], [3, 1, 3, 1], (17, 23)), "to_one_in_steps": (5, 1, [3, 3], [2, 2], [1, 1, 1, 1], (16, 21)),
       "to_one_far": (3, 1, [3, 3], [1, 1], [4, 0, 0, 5], (6, 7)), "large": (1, 1, [1, 131], [1, 2], [0, 5, 0, 7], (3, 300)),
       "beside": (1, 12, [1, 64], [1, 64], [0, 0, 0, 0], (1, 1200)), "patches": (3, 20, [4, 4], [4, 4], [0, 0, 0, 0], (24, 36)),
       "halves": (40, 24, [2, 2], [2, 2], [0, 0, 0, 0], (14, 14)), "with_gaps": (6, 9, [2, 3], [3, 4], [1, 2, 0, 1], (19, 22))}


@pytest.mark.parametrize("words", [[], ["--target", "x86-64-v3"], ["--cc", "clang", "--target", "x86-64-v3"], ["--formats", "nhwc"]])
@pytest.mark.parametrize("case", FEW)
def test_numbers_are_the_interpreters(tmp_path, case, words):
    agrees(convolution(tmp_path, *FEW[case]), *words)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_one_channel_has_pixels_as_columns(tmp_path, target):
    for shape in [(32, 1, [7, 3], [1, 1], [3, 1, 3, 1], (172, 88)), (1, 1, [1, 256], [1, 2], [0, 0, 0, 0], (1, 44098))]:
        text = steps(convolution(tmp_path, *shape), "--target", target, "--dim", "n=1")
        assert "-> j_ pitched" in text and "image rhs at task" in text and "run l vector" in text, text


def test_samples_have_an_image_each(tmp_path):
    """Of one channel or of several, however many samples there are."""
    for outputs in [1, 4]:
        text = steps(convolution(tmp_path, 8, outputs, [5, 5], [1, 1], [2, 2, 2, 2], (40, 64)), "--target", "x86-64-v3")
        assert "fuse k l -> j_ pitched" in text and "image rhs at task" in text, text


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_windows_beside_each_other_are_panels(tmp_path, target):
    text = steps(convolution(tmp_path, 1, 36, [1, 256], [1, 256], [0, 0, 0, 0], (1, 44100)), "--target", target, "--dim", "n=1")
    assert "stage rhs at task -> pack" in text and "turned" in text, text


def through(folder, before, after, high=13, wide=27):
    """x, what stands before the window, and the window: a plan puts both into one kernel."""
    nodes, fixed, channels = BEFORE[before]
    last, filter = AFTER[after](channels)
    weights = {"w": filter} if filter else {}
    names = [n.output[0] for n in nodes]
    plan = "  kernel {\n" + "".join(f"    %{n} inline\n" for n in names) + "    %z\n  }\n"
    shape = ["n", 5, wide, high] if before == "turned" else ["n", 5, high, wide]
    path = saved(folder, [*nodes, last], shape, weights, plan)
    model = onnx.load(path)
    model.graph.initializer.extend(numpy_helper.from_array(np.array(v), n) for n, v in fixed.items())
    onnx.save(model, path)
    return path


def node(kind, inputs, output="t", **words):
    return helper.make_node(kind, inputs, [output], **words)


SLICE = {"b": np.int64([2]), "e": np.int64([-3]), "a": np.int64([3])}
BEFORE = {
    "slice": ([node("Slice", ["x", "b", "e", "a"])], SLICE, 5),
    "steps": ([node("Slice", ["x", "b", "e", "a", "s"])], {**SLICE, "s": np.int64([2])}, 5),
    "turned": ([node("Transpose", ["x"], "u", perm=[0, 1, 3, 2]), node("Slice", ["u", "b", "e", "a"])], SLICE, 5),
    "padded": ([node("Pad", ["x", "p"])], {"p": np.int64([0, 0, 2, 1, 0, 0, 0, 3])}, 5),
    "padded_by_other": ([node("Pad", ["x", "p", "c"])], {"p": np.int64([0, 0, 2, 1, 0, 0, 0, 3]), "c": np.float32(1.5)}, 5),
    "mirrored": ([node("Pad", ["x", "p"], mode="reflect")], {"p": np.int64([0, 0, 2, 1, 0, 0, 0, 3])}, 5),
    "stretched": ([node("Resize", ["x", "", "f"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
                  {"f": np.float32([1, 1, 2, 2])}, 5),
    "rolled": ([node("Slice", ["x", "o", "b", "a"], "u"), node("Slice", ["x", "b", "m", "a"], "v"), node("Concat", ["v", "u"], axis=3)],
               {**SLICE, "o": np.int64([0]), "m": np.int64([100])}, 5),
    "made": ([node("Slice", ["x", "b", "e", "a"], "u"), node("Sigmoid", ["u"])], SLICE, 5),
    "channels": ([node("Slice", ["x", "b", "e", "a"])], {"b": np.int64([1]), "e": np.int64([4]), "a": np.int64([1])}, 3),
}
AFTER = {
    "convolution": lambda c: (node("Conv", ["t", "w"], "z", pads=[1, 1, 1, 1]), (9, c, 3, 3)),
    "in_steps": lambda c: (node("Conv", ["t", "w"], "z", pads=[1, 0, 2, 1], strides=[2, 2]), (9, c, 3, 3)),
    "dilated": lambda c: (node("Conv", ["t", "w"], "z", pads=[2, 2, 2, 2], dilations=[2, 2]), (9, c, 3, 3)),
    "to_one": lambda c: (node("Conv", ["t", "w"], "z", pads=[1, 2, 1, 2]), (1, c, 3, 5)),
    "depthwise": lambda c: (node("Conv", ["t", "w"], "z", pads=[1, 1, 1, 1], group=c), (c, 1, 3, 3)),
    "depthwise_in_steps": lambda c: (node("Conv", ["t", "w"], "z", pads=[2, 2, 2, 2], strides=[2, 2], group=c), (c, 1, 5, 5)),
    "maximum": lambda c: (node("MaxPool", ["t"], "z", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), None),
    "mean": lambda c: (node("AveragePool", ["t"], "z", kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1], count_include_pad=1), None),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
def test_what_is_read_through_others(tmp_path, before, after):
    model = through(tmp_path, before, after)
    agrees_joined(model, "--quick")
    agrees_joined(model, "--quick", "--target", "x86-64-v3", "--formats", "nhwc")


@pytest.mark.parametrize("after", ["convolution", "in_steps", "dilated", "to_one", "depthwise", "maximum", "mean"])
@pytest.mark.parametrize("before", ["slice", "steps", "padded", "made"])
def test_an_image_is_made_of_it(tmp_path, before, after):
    """As it is of a tensor: its programs have vectors of neighbours."""
    model = through(tmp_path, before, after, 32, 67)
    text = steps(model, "--target", "x86-64-v3", "--fuse-plan", model.with_name("plan.txt"))
    assert "image rhs at" in text or "image x at" in text, text
