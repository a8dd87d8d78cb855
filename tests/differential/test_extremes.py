"""Values at the ends of their types: data that look like what a reduction starts from, and NaN among numbers.

NumPy says what is right. Compiled code has to agree with it, and the interpreter with compiled code (tool_conformance).
"""
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from worker import BUILD, Worker


@pytest.fixture(scope="module")
def worker():
    made = Worker(BUILD / "conformance" / "cache")
    yield made
    made.end()


def model_of(nodes, feeds, shapes, constants=None, opset=21):
    """Nodes as (operator, inputs, outputs, attributes); what they make that none of them reads is given."""
    read = {i for _, inputs, _, _ in nodes for i in inputs}
    inputs = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), shapes.get(k, list(v.shape))) for k, v in feeds.items()]
    outputs = [helper.make_empty_tensor_value_info(o) for _, _, made, _ in nodes for o in made if o and o not in read]
    graph = helper.make_graph([helper.make_node(op, i, o, **a) for op, i, o, a in nodes], "extremes", inputs, outputs,
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def run(worker, folder, model, feeds, again=False):
    """The status, and outputs by name or what went wrong."""
    path = folder / "model.onnx"
    if not again:
        onnx.save(model, path)
    files = []
    for name, x in feeds.items():
        files.append(folder / f"{name}.pb")
        files[-1].write_bytes(numpy_helper.from_array(np.asarray(x)).SerializeToString())
    status, got = worker.run("=" if again else path, folder / "made", files)
    return status, got if status != "0" else {o.name: x for o, x in zip(model.graph.output, got)}


# ---- arg_max, arg_min, hardmax, top_k ------------------------------------------------------------------------------------------

KINDS = ["float32", "float16", "float64", "uint8", "int8", "int32", "int64", "uint64"]
PLACES = [((3, 5), 1), ((2, 7, 35), 1), ((40,), 0), ((9, 33), 1), ((5, 19), 0)]


def ends(r, kind, shape, axis):
    """Lowest and largest numbers among others, and for floats NaN; the first rows along the axis are of one number alone."""
    t = np.dtype(kind)
    alone = [-np.inf, np.inf, np.nan] if t.kind == "f" else [np.iinfo(t).min, np.iinfo(t).max]
    others = [0, 1, np.finfo(t).min, np.finfo(t).max] if t.kind == "f" else [0, 1]
    x = r.choice(np.array(alone + others, t), shape)
    rows = np.moveaxis(x, axis, -1)
    for i, v in zip(np.ndindex(rows.shape[:-1]), alone):
        rows[i] = v
    return x


def best(x, axis, most, last):
    """NumPy's argmax and argmin give the first NaN, if there is one, and the first of equals."""
    where = np.argmax if most else np.argmin
    return x.shape[axis] - 1 - where(np.flip(x, axis), axis) if last else where(x, axis)


def ordered(row, most):
    """Places in order, NaN being the largest number, and equal ones as they come."""
    row = [(v != v, 0 if v != v else -v if most else v) for v in row.tolist()]
    return sorted(range(len(row)), key=lambda i: (row[i][0] != most, row[i][1]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_and_where_they_are(worker, tmp_path, kind):
    r = np.random.default_rng(5)
    nodes, feeds, shapes, wanted = [], {}, {}, {}
    for p, (shape, axis) in enumerate(PLACES):
        x = feeds[f"x{p}"] = ends(r, kind, shape, axis)
        shapes[f"x{p}"] = [f"n{p}_{d}" if p % 2 else n for d, n in enumerate(shape)]
        for most in (True, False):
            for last in (0, 1):
                wanted[f"arg{most}{last}{p}"] = best(x, axis, most, last)
                nodes.append(("ArgMax" if most else "ArgMin", [f"x{p}"], [f"arg{most}{last}{p}"], dict(axis=axis, select_last_index=last, keepdims=0)))
            wanted[f"red{most}{p}"] = (np.max if most else np.min)(x, axis)
            nodes.append(("ReduceMax" if most else "ReduceMin", [f"x{p}", f"axes{axis}"], [f"red{most}{p}"], dict(keepdims=0)))
            at = np.apply_along_axis(ordered, axis, x, most)
            wanted[f"at{most}{p}"], wanted[f"top{most}{p}"] = at, np.take_along_axis(x, at, axis)
            nodes.append(("TopK", [f"x{p}", f"all{p}"], [f"top{most}{p}", f"at{most}{p}"], dict(axis=axis, largest=int(most))))
        if np.dtype(kind).kind == "f":
            wanted[f"hard{p}"] = np.moveaxis(np.eye(shape[axis], dtype=kind)[best(x, axis, True, 0)], -1, axis)
            nodes.append(("Hardmax", [f"x{p}"], [f"hard{p}"], dict(axis=axis)))
    constants = {f"axes{axis}": [axis] for _, axis in PLACES} | {f"all{p}": [shape[axis]] for p, (shape, axis) in enumerate(PLACES)}
    status, got = run(worker, tmp_path, model_of(nodes, feeds, shapes, constants), feeds)
    assert status == "0", got
    for name, want in wanted.items():
        np.testing.assert_array_equal(got[name], want, name)
