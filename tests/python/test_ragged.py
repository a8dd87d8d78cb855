"""tenon.Ragged: batches of rows of different lengths, and models that take and give them."""
import numpy as np
import pytest
import tenon
from conftest import model_of
from onnx import TensorProto, helper, numpy_helper


@pytest.mark.parametrize("lengths", [[], [0], [1], [0, 0, 5, 0], [3, 3], [7, 1, 4]])
def test_there_and_back(lengths):
    longest = max(lengths, default=0)
    padded = np.random.default_rng(0).normal(size=(len(lengths), longest, 3)).astype("f4")
    x = tenon.Ragged.from_padded(padded, lengths=lengths)
    assert list(x.lengths) == lengths and len(x) == len(lengths) and x.mask.sum() == sum(lengths)
    for b, n in enumerate(lengths):
        np.testing.assert_array_equal(x[b], padded[b, :n])
        np.testing.assert_array_equal(x.to_padded(fill=7)[b, n:], 7)
    again = tenon.Ragged.from_padded(x.to_padded(), mask=x.mask)
    np.testing.assert_array_equal(again.values, x.values)
    np.testing.assert_array_equal(again.offsets, x.offsets)


def test_holes_and_padding_on_the_left():
    x = tenon.Ragged.from_padded(np.arange(8).reshape(2, 4), mask=[[0, 1, 0, 1], [0, 0, 1, 1]])
    assert x.values.tolist() == [1, 3, 6, 7] and x.offsets.tolist() == [0, 2, 4]


@pytest.mark.parametrize("offsets, said", [([1, 3], "offsets go from 1 to 3; of 3 rows they go from 0 to 3"), ([0, 2], "from 0 to 2"),
                                           ([0, 3, 2, 3], "sequence 1 begins at row 3 and ends at row 2"), ([0.0, 3.0], "i32 or i64")])
def test_offsets_that_are_none(offsets, said):
    with pytest.raises(ValueError, match=said):
        tenon.Ragged(np.zeros(3), offsets)


def test_values_are_borrowed():
    values = np.zeros((4, 2), "f4")
    x = tenon.Ragged(values, np.array([0, 1, 4], "i4"))
    values[2] = 5
    assert x[-1][1, 0] == 5 and np.shares_memory(x.values, values)


# ---- packed models -------------------------------------------------------------------------------


