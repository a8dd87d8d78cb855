"""Sizes that only the run tells, broadcast: of two that nothing says are equal, numbers among them, either may be 1. One compilation, every
pair of sizes.

Where the model says that they are equal (one name), or another operator needs them to be, they are one size and cost nothing.
"""
import random
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from worker import BUILD

NODES = {                                # the node's operator, attributes, shapes of its inputs, and what NumPy says
    "add": ("Add", {}, [["n"], ["m"]], lambda x, y: x + y),
    "rows": ("Mul", {}, [["n", 3], ["m", 3]], lambda x, y: x * y),
    "columns": ("Add", {}, [[3, "n"], [3, "m"]], lambda x, y: x + y),
    "ranks": ("Sub", {}, [["p", "n"], ["m"]], lambda x, y: x - y),
    "three": ("Max", {}, [["n"], ["m"], ["n", 1, 1]], lambda x, y, z: np.maximum(np.maximum(x, y), z)),
    "expand": ("Expand", {}, [["n"], ["m"]], lambda x, y: np.broadcast_to(x, np.broadcast_shapes(x.shape, y.shape))),
    "matmul": ("MatMul", {}, [["n", 2, 3], ["m", 3, 4]], lambda x, y: x @ y),
    "einsum": ("Einsum", {"equation": "bij,bjk->bik"}, [["n", 2, 3], ["m", 3, 4]], lambda x, y: x @ y),
    "inner": ("Einsum", {"equation": "ij,jk->ik"}, [[2, "n"], ["m", 4]], lambda x, y: x.sum(1, keepdims=True) * y.sum(0) if x.shape[1] != y.shape[0] else x @ y),
    "where": ("Where", {}, [["n", 2], ["m", 1], ["n", "p"]], lambda x, y, z: np.where(x > 0, y, z)),
}
ONE_WAY = {                              # m is n or 1
    "gemm": ("Gemm", {}, [["n", 3], [3, 5], ["m", 5]], lambda x, y, z: x @ y + z),
    "gemm_columns": ("Gemm", {}, [[2, 3], [3, "n"], ["m"]], lambda x, y, z: x @ y + z),
    "norm": ("LayerNormalization", {"axis": -1}, [["n", 2, 3], ["m", 1, 3]], lambda x, y: normed(x) * y),
    "attention": ("Attention", {}, [["n", 2, 3, 4], ["n", 2, 5, 4], ["n", 2, 5, 4], ["m", 1, 3, 5]], lambda q, k, v, mask: attend(q, k, v, mask)),
}
SIZES = [(5, 5), (1, 5), (5, 1), (1, 1), (0, 0), (0, 1), (1, 0), (17, 1), (1, 33), (34, 34)]


