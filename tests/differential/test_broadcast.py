"""Sizes that only the run tells, broadcast: of two that nothing says are equal either may be 1. One compilation, every pair of sizes.

Where the model says that they are equal (one name), or another operator needs them to be, they are one size and cost nothing.
"""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from worker import BUILD, Worker

NODES = {                                # the node's operator, attributes, shapes of its inputs, and what NumPy says
    "add": ("Add", {}, [["n"], ["m"]], lambda x, y: x + y),
    "rows": ("Mul", {}, [["n", 3], ["m", 3]], lambda x, y: x * y),
    "ranks": ("Sub", {}, [["p", "n"], ["m"]], lambda x, y: x - y),
    "three": ("Max", {}, [["n"], ["m"], ["n", 1, 1]], lambda x, y, z: np.maximum(np.maximum(x, y), z)),
    "expand": ("Expand", {}, [["n"], ["m"]], lambda x, y: np.broadcast_to(x, np.broadcast_shapes(x.shape, y.shape))),
    "matmul": ("MatMul", {}, [["n", 2, 3], ["m", 3, 4]], lambda x, y: x @ y),
    "einsum": ("Einsum", {"equation": "bij,bjk->bik"}, [["n", 2, 3], ["m", 3, 4]], lambda x, y: x @ y),
    "where": ("Where", {}, [["n", 2], ["m", 1], ["n", "p"]], lambda x, y, z: np.where(x > 0, y, z)),
}
SIZES = [(5, 5), (1, 5), (5, 1), (1, 1), (0, 0), (0, 1), (1, 0), (17, 1), (1, 33)]


def part(name, op, attributes, shapes):
    """The node as nodes and inputs of a model in which each has names of its own."""
    inputs = [helper.make_tensor_value_info(f"{name}_{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
    given, nodes = [i.name for i in inputs], []
    if op == "Expand":
        nodes.append(helper.make_node("Shape", [given[1]], [f"{name}_shape"]))
        given[1] = f"{name}_shape"
    if op == "Where":
        nodes.append(helper.make_node("Greater", [given[0], "zero"], [f"{name}_truth"]))
        given[0] = f"{name}_truth"
    return inputs, [*nodes, helper.make_node(op, given, [name], **attributes)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    parts = [part(name, *row[:3]) for name, row in NODES.items()]
    graph = helper.make_graph([n for _, nodes in parts for n in nodes], "broadcast", [i for inputs, _ in parts for i in inputs],
                              [helper.make_empty_tensor_value_info(name) for name in NODES], [numpy_helper.from_array(np.float32(0), "zero")])
    folder = tmp_path_factory.mktemp("broadcast")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), folder / "model.onnx")
    worker = Worker(BUILD / "conformance" / "cache")
    yield lambda feeds: run(worker, folder, feeds)
    worker.end()


def run(worker, folder, feeds):
    files = [folder / f"{i}.pb" for i in range(len(feeds))]
    for path, x in zip(files, feeds, strict=True):
        path.write_bytes(numpy_helper.from_array(x).SerializeToString())
    first = not (folder / "made.so").exists()
    return worker.run(folder / "model.onnx" if first else "=", folder / "made", files)


def drawn(n, m):
    r = np.random.default_rng(n * 100 + m)
    sizes = {"n": n, "m": m, "p": 2}
    return [[r.standard_normal([sizes.get(d, d) for d in shape]).astype("f4") for shape in row[2]] for row in NODES.values()]


@pytest.mark.parametrize("n, m", SIZES)
def test_either_size_may_be_one(model, n, m):
    feeds = drawn(n, m)
    status, got = model([x for each in feeds for x in each])
    assert status == "0", got
    for (name, row), x, y in zip(NODES.items(), feeds, got, strict=True):
        want = row[3](*x)
        assert y.shape == want.shape, name
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5, err_msg=name)


def test_sizes_that_do_not_fit_are_refused(model):
    status, said = model([x for each in drawn(3, 5) for x in each])
    assert status != "0" and "n == m, or one of them is 1; here the sides are 3 and 5" in said
