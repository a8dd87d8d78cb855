"""Sums under windows: convolutions to few channels and with long windows, windows that do not overlap. The numbers are the interpreter's, and the steps
are those that read the image as vectors."""
import pytest
from onnx import helper

from planned import saved, tenon

PLAN = "  kernel { %z }\n"


def convolution(folder, channels, outputs, window, strides, pads, size):
    return saved(folder, [helper.make_node("Conv", ["x", "w"], ["z"], strides=strides, pads=pads)], ["n", channels, *size],
                 {"w": (outputs, channels, *window)}, PLAN)


def agrees(model, *words):
    done = tenon("verify", model, "--dim", "n=2", *words)
    assert done.returncode == 0 and "agrees" in done.stdout, done.stderr


def steps(model, *words):
    """The schedules chosen for the kernels of one sample."""
    done = tenon("compile", model, "--dim", "n=1", "--dump=choose", "--stop-after=choose", *words)
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
        text = steps(convolution(tmp_path, *shape), "--target", target)
        assert "-> j_ pitched" in text and "image rhs at task" in text and "run l vector" in text, text


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_windows_beside_each_other_are_panels(tmp_path, target):
    text = steps(convolution(tmp_path, 1, 36, [1, 256], [1, 256], [0, 0, 0, 0], (1, 44100)), "--target", target)
    assert "stage rhs at task -> pack" in text and "turned" in text, text