def normed(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attend(q, k, v, mask):
    scores = np.exp(q @ k.swapaxes(-1, -2) / 2 + mask)
    return scores / scores.sum(-1, keepdims=True) @ v


def info(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def part(name, op, attributes, shapes):
    """The node as nodes and inputs of a model in which each has names of its own."""
    inputs = [info(f"{name}_{i}", shape) for i, shape in enumerate(shapes)]
    given, nodes = [i.name for i in inputs], []
    if op == "Expand":
        nodes.append(helper.make_node("Shape", [given[1]], [f"{name}_shape"]))
        given[1] = f"{name}_shape"
    if op == "Where":
        nodes.append(helper.make_node("Greater", [given[0], "zero"], [f"{name}_truth"]))
        given[0] = f"{name}_truth"
    return inputs, [*nodes, helper.make_node(op, given, [name], **attributes)]


def saved(path, nodes, inputs, outputs, initializers=(), opset=23):
    graph = helper.make_graph(nodes, "broadcast", inputs, outputs, [numpy_helper.from_array(np.asarray(v), k) for k, v in initializers])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def model_of(rows, path):
    parts = [part(name, *row[:3]) for name, row in rows.items()]
    return saved(path, [n for _, nodes in parts for n in nodes], [i for inputs, _ in parts for i in inputs],
                 [helper.make_empty_tensor_value_info(name) for name in rows], [("zero", np.float32(0))])


class Compiled:
    """A model, compiled with its first run."""

    def __init__(self, worker, path):
        self.worker, self.path, self.made = worker, path, False

    def run(self, feeds):
        files = [self.path.with_name(f"{self.path.stem}_{i}.pb") for i in range(len(feeds))]
        for path, x in zip(files, feeds, strict=True):
            path.write_bytes(numpy_helper.from_array(np.ascontiguousarray(x).reshape(np.shape(x))).SerializeToString())
        model, self.made = "=" if self.made else self.path, True
        return self.worker.run(model, self.path.with_suffix(""), files)

    def agrees(self, feeds, wanted, names):
        status, got = self.run(feeds)
        assert status == "0", got
        for name, x, y in zip(names, wanted, got, strict=True):
            assert y.shape == x.shape, name
            np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-5, err_msg=str(name))


def drawn(rows, n, m):
    r = np.random.default_rng(n * 100 + m)
    sizes = {"n": n, "m": m, "p": 2}
    return [[r.standard_normal([sizes.get(d, d) for d in shape]).astype("f4") for shape in row[2]] for row in rows.values()]


@pytest.fixture(scope="module")
def model(worker, tmp_path_factory):
    return Compiled(worker, model_of(NODES, tmp_path_factory.mktemp("broadcast") / "model.onnx"))


@pytest.fixture(scope="module")
def one_way(worker, tmp_path_factory):
    return Compiled(worker, model_of(ONE_WAY, tmp_path_factory.mktemp("broadcast") / "one_way.onnx"))


@pytest.mark.parametrize("n, m", SIZES)
def test_either_size_may_be_one(model, n, m):
    feeds = drawn(NODES, n, m)
    model.agrees([x for each in feeds for x in each], [row[3](*x) for row, x in zip(NODES.values(), feeds, strict=True)], NODES)


def test_sizes_that_do_not_fit_are_refused(model):
    status, said = model.run([x for each in drawn(NODES, 3, 5) for x in each])
    assert status != "0" and "n == m, or one of them is 1; here the sides are 3 and 5" in said


@pytest.mark.parametrize("n, m", [(n, m) for n, m in SIZES if m in (n, 1)])
def test_one_way(one_way, n, m):
    feeds = drawn(ONE_WAY, n, m)
    one_way.agrees([x for each in feeds for x in each], [row[3](*x) for row, x in zip(ONE_WAY.values(), feeds, strict=True)], ONE_WAY)


@pytest.mark.parametrize("n, m", [(1, 5), (3, 5)])
def test_one_way_is_not_the_other(one_way, n, m):
    status, said = one_way.run([x for each in drawn(ONE_WAY, n, m) for x in each])
    assert status != "0" and f"m == n, or m == 1; here the sides are {m} and {n}" in said


# ---- a number beside a name, and more than two sizes -----------------------------------------------------------

A = {"number": ("Add", [[2, 3], ["batch", "width"]], [], [{"batch": b, "width": w} for b in (1, 2) for w in (1, 3)]),
     "constant": ("Mul", [["n", "m"]], [np.arange(4, dtype="f4")], [{"n": n, "m": m} for n in (0, 1, 3) for m in (1, 4)]),
     "sum": ("Add", [[2, "past"], [2, "seq"], [2, "total"]], [], [{"past": p, "seq": s, "total": t} for p, s in ((0, 1), (0, 4), (3, 1), (5, 30)) for t in (1, p + s)])}


@pytest.mark.parametrize("name", A)
def test_number_or_sum(worker, tmp_path, name):
    op, shapes, constants, runs = A[name]
    inputs = [info(f"x{i}", shape) for i, shape in enumerate(shapes)]
    given, nodes = [i.name for i in inputs] + [f"c{i}" for i in range(len(constants))], []
    if name == "sum":
        nodes, given = [helper.make_node("Concat", given[:2], ["both"], axis=1)], ["both", given[2]]
    model = Compiled(worker, saved(tmp_path / "model.onnx", [*nodes, helper.make_node(op, given, ["y"])], inputs, [helper.make_empty_tensor_value_info("y")],
                                   [(f"c{i}", c) for i, c in enumerate(constants)]))
    for sizes in runs:
        feeds = [np.random.default_rng(1).standard_normal([sizes.get(d, d) for d in shape]).astype("f4") for shape in shapes]
        x, y = [np.concatenate(feeds[:2], 1), feeds[2]] if name == "sum" else feeds + constants
        model.agrees(feeds, [x + y if op == "Add" else x * y], [f"{name} at {sizes}"])


def test_number_that_does_not_fit(worker, tmp_path):
    model = Compiled(worker, saved(tmp_path / "model.onnx", [helper.make_node("Mul", ["x", "c"], ["y"])], [info("x", ["n", "m"])],
                                   [helper.make_empty_tensor_value_info("y")], [("c", np.ones(4, "f4"))]))
    status, said = model.run([np.ones((2, 3), "f4")])
    assert status != "0" and "m == 4, or m == 1; here the sides are 3 and 4" in said


def test_expand_by_sizes_of_others(worker, tmp_path):
    """Constants, an edge's index beside as many nodes as a slice leaves, and a dimension of another input."""
    nodes = [helper.make_node("Expand", ["x", "fixed"], ["a"]), helper.make_node("Slice", ["nodes", "zero", "one"], ["first"]),
             helper.make_node("Shape", ["first"], ["count"]), helper.make_node("Expand", ["edges", "count"], ["b"])]
    model = Compiled(worker, saved(tmp_path / "model.onnx", nodes, [info("x", ["n", "m"]), info("nodes", ["nodes"]), info("edges", ["edges"])],
                                   [helper.make_empty_tensor_value_info(y) for y in "ab"],
                                   [("fixed", np.array([2, 1, 6])), ("zero", np.array([0])), ("one", np.array([1]))]))
    for n, m, count, edges in ((3, 1, 5, 7), (1, 6, 1, 1), (3, 6, 0, 1), (0, 1, 4, 0)):
        x, given, e = (np.arange(np.prod(s), dtype="f4").reshape(s) for s in ([n, m], [count], [edges]))
        model.agrees([x, given, e], [np.broadcast_to(x, (2, n, 6)), np.broadcast_to(e, np.broadcast_shapes(e.shape, given[:1].shape))], "ab")


# ---- at random -------------------------------------------------------------------------------------------------------

def operands(r, name):
    """Shapes of 2 to 5 operands: each dimension a number that fits, a name of its own, or one that others have too."""
    rank = r.randint(1, 3)
    number = [r.choice([1, 2, 3, 20]) for _ in range(rank)]
    shapes = []
    for i in range(r.randint(2, 5)):
        own = r.randint(1, rank)
        shapes.append([r.choice([1, number[rank - own + d], f"{name}_{rank - own + d}_{r.choice('ab')}", f"{name}_{rank - own + d}_{i}"]) for d in range(own)])
    return shapes


def sizes_that_fit(r, shapes):
    names = sorted({d for shape in shapes for d in shape if isinstance(d, str)})
    for _ in range(1000):
        wide = {d: r.choice([0, 1, 2, 3, 20, 37]) for d in range(3)}
        sizes = {d: r.choice([1, wide[int(d.split("_")[-2])], 2, 3, 20]) for d in names}
        try:
            np.broadcast_shapes(*[[sizes.get(d, d) for d in shape] for shape in shapes])
            return sizes
        except ValueError:
            continue
    return dict.fromkeys(names, 1)


@pytest.mark.parametrize("seed", range(4))
def test_at_random(worker, tmp_path, seed):
    r = random.Random(seed)
    cases = {f"y{k}": operands(r, f"d{k}") for k in range(24)}
    inputs, nodes = [], []
    for name, shapes in cases.items():
        given = [f"{name}_{i}" for i in range(len(shapes))]
        inputs += [info(*pair) for pair in zip(given, shapes, strict=True)]
        if r.random() < 0.5:
            nodes.append(helper.make_node("Sum", given, [name]))
            continue
        for i in range(1, len(given)):
            to = name if i + 1 == len(given) else f"{name}_to_{i}"
            nodes.append(helper.make_node("Add", r.sample([given[i], given[0] if i == 1 else f"{name}_to_{i - 1}"], 2), [to]))
    model = Compiled(worker, saved(tmp_path / "model.onnx", nodes, inputs, [helper.make_empty_tensor_value_info(y) for y in cases]))
    for _ in range(6):
        feeds, wanted = [], []
        for shapes in cases.values():
            sizes = sizes_that_fit(r, shapes)
            own = [np.asarray([r.randint(-9, 9) for _ in range(int(np.prod(at)))], "f4").reshape(at) for at in ([sizes.get(d, d) for d in shape] for shape in shapes)]
            feeds += own
            total = own[0]
            for x in own[1:]:
                total = total + x
            wanted.append(total)
        model.agrees(feeds, wanted, cases.items())


# ---- what the rest of the model says -------------------------------------------------------------------------------

def attention(folder):
    """Scores of all keys and a mask of another name; what they weigh has as many rows as there are keys."""
    nodes = [helper.make_node("Concat", ["past", "new"], ["keys"], axis=1), helper.make_node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
             helper.make_node("MatMul", ["q", "turned"], ["scores"]), helper.make_node("Add", ["scores", "mask"], ["masked"]),
             helper.make_node("Softmax", ["masked"], ["weights"], axis=-1), helper.make_node("MatMul", ["weights", "keys"], ["y"])]
    return saved(folder / "attention.onnx", nodes, [info("q", ["batch", "seq", 8]), info("past", ["batch", "past", 8]), info("new", ["batch", "seq", 8]),
                                                    info("mask", ["batch", 1, "total"])], [info("y", ["batch", "seq", 8])])


def test_what_is_learnt_late_is_known_early(tmp_path):
    text = subprocess.run([BUILD / "tenon", "compile", attention(tmp_path), "--stop-after=import", "--dump=import"], check=True, capture_output=True, text=True).stdout
    assert "%weights: f32[batch, seq, past + seq]" in text
    assert "%masked: f32[batch, seq, past + seq]" in text


def test_mask_of_one_column(worker, tmp_path):
    model = Compiled(worker, attention(tmp_path))
    for batch, seq, past in ((1, 1, 0), (2, 3, 5), (1, 16, 16), (2, 1, 40)):
        for total in {1, past + seq}:
            q, before, new, mask = (np.random.default_rng(3).standard_normal(s).astype("f4") for s in ([batch, seq, 8], [batch, past, 8], [batch, seq, 8], [batch, 1, total]))
            keys = np.concatenate([before, new], 1)
            scores = np.exp(q @ keys.swapaxes(1, 2) + mask)
            model.agrees([q, before, new, mask], [scores / scores.sum(-1, keepdims=True) @ keys], [f"{batch} {seq} {past} {total}"])
