"""Convolutions of images and of frames whose sizes are open: what their code does, which programs they get, and that each computes
what the interpreter does at all sizes around the bounds of its tiles.
"""
import os
import pathlib
import re
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


def expected(folder, x, kernel, stride, silu=False):
    """The convolution by its definition."""
    weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(folder / "m.onnx").graph.initializer}
    rank = x.ndim - 2
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0)] + [(kernel // 2, kernel // 2)] * rank)
    windows = np.lib.stride_tricks.sliding_window_view(padded, [kernel] * rank, axis=tuple(range(2, 2 + rank)))
    windows = windows[(slice(None), slice(None), *[slice(None, None, stride)] * rank)]
    letters = "yz"[:rank], "rs"[:rank]
    c = np.einsum(f"nc{letters[0]}{letters[1]},fc{letters[1]}->nf{letters[0]}", windows, weights["w"], optimize=True)
    c += weights["b"].reshape(1, -1, *[1] * rank)
    return c / (1 + np.exp(-c)) if silu else c


def agree(folder, out, sizes, channels, kernel=3, stride=1, silu=False, batches=(1, 2)):
    """At each of the sizes it computes what it should, on one thread and on two."""
    for i, size in enumerate(sizes):
        x = np.random.default_rng(i).standard_normal((batches[i % len(batches)], channels, *size)).astype(np.float32)
        np.save(folder / "x.npy", x)
        tenon("run", folder / "m.so", "--input", f"x=@{folder}/x.npy", "--output-dir", folder, "--threads", 1 + i % 2)
        np.testing.assert_allclose(np.load(folder / f"{out}.npy"), expected(folder, x, kernel, stride, silu), rtol=1e-4, atol=1e-4, err_msg=str(x.shape))


def guards(text):
    """Of the variants for any number of threads."""
    return [g for g in re.findall(r"variant (.*) \{", text) if "$threads" not in g]


def lays(text):
    return re.findall(r"\blay w as (\S.*\])", text)


def lanes_of(target):
    return 16 if target == "x86-64-v4" else 8


def runs_here(target):
    return target == "x86-64-v3" or "avx512vl" in pathlib.Path("/proc/cpuinfo").read_text()


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


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("stride", [1, 2])
def test_few_frames(tmp_path, target, stride):
    """A convolution over frames whose number is open has a program for one frame of one sample, with channels as lanes, and one for a vector of
    frames where its own is clearly dearer for these, as it is where frames are read in steps. All lay the weights alike, in panels of whole vectors."""
    out = convolution(tmp_path, 128, 64, ["t"], stride=stride)
    lanes, text = lanes_of(target), dump(tmp_path, "choose", "--target", target)
    expected_guards = [f"t == {stride}, batch == 1", f"1 <= t <= {stride * lanes}"]
    assert guards(text) == expected_guards[:len(guards(text))] and len(guards(text)) >= stride
    assert len(lays(text)) >= 1 + len(guards(text)) and len(set(lays(text))) == 1 and int(lays(text)[0].split("%")[1].rstrip("]")) % lanes == 0
    if not runs_here(target):
        pytest.skip("no AVX-512 here")
    tenon("compile", tmp_path / "m.onnx", "--target", target, "-o", tmp_path / "m.so")
    near = [stride * lanes + d for d in (-1, 0, 1)]
    agree(tmp_path, out, [(t,) for t in [1, 2, 3, 4, 5, *near, 2 * lanes + 1, 95, 96, 97] for _ in (1, 2)], 128, stride=stride)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_frames_that_are_expected(tmp_path, target):
    """Sizes that users name get a program of their own, priced at these sizes, which is no dearer than any other is there."""
    convolution(tmp_path, 40, 64, ["t"])
    text = dump(tmp_path, "choose", "--target", target, "--dim-hint", "batch=1", "--dim-hint", "t=4")
    assert "where t == 4" in text and len(set(lays(text))) == 1
    own = re.search(r"where t == 4 another, ([0-9.]+) times", text)                  # or one for these sizes on one thread alone
    open_seconds = seconds(text) / (float(own[1]) if own else 1)
    convolution(tmp_path, 40, 64, [4], batch=1)
    assert open_seconds <= 1.25 * seconds(dump(tmp_path, "choose", "--target", target, "--exact"))        # in no transform domain


def seconds(text):
    amount, unit = re.search(r"programs?; ([0-9.]+) (\S*s);", text).groups()
    return float(amount) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("stride", [1, 2])
def test_images(tmp_path, target, stride):
    """Images of any height and width. A task has several panels of positions, as many as it would have of an image that large, and finishes rows over all
    of them, so that few are cut in two; the last panel is as wide as it has to be."""
    out = convolution(tmp_path, 12, 32, ["height", "width"], stride=stride, silu=True)
    own = dump(tmp_path, "choose", "--target", target).split("variant ")[0]
    assert re.search(rf"split jj by \d+ -> jq jv pad {lanes_of(target)}\n", own) and "walk sums.fin.jj by" in own
    if not runs_here(target):
        pytest.skip("no AVX-512 here")
    tenon("compile", tmp_path / "m.onnx", "--target", target, "-o", tmp_path / "m.so")
    sizes = [(1, 1), (1, 7), (7, 1), (2, 3), (4, 15), (5, 16), (8, 8), (9, 17), (15, 16), (16, 16), (16, 17), (17, 16), (17, 33), (3, 97), (33, 31), (32, 64), (70, 50)]
    agree(tmp_path, out, sizes, 12, stride=stride, silu=True)


def test_pictures(tmp_path):
    """Height and width of an input with one to four colours count as a picture's, others as any size."""
    for channels, says in ((3, True), (1, True), (4, True), (5, False), (64, False)):
        convolution(tmp_path, channels, 16, ["height", "width"])
        text = dump(tmp_path, "choose", "--target", "x86-64-v3")
        assert ("symbol height counts 320" in text and "symbol width counts 320" in text) == says, channels
    convolution(tmp_path, 3, 16, ["height", 640])
    assert "counts 320" not in dump(tmp_path, "choose", "--target", "x86-64-v3")


@pytest.mark.parametrize("silu", [False, True])
def test_open_sizes_have_transform_domains(silu, tmp_path):
    """Convolutions of open height and width are done in tiles as those of fixed sizes are, and right where tiles are larger than the image."""
    rng, nodes, weights, x = np.random.default_rng(0), [], [], "x"
    for i in range(3):
        weights.append(numpy_helper.from_array(rng.standard_normal((64, 64, 3, 3)).astype(np.float32) / 24, f"w{i}"))
        nodes.append(helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], pads=[1] * 4))
        nodes += [helper.make_node("Sigmoid", [f"c{i}"], [f"s{i}"]), helper.make_node("Mul", [f"c{i}", f"s{i}"], [f"y{i}"])] if silu else [helper.make_node("Relu", [f"c{i}"], [f"y{i}"])]
        x = f"y{i}"
    graph = helper.make_graph(nodes, "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64, "height", "width"])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert "winograd_product" in dump(tmp_path, "choose", "--target", "x86-64-v3")
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    tenon("compile", tmp_path / "m.onnx", "--exact", "-o", tmp_path / "exact.so")
    for i, size in enumerate([(1, 1), (1, 9), (2, 3), (3, 4), (4, 5), (6, 6), (7, 13), (12, 8), (25, 31)]):
        np.save(tmp_path / "x.npy", rng.standard_normal((1 + i % 3, 64, *size)).astype(np.float32))
        found = []
        for so in ("m.so", "exact.so"):
            tenon("run", tmp_path / so, "--input", f"x=@{tmp_path}/x.npy", "--output-dir", tmp_path, "--threads", 1 + i % 2)
            found.append(np.load(tmp_path / f"{x}.npy"))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-4, err_msg=str(size))


