"""Values at the ends of their types: data that look like what a reduction starts from, and NaN among numbers.

NumPy says what is right. Compiled code has to agree with it, and the interpreter with compiled code (tool_conformance).
"""
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper


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


# ---- numbers from data: as far as 64 bits go ------------------------------------------------------------------------------------------

LEAST, MOST = -2**63, 2**63 - 1
SLICES = [(1, MOST, MOST), (4, -100, -MOST), (-1, LEAST, LEAST), (LEAST, MOST, 1), (MOST, LEAST, -1), (LEAST, MOST, MOST), (MOST, LEAST, LEAST), (0, MOST - 3, 2),
          (MOST - 2, MOST, 1), (LEAST + 1, LEAST + 2, 1), (2, LEAST + 1, -2), (-5, -6, -3), (3, 1, 1), (1, 4, 2)]


def test_slices_from_end_to_end(worker, tmp_path):
    x = np.arange(30, dtype="f4").reshape(5, 6)
    for k, (start, end, step) in enumerate(SLICES):
        given = {"x": x} | {n: np.array([v]) for n, v in zip(("starts", "ends", "axes", "steps"), (start, end, 0, step))}
        run_time = model_of([("Slice", list(given), ["y"], {})], given, {"x": ["n", "m"]})
        status, got = run(worker, tmp_path, run_time, given, k > 0)
        assert status == "0", got
        np.testing.assert_array_equal(got["y"], x[slice(start, end, step)], str((start, end, step)))       # Python's integers have no end
    status, got = run(worker, tmp_path, run_time, given | {"steps": np.array([0])}, True)
    assert status != "0" and 'Slice "y": the step along axis 0 is 0' in got
    names = ["starts", "ends", "axes", "steps"]
    nodes = [("Slice", ["x", *[f"{n}{k}" for n in names]], [f"y{k}"], {}) for k in range(len(SLICES))]
    fixed = {f"{n}{k}": [v] for k, (start, end, step) in enumerate(SLICES) for n, v in zip(names, (start, end, 0, step))}
    status, got = run(worker, tmp_path, model_of(nodes, {"x": x}, {"x": ["n", "m"]}, fixed), {"x": x})
    assert status == "0", got
    for k, (start, end, step) in enumerate(SLICES):
        np.testing.assert_array_equal(got[f"y{k}"], x[slice(start, end, step)], str((start, end, step)))


RANGES = {"int64": [(0, MOST, MOST), (LEAST, MOST, MOST), (MOST, LEAST, LEAST), (MOST - 5, MOST, 3), (LEAST, LEAST + 3, 1), (0, -5, LEAST), (5, 0, -2), (5, 0, 2), (3, 3, 1)],
          "int32": [(2**31 - 5, 2**31 - 1, 3), (-2**31, 2**31 - 1, 2**31 - 1), (7, -8, -5)],
          "int16": [(-2**15, 2**15 - 1, 2**15 - 1), (2**15 - 1, -2**15, -2**15)],
          "float32": [(0, .3, .1), (0, 1, .1), (5, 0, -.7), (0, -1, 1), (2, 2, 1), (1, 2, np.inf)],
          "float64": [(0, .3, .1), (0, 1, .1), (5, 0, -.7)]}


def range_of(kind, start, limit, delta):
    t = np.dtype(kind)
    if t.kind == "i":
        return np.array(list(range(start, limit, delta)), t)
    start, limit, delta = (t.type(v) for v in (start, limit, delta))
    n = max(int(np.ceil(np.float64(limit - start) / np.float64(delta))), 0)       # as doubles divide, ONNX Runtime and PyTorch say
    return (start + np.arange(n).astype(t) * delta).astype(t) if n else np.zeros(0, t)


@pytest.mark.parametrize("kind", RANGES)
def test_ranges(worker, tmp_path, kind):
    names = ("start", "limit", "delta")
    for k, values in enumerate(RANGES[kind]):
        given = {n: np.array(v, kind) for n, v in zip(names, values)}
        model = model_of([("Range", names, ["y"], {})], given, {})
        status, got = run(worker, tmp_path, model, given, k > 0)
        assert status == "0", got
        np.testing.assert_allclose(got["y"], range_of(kind, *values), rtol=1e-6, atol=1e-6, err_msg=str(values))
        assert got["y"].dtype == kind and len(got["y"]) == len(range_of(kind, *values))
    status, got = run(worker, tmp_path, model, given | {"delta": np.array(0, kind)}, True)
    assert status != "0" and 'Range "y": the step (delta) is 0' in got
    if np.dtype(kind).kind == "f":
        for limit in (np.nan, np.inf):
            status, got = run(worker, tmp_path, model, given | {"limit": np.array(limit, kind), "delta": np.array(1, kind)}, True)
            assert status != "0" and "is no number of elements" in got
    nodes = [("Range", [f"{n}{k}" for n in names], [f"y{k}"], {}) for k in range(len(RANGES[kind]))]
    fixed = {f"{n}{k}": np.array(v, kind) for k, values in enumerate(RANGES[kind]) for n, v in zip(names, values)}
    status, got = run(worker, tmp_path, model_of(nodes, {}, {}, fixed), {})
    assert status == "0", got
    for k, values in enumerate(RANGES[kind]):
        np.testing.assert_allclose(got[f"y{k}"], range_of(kind, *values), rtol=1e-6, atol=1e-6, err_msg=str(values))
        assert len(got[f"y{k}"]) == len(range_of(kind, *values))


