"""tenon.Ragged: batches of rows of different lengths."""
import numpy as np
import pytest
import tenon


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