@pytest.mark.parametrize("kernel, stride, image", [((3,), (1,), (2,)), ((3,), (1,), (97,)), ((1, 3), (1, 1), (56, 57)), ((3, 1), (1, 1), (53, 28)),
                                                   ((3, 5), (1, 2), (36, 27))])
def test_windows_have_transform_domains_along_one_side(kernel, stride, image, tmp_path):
    """A window of three with stride 1 along one axis is done in tiles along that axis, whatever it is along others."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((128, 128, *kernel)).astype(np.float32) / 24
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=2 * [k // 2 for k in kernel], strides=stride), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "side", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 128, *image])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, "w"), numpy_helper.from_array(rng.standard_normal(128).astype(np.float32), "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert "winograd_product" in dump(tmp_path, "choose", "--target", "x86-64-v3", "--weights-growth", 400)
    for threads in (1, 2):
        tenon("verify", tmp_path / "m.onnx", "--target", "x86-64-v3", "--weights-growth", 400, "--threads", threads)


def test_the_row_of_a_pixel_is_found_outside_of_sums(tmp_path):
    """Rows of open width that are tiled across their ends: a quotient by the width does not stand in the loops over summands."""
    convolution(tmp_path, 64, 128, ("height", "width"), stride=2)
    tenon("compile", tmp_path / "m.onnx", "--target", "x86-64-v3", "--cores", 1, "-o", tmp_path / "m.c")
    text = (tmp_path / "m.c").read_text()
    for line in text.splitlines():
        if " + (tn_splat_" in line and "tn_load" not in line:
            assert "tn_div(" not in line and "tn_mod(" not in line, line
    assert re.search(r"const int64_t y\d+ = tn_(div|mod)\(", text)


@pytest.mark.parametrize("kernel, stride, pad", [(3, 2, 1), (3, 1, 0), (5, 1, 2)])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "depthwise"])
def test_windows_of_channels(op, kernel, stride, pad, tmp_path):
    """Channels are lanes wherever an image of open size lies so, at its border as well."""
    rng = np.random.default_rng(0)
    shape = dict(kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
    w = rng.standard_normal((48, 1, kernel, kernel)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=48, **shape) if op == "depthwise" else helper.make_node(op, ["x"], ["y"], **shape)
    graph = helper.make_graph([node], "windows", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 48, "h", "w"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")] if op == "depthwise" else [])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    words = ["compile", tmp_path / "m.onnx", "--target", "x86-64-v3", "--io-format", "x=nhwc", "--io-format", "y=nhwc"]
    chosen = tenon(*words, "--dump=choose", "--stop-after=choose")
    assert "run cl_ vector" in chosen and " peel 1" in chosen, chosen
    tenon(*words, "-o", tmp_path / "m.so")
    tenon("compile", tmp_path / "m.onnx", "--plain", "-o", tmp_path / "plain.so")
    for i, (h, wide) in enumerate([(kernel, kernel), (5, 6), (7, 23), (34, 17)]):
        x = rng.standard_normal((1 + i % 2, 48, h, wide)).astype(np.float32)
        for name, given in (("m", x.transpose(0, 2, 3, 1)), ("plain", x)):
            np.save(tmp_path / "x.npy", given)
            tenon("run", tmp_path / f"{name}.so", "--input", f"x=@{tmp_path}/x.npy", "--output-dir", tmp_path)
            (tmp_path / "y.npy").rename(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(np.load(tmp_path / "m.npy").transpose(0, 3, 1, 2), np.load(tmp_path / "plain.npy"), rtol=1e-4, atol=1e-5)
