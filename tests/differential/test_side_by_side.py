"""Products that read one value as one kernel: queries, keys and values, of one width or of grouped heads; convolutions; integers. The
numbers are the interpreter's, whatever the compiler and the order in which values lie."""
import pytest
from onnx import helper

from planned import agrees, are_joined, saved, tenon

HEADS = "  kernel {\n    %q\n    %k\n    %v\n  }\n  kernel {\n    %s\n  }\n  kernel {\n    %z\n  }\n"
FIRES = "  kernel {\n    %a inline\n    %b\n    %c\n  }\n  kernel {\n    %z\n  }\n"


def heads(folder, rows, keys=24):
    """Three products of x, of one width or of two, and what reads them."""
    nodes = [helper.make_node("MatMul", ["x", w], [o]) for w, o in [("wq", "q"), ("wk", "k"), ("wv", "v")]]
    nodes += [helper.make_node("MatMul", ["k", "wr"], ["s"]), helper.make_node("Sum", ["q", "s", "v"], ["z"])]
    return saved(folder, nodes, ["n", rows, 40], {"wq": (40, 24), "wk": (40, keys), "wv": (40, 24), "wr": (keys, 24)}, HEADS)


def fires(folder, high, wide):
    """A pointwise convolution with relu beside one of a window, and one that reads both."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Conv", ["x", "v"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("Concat", ["b", "c"], ["both"], axis=1), helper.make_node("Conv", ["both", "u"], ["z"])]
    return saved(folder, nodes, ["n", 16, high, wide], {"w": (8, 16, 1, 1), "v": (24, 16, 3, 3), "u": (5, 32, 1, 1)}, FIRES)


@pytest.mark.parametrize("words", [[], ["--cc", "clang"], ["--formats", "none"], ["--plain"], ["--weights", "int8"]])
@pytest.mark.parametrize("rows, keys", [(1, 24), (13, 24), (13, 7), ("rows", 24)])
def test_heads(tmp_path, rows, keys, words):
    agrees(heads(tmp_path, rows, keys), *(["--dim", "rows=9"] if rows == "rows" else []), *words)


@pytest.mark.parametrize("words", [["--exact"], ["--exact", "--cc", "clang"], ["--exact", "--formats", "none"], ["--exact", "--formats", "nhwc"]])
@pytest.mark.parametrize("high, wide", [(9, 14), (16, 16)])
def test_convolutions(tmp_path, high, wide, words):
    agrees(fires(tmp_path, high, wide), *words)


def test_the_price_takes_it(tmp_path):
    are_joined(heads(tmp_path, 128), "q,v", "--target", "x86-64-v3")
    are_joined(heads(tmp_path, 128, 8), "q,k", "--target", "x86-64-v3")


def test_parts_take_turns(tmp_path):
    """A thread gets its share of each part, where their numbers of tasks have a ratio."""
    model = heads(tmp_path, 128)
    done = tenon("compile", model, "--target", "x86-64-v3", "--dim", "n=2", "--dump=schedule", "--dump-dir", tmp_path, "--stop-after=schedule")
    text = "".join(f.read_text() for f in tmp_path.glob("*schedule*.tn"))
    assert done.returncode == 0 and "let turn = task_ // " in text and "if here < " in text, text


def test_one_row_has_a_program_of_each_part(tmp_path):
    """What a row alone takes is another program, for all parts or for none; it reads constants as they lie for many rows."""
    nodes = [helper.make_node("MatMul", ["x", w], [o]) for w, o in [("wq", "q"), ("wk", "k"), ("wv", "v")]] + [helper.make_node("Sum", ["q", "k", "v"], ["z"])]
    model = saved(tmp_path, nodes, ["n", "rows", 320], {w: (320, 960) for w in ("wq", "wk", "wv")}, "  kernel {\n    %q\n    %k\n    %v\n  }\n  kernel {\n    %z\n  }\n")
    done = tenon("compile", model, "--target", "x86-64-v3", "--dump=choose", "--dump-dir", tmp_path, "--stop-after=choose", "-o", tmp_path / "m.so")
    text = "".join(f.read_text() for f in tmp_path.glob("*choose*"))
    one = text[text.index("variant n == 1, rows == 1 {"):]
    assert done.returncode == 0 and one.count("alone ") == 2, text           # v adds what the others make, so it waits for them
    agrees(model, "--dim", "rows=1", "--target", "x86-64-v3")
