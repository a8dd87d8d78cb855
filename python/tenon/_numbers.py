"""Python's numbers, and lists of them, as arrays of a type that holds them exactly or rounded.

NumPy cuts fractions off, wraps what is out of range, and makes infinity of large numbers; here each
of these is an error that tells where the number was given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._native import UsageError

EXACT = 2**53  # above, whole numbers that NumPy made floats of are no longer those given


def as_type(x: Any, dtype: Any, where: str) -> np.ndarray:
    """x as an array. Whole numbers become any type that has them, others only floats."""
    dtype = np.dtype(dtype)
    if dtype.isbuiltin != 1 or dtype.kind not in "biuf":  # of ml_dtypes
        return np.asarray(x, dtype)
    try:
        got = np.asarray(x)
    except ValueError:
        raise UsageError(f"{where}: lists of different lengths are given") from None
    if dtype.kind in "iu" and got.dtype.kind == "f" and (np.abs(got) > EXACT).any():
        got = np.asarray(x, object)
    if got.dtype.kind == "O":
        lost = np.array([not _holds(dtype, v) for v in got.ravel()], bool)
    else:
        lost = _lost(got, dtype).ravel()
    for i in np.flatnonzero(lost)[:1]:
        first = got.ravel()[i]
        shown = repr(first.item() if isinstance(first, np.generic) else first)
        shown = shown if len(shown) <= 40 else f"{shown[:36]} ..."
        raise UsageError(f"{where}: {shown} is given; {_range(dtype)}")
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(got.astype(dtype, copy=False)).reshape(got.shape)


def _lost(got: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Which numbers the type does not hold."""
    if got.size and got.dtype.kind not in "biuf":
        return np.ones(got.shape, bool)
    if got.dtype.kind == "b" or not got.size:
        return np.zeros(got.shape, bool)
    if dtype.kind == "b":
        return (got != 0) & (got != 1)
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.isinf(got.astype(dtype, copy=False)) & ~np.isinf(got)
    most, least = np.iinfo(dtype).max, np.iinfo(dtype).min
    if got.dtype.kind in "iu":
        return (got < least) | (got > most)
    wide = got.astype("float64")  # NaN is in no range
    return ~((wide >= least) & (wide < float(most + 1)) & (np.floor(wide) == wide))


def _holds(dtype: np.dtype, x: Any) -> bool:
    if isinstance(x, int) and abs(x) >= 2**63:  # larger than NumPy's own
        if dtype.kind == "f":
            return abs(x) <= float(np.finfo(dtype).max)
        return dtype.kind != "b" and np.iinfo(dtype).min <= x <= np.iinfo(dtype).max
    return isinstance(x, (int, float, np.generic)) and not _lost(np.asarray(x), dtype).any()


def _range(dtype: np.dtype) -> str:
    if dtype.kind == "b":
        return "bool is True or False"
    name = f"{dtype.kind}{8 * dtype.itemsize}"
    if dtype.kind == "f":
        return f"{name} holds numbers up to {np.finfo(dtype).max:.3g}"
    info = np.iinfo(dtype)
    return f"{name} holds whole numbers from {info.min} to {info.max}"