def mixer():
    """Of ids and more, [batch, seq]: tokens under an attention, and a mean of each sequence."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20, 8)).astype("f4")
    ops = [("Gather", "table ids", "x"), ("Unsqueeze", "more last", "wide"),
           ("Add", "x wide", "h"), ("Transpose", "h", "k"), ("MatMul", "h k", "scores"),
           ("Cast", "mask", "m"), ("Unsqueeze", "m row", "seen"), ("Sub", "one seen", "not"),
           ("Mul", "not low", "hide"), ("Add", "scores hide", "s"), ("Softmax", "s", "p"),
           ("MatMul", "p h", "y"), ("Unsqueeze", "m last", "tokens"), ("Mul", "y tokens", "own"),
           ("ReduceSum", "own row", "total")]
    more = {"Transpose": {"perm": [0, 2, 1]}, "Cast": {"to": TensorProto.FLOAT},
            "ReduceSum": {"keepdims": 0}}
    nodes = [helper.make_node(op, i.split(), [o], f"n_{o}", **more.get(op, {})) for op, i, o in ops]
    values = {"table": table, "row": np.array([1]), "last": np.array([2]), "one": np.float32(1),
              "low": np.float32(-1e9)}
    both = ["batch", "seq"]
    return model_of(
        nodes,
        [("ids", TensorProto.INT64, both), ("mask", TensorProto.INT64, both),
         ("more", TensorProto.FLOAT, both)],
        [("y", TensorProto.FLOAT, [*both, 8]), ("total", TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(np.asarray(x), n) for n, x in values.items()])


@pytest.fixture(scope="module")
def mixers():
    hints = {"batch": [4], "seq": [64]}
    how = {"ragged": "mask", "density": 0.4, "dim_hints": hints}
    return tenon.compile(mixer(), **how), tenon.compile(mixer(), packed=True, **how)


def batch(lengths, dtype="i8"):
    rng = np.random.default_rng(1)
    offsets = np.cumsum([0, *lengths]).astype(dtype)
    return (tenon.Ragged(rng.integers(0, 20, sum(lengths)), offsets),
            tenon.Ragged(rng.normal(size=sum(lengths)).astype("f4"), offsets))


@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("lengths", [[], [0], [1], [0, 0, 5, 0], [9, 9, 9], [3, 130, 7, 2]])
def test_packed_in_packed_out(mixers, lengths, dtype):
    padded, packed = mixers
    ids, more = batch(lengths, dtype)
    y, total = packed(ids, more)
    assert isinstance(y, tenon.Ragged) and list(y.lengths) == lengths and total.shape[1:] == (8,)
    if lengths:
        full = {"ids": ids.to_padded(), "mask": ids.mask, "more": more.to_padded()}
        want = padded.run(full) if max(lengths) else {"y": np.zeros((len(lengths), 0, 8))}
        np.testing.assert_array_equal(y.values, want["y"][ids.mask.astype(bool)])
        of = want["total"] if max(lengths) else 0
        np.testing.assert_allclose(total, of, rtol=1e-5, atol=1e-6)


def test_the_ways_of_giving_them(mixers):
    ids, more = batch([3, 1])
    session = mixers[1].session()
    want = session(ids, more)[0]
    pair = (more.values, more.offsets)
    for y in (session(ids=ids, more=more)[0], session(ids, pair)[0], session(ids, more=more)[0],
              session.run({"ids": ids, "more": more.values})["y"],
              session.run([ids, ids.offsets, more])["y"], session.run_many([[ids, more]])[0]["y"]):
        np.testing.assert_array_equal(y.values, want.values)
        np.testing.assert_array_equal(y.offsets, want.offsets)
    plain = session(ids.values, ids.offsets, more.values)[0]
    assert isinstance(plain, np.ndarray)
    np.testing.assert_array_equal(plain, want.values)
    assert session.sizes([ids, more])["y"] == ("f32", (4, 8))


def test_packed_inputs_that_are_no_batch(mixers):
    ids, more = batch([3, 1])
    with pytest.raises(tenon.UsageError, match="sequence 1 begins at row 1, and at row 3"):
        mixers[1](ids, tenon.Ragged(more.values, [0, 1, 4]))
    with pytest.raises(tenon.UsageError, match="1 sequences are given, 2 in another"):
        mixers[1](ids, tenon.Ragged(more.values, [0, 4]))
    with pytest.raises(tenon.UsageError, match="sequence 1 ends at row 2 and begins at row 3"):
        mixers[1](ids.values, np.array([0, 3, 2, 4]), more.values)
    with pytest.raises(tenon.UsageError, match="sequence 0 has 3 tokens; at most 2 are possible"):
        tenon.compile(mixer(), ragged="mask", packed=True, dims={"seq": (1, 2)})(ids, more)
    with pytest.raises(tenon.UsageError, match="--packed is of a batch's tokens"):
        tenon.compile(mixer(), packed=True)
    with pytest.raises(tenon.UsageError, match="a share above 0 and at most 1"):
        tenon.compile(mixer(), density=1.5)
    with pytest.raises(tenon.UsageError, match="density 0: a share above 0 and at most 1"):
        tenon.compile(mixer(), density=0)
    with pytest.raises(tenon.UsageError, match="option density: 'x' is none of its values"):
        tenon.compile(mixer(), density="x")


def test_slices_are_batches():
    r = tenon.Ragged(np.arange(12).reshape(6, 2), np.array([0, 3, 3, 6], "i4"))
    for s in (slice(0, 1), slice(1, None), slice(None, None, -1), slice(2, 1), slice(-2, None)):
        part = r[s]
        assert part.offsets.dtype == r.offsets.dtype and part.values.shape[1:] == (2,)
        want = [r[b] for b in range(3)[s]]
        assert len(part) == len(want)
        for got, rows in zip(part, want):
            np.testing.assert_array_equal(got, rows)


def test_lengths_within_the_array():
    x = np.arange(6).reshape(2, 3)
    assert list(tenon.Ragged.from_padded(x, lengths=[3.0, 0]).lengths) == [3, 0]
    for lengths, says in [
        ([100, 1], "sequence 0 has length 100; it is a whole number from 0 to 3"),
        ([1, -7], "sequence 1 has length -7; it is a whole number from 0 to 3"),
        ([1, float("nan")], "sequence 1 has length nan"),
        ([1.5, 1], "sequence 0 has length 1.5"),
        ([1], r"shape \(1,\); they are whole numbers of shape \(2,\)"),
        (["a", "b"], "lengths of type <U1"),
    ]:
        with pytest.raises(ValueError, match=says):
            tenon.Ragged.from_padded(x, lengths=lengths)