def cut_and_filled(x, mode, before, after):
    x = x[max(-before, 0):len(x) - max(-after, 0)]
    return np.pad(x, (max(before, 0), max(after, 0)), mode)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads_that_cut(worker, tmp_path, mode):
    x = np.arange(5, dtype="f4")
    given = {"x": x, "pads": np.array([0, 0])}
    run_time = model_of([("Pad", ["x", "pads"], ["y"], dict(mode=mode))], given, {"x": ["n"]})
    few = [(1, 1), (-1, 2), (2, -1), (-1, -1), (-2, -3), (0, 0), (3, 3)]
    for k, pads in enumerate(few):
        status, got = run(worker, tmp_path, run_time, {"x": x, "pads": np.array(pads)}, k > 0)
        assert status == "0", got
        np.testing.assert_array_equal(got["y"], cut_and_filled(x, mode, *pads), str(pads))
    status, got = run(worker, tmp_path, run_time, {"x": x, "pads": np.array([-5, 5])}, True)
    assert status == "0" if mode == "constant" else "nothing is left to fill axis 0 with" in got
    nodes = [("Pad", ["x", f"p{k}"], [f"y{k}"], dict(mode=mode)) for k in range(len(few))]
    status, got = run(worker, tmp_path, model_of(nodes, {"x": x}, {"x": ["n"]}, {f"p{k}": p for k, p in enumerate(few)}), {"x": x})
    assert status == "0", got
    for k, pads in enumerate(few):
        np.testing.assert_array_equal(got[f"y{k}"], cut_and_filled(x, mode, *pads), str(pads))


# ---- what has no answer is refused ----------------------------------------------------------------------------------------------------

def recurrent(op, direction):
    gates, sides = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], 2 if direction == "bidirectional" else 1
    weights = {"w": np.full((sides, 4 * gates, 3), .1, "f4"), "r": np.full((sides, 4 * gates, 4), .1, "f4")}
    return model_of([(op, ["x", "w", "r", "", "lens"], ["y"], dict(hidden_size=4, direction=direction))],
                    {"x": np.zeros((3, 2, 3), "f4"), "lens": np.zeros(2, "i4")}, {}, weights)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lengths_of_sequences(worker, tmp_path, op, direction):
    model, x = recurrent(op, direction), np.arange(18, dtype="f4").reshape(3, 2, 3)
    for k, lens in enumerate([(3, 2), (4, 2), (0, 3), (10**9, 1), (-1, 1), (-2**31, 2**31 - 1)]):
        status, got = run(worker, tmp_path, model, {"x": x, "lens": np.array(lens, "i4")}, k > 0)
        assert (status == "0") == (0 <= min(lens) and max(lens) <= 3), (lens, got)
        assert status == "0" or f'{op} "y": the index' in got


def test_lengths_that_are_reversed(worker, tmp_path):
    x = np.arange(6, dtype="f4").reshape(3, 2)
    model = model_of([("ReverseSequence", ["x", "lens"], ["y"], dict(time_axis=0, batch_axis=1))], {"x": x, "lens": np.array([1, 1])}, {"x": ["t", "b"]})
    for k, lens in enumerate([(3, 2), (0, 1), (4, 1), (-1, 1), (1, LEAST), (1, MOST)]):
        status, got = run(worker, tmp_path, model, {"x": x, "lens": np.array(lens)}, k > 0)
        assert (status == "0") == (0 <= min(lens) and max(lens) <= 3), (lens, got)
        if status == "0":
            want = np.stack([np.concatenate([x[:n, b][::-1], x[n:, b]]) for b, n in enumerate(lens)], 1)
            np.testing.assert_array_equal(got["y"], want)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_the_best_of_nothing(worker, tmp_path, op):
    x = np.ones((2, 3), "f4")
    model = model_of([(op, ["x"], ["y"], dict(axis=1))], {"x": x}, {"x": ["m", "n"]})
    for k, shape in enumerate([(2, 3), (0, 3), (0, 0), (2, 0)]):
        status, got = run(worker, tmp_path, model, {"x": np.zeros(shape, "f4")}, k > 0)
        assert (status == "0") == (shape != (2, 0)), got
        assert got["y"].shape == (shape[0], 1) if status == "0" else "an element to find along axis 1" in got
    status, got = run(worker, tmp_path, model_of([(op, ["x"], ["y"], dict(axis=1))], {"x": x[:, :0]}, {}), {"x": x[:, :0]})
    assert status != "0" and "an element to find along axis 1" in got


def test_a_shape_of_two_unknowns(worker, tmp_path):
    given = {"x": np.ones(4, "f4"), "shape": np.array([2, -1, 1])}
    model = model_of([("Reshape", ["x", "shape"], ["y"], {})], given, {"x": ["n"]})
    assert run(worker, tmp_path, model, given)[1]["y"].shape == (2, 2, 1)
    status, got = run(worker, tmp_path, model, given | {"shape": np.array([4, -1, -1])}, True)
    assert status != "0" and 'Reshape "y": more than one entry of the new shape is -1' in got


def test_the_scale_of_zeros(worker, tmp_path):
    model = model_of([("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"], {})], {"x": np.zeros(3, "f4")}, {"x": ["n"]})
    for k, x in enumerate([[0, 0, 0], [-0., 0, 0], [], [0, 1e-45, 0], [0, 0, 5], [-3, -2, -1]]):
        status, got = run(worker, tmp_path, model, {"x": np.array(x, "f4")}, k > 0)
        assert status == "0", got
        wide = np.float32(max(0, *x, 0)) - np.float32(min(0, *x, 0))
        assert got["scale"] == (wide / np.float32(255) if wide > 1e-30 else np.float32(1 / 255))      # as ONNX's evaluator, 1 in ONNX Runtime
        assert wide > 1e-30 or not got["y"].any()
