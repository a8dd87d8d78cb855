"""Rows and channels at places that data give: planes that are scattered as rows, and regions of an image whose channels lie together."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
RNG = np.random.default_rng(4)


def value(name, x, shape):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), shape)


def outputs(folder, nodes, feeds, shapes, out_shape, *options):
    """What Tenon and ONNX Runtime make of it, and what Tenon chose."""
    graph = helper.make_graph(nodes, "places", [value(n, x, shapes[n]) for n, x in feeds.items()], [helper.make_tensor_value_info("y", TensorProto.FLOAT, out_shape)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), folder / "m.onnx")
    done = subprocess.run([TENON, "compile", folder / "m.onnx", "-o", folder / "m.so", "--dump=choose", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for n, x in feeds.items():
        np.save(folder / f"{n}.npy", x)
    run = subprocess.run([TENON, "run", folder / "m.so", *[w for n in feeds for w in ("-i", f"{n}=@{folder}/{n}.npy")], "--output-dir", folder], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    session = onnxruntime.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"])
    return np.load(folder / "y.npy"), session.run(None, feeds)[0], done.stdout


@pytest.mark.parametrize("plane", [(3,), (33,), (5, 7, 7), (16, 3, 2), (1, 1, 70), (64, 2, 1)])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_planes_are_scattered_as_rows(plane, reduction, tmp_path):
    names = [f"d{i}" for i in range(len(plane))]
    for fixed in (True, False):
        shape = list(plane) if fixed else names
        feeds = dict(x=RNG.standard_normal((9, *plane)).astype("f4"), i=RNG.permutation(9)[:4].reshape(4, 1), u=RNG.standard_normal((4, *plane)).astype("f4"))
        got, want, _ = outputs(tmp_path, [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)], feeds, dict(x=[9, *shape], i=["n", 1], u=["n", *shape]), [9, *shape])
        np.testing.assert_array_equal(got, want)


def test_long_planes_are_one_index(tmp_path):
    feeds = dict(x=np.zeros((9, 64, 7, 7), "f4"), i=RNG.permutation(9)[:4].reshape(4, 1), u=RNG.standard_normal((4, 64, 7, 7)).astype("f4"))
    _, _, text = outputs(tmp_path, [helper.make_node("ScatterND", ["x", "i", "u"], ["y"])], feeds, dict(x=[9, 64, 7, 7], i=["n", 1], u=["n", 64, 7, 7]), [9, 64, 7, 7])
    assert re.search(r"fuse \w+ \w+ \w+ -> o\.x", text) and "o.l vector" in text


@pytest.mark.parametrize("channels", [1, 3, 16, 40, 130])
@pytest.mark.parametrize("size", [(9, 11), ("h", "w")])
def test_regions_of_channels_that_lie_together(channels, size, tmp_path):
    """Regions reach beyond the image, where it is 0."""
    x = RNG.standard_normal((2, 9, 11, channels)).astype("f4")
    corner = RNG.random((13, 2)).astype("f4") * 12 - 3
    feeds = dict(x=x, r=np.concatenate([corner, corner + RNG.random((13, 2)).astype("f4") * 9], 1), b=RNG.integers(0, 2, 13))
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
             helper.make_node("RoiAlign", ["t", "r", "b"], ["y"], output_height=3, output_width=5, sampling_ratio=2, spatial_scale=0.7, coordinate_transformation_mode="output_half_pixel")]
    got, want, text = outputs(tmp_path, nodes, feeds, dict(x=[2, *size, channels], r=["n", 4], b=["n"]), ["n", channels, 3, 5], "--dim-hint", "n=100")
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert channels < 16 or "split c by" in text


def test_groups_of_channels_are_turned(tmp_path):
    """A value for each group of channels is a table along lanes: what reads it moves channels last in tiles all the same."""
    x = RNG.standard_normal((1, 48, 32, 32)).astype("f4")
    m = RNG.standard_normal((1, 4)).astype("f4")
    size = helper.make_node("Constant", [], ["wide"], value=helper.make_tensor("wide", TensorProto.INT64, [5], [1, 4, 12, 32, 32]))
    back = helper.make_node("Constant", [], ["flat"], value=helper.make_tensor("flat", TensorProto.INT64, [4], [1, 48, 32, 32]))
    group = helper.make_node("Constant", [], ["one"], value=helper.make_tensor("one", TensorProto.INT64, [3], [2, 3, 4]))
    nodes = [size, back, group, helper.make_node("Reshape", ["x", "wide"], ["g"]), helper.make_node("Unsqueeze", ["m", "one"], ["u"]), helper.make_node("Sub", ["g", "u"], ["s"]),
             helper.make_node("Reshape", ["s", "flat"], ["f"]), helper.make_node("Transpose", ["f"], ["y"], perm=[0, 2, 3, 1])]
    got, want, chosen = outputs(tmp_path, nodes, {"x": x, "m": m}, {"x": x.shape, "m": m.shape}, [1, 32, 32, 48], "--target", "x86-64-v3")
    np.testing.assert_array_equal(got, want)
    assert "turned" in chosen, chosen


@pytest.mark.parametrize("channels, size", [(48, 32), (16, 9), (12, 5), (68, 7)])
def test_groups_of_channels_are_summed_in_vectors(channels, size, tmp_path):
    """The channels of a group lie together while a sum's last axis is that of columns."""
    x = RNG.standard_normal((1, size, size, channels)).astype("f4")
    wide = helper.make_node("Constant", [], ["wide"], value=helper.make_tensor("wide", TensorProto.INT64, [3], [1, 4, -1]))
    nodes = [wide, helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), helper.make_node("Reshape", ["t", "wide"], ["g"]), helper.make_node("ReduceMean", ["g"], ["y"], axes=[2])]
    got, want, chosen = outputs(tmp_path, nodes, {"x": x}, {"x": x.shape}, [1, 4, 1], "--target", "x86-64-v3")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert ".l vector" in chosen and ".u unroll" in chosen, chosen
