"""What a session keeps between runs: rows that grow, are dropped, are gone on from by several, and are arranged anew."""
import numpy as np
import pytest
from conftest import model_of
from onnx import TensorProto as T
from onnx import helper

import tenon


@pytest.fixture(scope="module")
def rows():
    """Shows all rows there are, turned over in sign: those kept, then those of x."""
    return tenon.compile(model_of([helper.make_node("Concat", ["past", "x"], ["present"], axis=1), helper.make_node("Neg", ["present"], ["shown"])],
                                  [("past", T.FLOAT, ["batch", "rows", 2]), ("x", T.FLOAT, ["batch", "new", 2])],
                                  [("present", T.FLOAT, ["batch", "all", 2]), ("shown", T.FLOAT, ["batch", "all", 2])]),
                         state={"past": "present"})


def begun(model):
    """A session that holds four rows of three sequences, and what they are."""
    session, held = model.session(), np.arange(1, 25, dtype=np.float32).reshape(3, 4, 2)
    assert np.array_equal(session(held), -held)
    return session, held


def shown(session, sequences):
    new = np.full((sequences, 1, 2), 99, np.float32)
    seen = session(new)
    assert np.array_equal(seen[:, -1:], -new)
    session.drop(1)
    return -seen[:, :-1]


def test_rows_are_kept_and_dropped(rows):
    session, held = begun(rows)
    session.drop(1)
    assert session.state_length == 3
    assert np.array_equal(shown(session, 3), held[:, :3])
    session.reset()
    assert session.state_length == 0


def test_usual_sizes_are_hints_and_no_bounds():
    x, w = np.ones((7, 16), np.float32), np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    product = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", T.FLOAT, ["n", 16]), ("w", T.FLOAT, [16, 32])], [("y", T.FLOAT, ["n", 32])])
    assert np.array_equal(tenon.compile(product, dim_hints={"n": (1, 128)})(x, w), x @ w)
    with pytest.raises(ValueError, match="--dim-hint n=9: it is from 1 to 8"):
        tenon.compile(product, dims={"n": (1, 8)}, dim_hints={"n": [9]})
    with pytest.raises(ValueError, match="65 sizes of one dimension, at most 64"):
        tenon.compile(product, dim_hints={"n": range(65)})


def test_a_beginning_is_gone_on_from_twice(rows):
    session, held = begun(rows)
    other = session.fork()
    assert (other.threads, other.state_length) == (session.threads, 4)
    more = np.full((3, 2, 2), 7, np.float32)
    other(more)
    session.drop(3)
    session(-more)
    assert np.array_equal(shown(other, 3), np.concatenate([held, more], 1))
    assert np.array_equal(shown(session, 3), np.concatenate([held[:, :1], -more], 1))
    assert other.fork(into=session) is session and np.array_equal(shown(session, 3), shown(other, 3))
    with pytest.raises(ValueError, match="both sessions are to be of one model"):
        session.fork(into=tenon.compile(model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", T.FLOAT, ["n"])], [("y", T.FLOAT, ["n"])])).session())
    with pytest.raises(TypeError, match="into another session"):
        session._fork(7)


def test_sequences_are_arranged(rows):
    session, held = begun(rows)
    session.arrange([2, -1, 0, 2])
    assert np.array_equal(shown(session, 4), np.stack([held[2], np.zeros((4, 2)), held[0], held[2]]))


def test_rows_are_arranged(rows):
    session, held = begun(rows)
    session.arrange([0, 2], rows=[[1, 3, -1], [0, 1, 2]])
    assert np.array_equal(shown(session, 2), np.stack([[held[0][1], held[0][3], [0, 0]], held[2][:3]]))
    session.arrange([1], rows=2)
    assert session.state_length == 2 and np.array_equal(shown(session, 1), held[2:, :2])


@pytest.mark.parametrize("asked, says", [(([0, 3],), "sequence 1 is to be sequence 3.*which has 3"), (([0], [[4]]), "row 0 of sequence 0 is to be row 4.*which has 4"),
                                         (([0], 5), "the first 5 rows.*it has 4"), (([0, 1], [[1], [1, 2]]), "2 lists of 1, 2 rows"),
                                         (([0], None, "heads"), "no dimension heads.*rows, batch")])
def test_what_cannot_be_arranged_is_said(rows, asked, says):
    session, held = begun(rows)
    with pytest.raises(ValueError, match=says):
        session.arrange(*asked)
    assert np.array_equal(shown(session, 3), held)
