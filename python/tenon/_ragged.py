"""Batches of rows of different lengths, without padding."""
from __future__ import annotations

from typing import Any, Sequence, overload

import numpy as np
import numpy.typing as npt


class Ragged:
    """The rows of all sequences behind each other, and where each begins.

    values   [rows, …], borrowed
    offsets  [batch + 1], i32 or i64: sequence b is values[offsets[b]:offsets[b + 1]]; the first is
             0, the last the number of rows

    These are PyTorch's nested tensors of layout ``jagged``, FlashAttention's cumulative lengths,
    and TensorFlow's ``row_splits``.
    """

    def __init__(self, values: npt.ArrayLike, offsets: npt.ArrayLike):
        self.values, self.offsets = np.asarray(values), np.asarray(offsets)
        if (
            self.values.ndim < 1
            or self.offsets.ndim != 1
            or not len(self.offsets)
            or self.offsets.dtype not in (np.int32, np.int64)
        ):
            raise ValueError(
                f"offsets of type {self.offsets.dtype} and shape {self.offsets.shape}; they are "
                "i32 or i64 [batch + 1], beside values of rank 1 or more"
            )
        lengths = np.diff(self.offsets)
        if (lengths < 0).any():
            b = int(np.flatnonzero(lengths < 0)[0])
            raise ValueError(
                f"sequence {b} begins at row {self.offsets[b]} and ends at row "
                f"{self.offsets[b + 1]}"
            )
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.values):
            raise ValueError(
                f"offsets go from {self.offsets[0]} to {self.offsets[-1]}; of {len(self.values)} "
                f"rows they go from 0 to {len(self.values)}"
            )

    @classmethod
    def from_padded(
        cls,
        x: npt.ArrayLike,
        lengths: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
    ) -> Ragged:
        """Of x [batch, length, …] the rows below each of lengths [batch], or those where mask
        [batch, length] is not 0."""
        padded = np.asarray(x)
        if (lengths is None) == (mask is None) or padded.ndim < 2:
            raise ValueError("from_padded takes an array of rank 2 or more, and lengths or a mask")
        if mask is not None:
            there = np.asarray(mask, bool)
        else:
            most, long = padded.shape[1], np.asarray(lengths)
            if long.shape != padded.shape[:1] or long.dtype.kind not in "iuf":
                raise ValueError(
                    f"lengths of type {long.dtype} and shape {long.shape}; they are whole numbers "
                    f"of shape {padded.shape[:1]}"
                )
            # NaN is neither below nor above, so this asks what is good.
            for b in np.flatnonzero(~((long >= 0) & (long <= most) & (np.floor(long) == long)))[:1]:
                raise ValueError(
                    f"sequence {b} has length {long[b]}; it is a whole number from 0 to {most}, "
                    "the columns of the array"
                )
            there = np.arange(most)[None] < long[:, None]
        if there.shape != padded.shape[:2]:
            raise ValueError(f"a mask of shape {there.shape} for an array of shape {padded.shape}")
        return cls(padded[there], np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int64))

    @classmethod
    def from_torch(cls, nested: Any) -> Ragged:
        """A nested tensor of layout ``jagged`` without holes; its memory is shared."""
        return cls(nested.values().detach().numpy(), nested.offsets().numpy())

    @property
    def lengths(self) -> npt.NDArray[Any]:
        return np.diff(self.offsets)

    @property
    def mask(self) -> npt.NDArray[np.int64]:
        """[batch, longest]: 1 of each row, 0 of padding on the right."""
        return (np.arange(self.lengths.max(initial=0))[None] < self.lengths[:, None]).astype(
            np.int64
        )

    def to_padded(self, fill: float = 0) -> npt.NDArray[Any]:
        """[batch, longest, …]."""
        there = self.mask.astype(bool)
        padded = np.full(there.shape + self.values.shape[1:], fill, self.values.dtype)
        padded[there] = self.values
        return padded

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, b: int) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, b: slice) -> Ragged: ...

    def __getitem__(self, b: int | slice) -> npt.NDArray[Any] | Ragged:
        """The rows of a sequence; of a slice those sequences as a batch."""
        if isinstance(b, slice):
            which = range(len(self))[b]
            rows = [self[i] for i in which] or [self.values[:0]]
            ends = np.cumsum([0, *(self.lengths[i] for i in which)], dtype=self.offsets.dtype)
            return Ragged(np.concatenate(rows), ends)
        if not -len(self) <= b < len(self):
            raise IndexError(f"sequence {b} of {len(self)}")
        b %= len(self)
        return self.values[self.offsets[b]:self.offsets[b + 1]]

    def __repr__(self) -> str:
        rest: Sequence[int] = self.values.shape[1:]
        each = f"{self.values.dtype}{list(rest)}"
        return f"Ragged(batch {len(self)}, rows {len(self.values)}, each {each})"
