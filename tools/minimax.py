#!/usr/bin/env python3
"""Derives the coefficients of src/emit/prelude_math.h.

    minimax.py [--check] [NAME…]    prints each function's coefficients and the error that they leave, in ulp of
                                    f32 at 1; with --check, fails if one is not in prelude_math.h

A function is approximated by the polynomial with the least largest weighted error: Remez's exchange on a
fine grid (E. Ya. Remez, 1934; for linear families as in E. W. Cheney, Introduction to Approximation Theory,
1966, chapter 3). The coefficients are then rounded to f32 one by one, from the most significant, and those
that are left are fitted again each time, so that they make good what rounding spoilt (as fpminimax does:
N. Brisebarre and S. Chevillard, 2007). Double precision suffices: nothing here is approximated beyond 1e-10.
"""
import math
import pathlib
import re
import sys

import numpy as np

erf, erfc = np.vectorize(math.erf), np.vectorize(math.erfc)


def remez(columns, target, weight):
    """The c with the least max |weight * (columns @ c - target)| over the rows."""
    weight = weight * np.where(columns[:, 0] < 0, -1, 1)       # x, x^3, … alternate as 1, x^2, … do, but for a sign
    a, b = columns * weight[:, None], target * weight
    n = a.shape[1]
    scale = np.abs(a).max(axis=0)
    a = a / scale
    rows = np.unique(np.round((1 - np.cos(np.pi * np.arange(n + 1) / n)) / 2 * (len(b) - 1)).astype(int))
    best = None
    for _ in range(60):
        signs = (-1.0) ** np.arange(n + 1)
        c = np.linalg.lstsq(np.hstack([a[rows], signs[:, None]]), b[rows], rcond=None)[0][:n]
        e = a @ c - b
        worst = np.abs(e).max()
        if best is None or worst < best[0]:
            best = worst, c
        # the largest error in each run of one sign, then the n + 1 neighbours among them that are largest
        edges = np.flatnonzero(np.diff(np.sign(e)) != 0) + 1
        peaks = [s[0] + int(np.argmax(np.abs(e[s[0]:s[1]]))) for s in zip(np.r_[0, edges], np.r_[edges, len(e)])]
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(e[peaks[0]]) < abs(e[peaks[-1]]) else -1)
        if len(peaks) < n + 1 or np.array_equal(peaks, rows):
            break
        rows = np.array(peaks)
    return best[1] / scale, best[0]


def rounded(columns, target, weight, order, exact=None):
    """The same with coefficients that f32 holds, rounded in this order; exact: {index: value} given before."""
    fixed = dict(exact or {})
    while True:
        free = [i for i in range(columns.shape[1]) if i not in fixed]
        left = target - sum((columns[:, i] * v for i, v in fixed.items()), np.zeros_like(target))
        if not free:
            return np.array([fixed[i] for i in range(columns.shape[1])]), np.abs(left * weight).max()
        c, _ = remez(columns[:, free], left, weight)
        first = next(i for i in order if i in free)
        fixed[first] = float(np.float32(c[free.index(first)]))



def polynomial(f, lo, hi, degree, weight, exact=None, points=6000):
    """f(x) by c[0] + c[1] x + …, the error weighted; exact: {d: c[d]} given before. The coefficients and the error left."""
    x = (lo + hi) / 2 - (hi - lo) / 2 * np.cos(np.pi * (np.arange(points) + 0.5) / points)
    columns = np.stack([x ** d for d in range(degree + 1)], axis=1)
    return rounded(columns, f(x), weight(x), range(degree + 1), exact)


# ---- the functions, each near 0 by its series -------------------------------------------------------

LN2 = math.log(2)
HALF = LN2 / 2 * 1.0003          # n = round(x / ln 2) is itself a little off


def series(near, x, by, otherwise):
    """`by` where |x| < near, where the formula loses its digits."""
    small = np.abs(x) < near
    return np.where(small, by(x), otherwise(np.where(small, near, x)))


def derive_exp():
    """e^r on |r| <= ln 2 / 2; the first two coefficients are 1."""
    return polynomial(np.exp, -HALF, HALF, 6, lambda r: np.exp(-r), {0: 1.0, 1: 1.0})


def derive_log():
    """(log(1 + f) - f) / f^2 on |f| <= 1/3."""
    return polynomial(lambda f: series(1e-4, f, lambda v: -0.5 + v / 3, lambda v: (np.log1p(v) - v) / (v * v)),
                      -0.33337, 0.33337, 7, lambda f: f * f / np.abs(np.log1p(f)))


def derive_tanh():
    """(tanh(r) / r - 1) / r^2 as a polynomial in r^2, on |r| <= 0.26."""
    root = lambda z: np.tanh(np.sqrt(z)) / np.sqrt(z)
    return polynomial(lambda z: series(1e-6, z, lambda v: -1 / 3 + 2 * v / 15, lambda v: (root(v) - 1) / v),
                      1e-7, 0.2605 ** 2, 2, lambda z: z / root(z))


def derive_erf():
    """(-log(erfc(a)) - a) / a on 0 <= a <= 3.93; that its error counts erfc(a) / erf(a) times is in the weight."""
    log_erfc = lambda a: np.where(a < 0.5, np.log1p(-erf(a)), np.log(erfc(a)))
    return polynomial(lambda a: (-log_erfc(a) - a) / a, 1e-4, 3.93, 8, lambda a: a * erfc(a) / erf(a))


def derive_erf_power():
    """(1 - e^-r - r) / r^2 on |r| <= ln 2 / 2; where r < 0 the result is at least 1/2."""
    return polynomial(lambda r: series(1e-3, r, lambda v: -0.5 + v / 6 - v * v / 24, lambda v: (-np.expm1(-v) - v) / (v * v)),
                      -HALF, HALF, 4, lambda r: np.where(r < 0, 0.5, 1) * r * r / np.abs(np.expm1(-r)))


def derive_softplus():
    """(log(1 + e) - e) / e^2 on 0 <= e <= 1."""
    return polynomial(lambda e: series(1e-3, e, lambda v: -0.5 + v / 3 - v * v / 4, lambda v: (np.log1p(v) - v) / (v * v)),
                      1e-6, 1, 8, lambda e: e * e / np.log1p(e))


def main(words):
    check = "--check" in words
    names = [w for w in words if w != "--check"] or [k[7:] for k in globals() if k.startswith("derive_")]
    header = (pathlib.Path(__file__).parents[1] / "src/emit/prelude_math.h").read_text()
    written = np.array([float(w) for w in re.findall(r"\d+\.?\d*(?:e-?\d+)?(?=f)", header)])
    missing = 0
    for name in names:
        derive = globals()["derive_" + name]
        c, worst = derive()
        print(f"{name}: {worst / 2.0 ** -23:.3f} ulp    {derive.__doc__}")
        for d, v in enumerate(c):
            absent = check and not np.any(np.abs(written - abs(v)) <= 1e-5 * abs(v))    # other libraries solve a little differently
            missing += absent
            print(f"    c{d} {float(np.float32(v)):<+18.9g}{'  NOT IN prelude_math.h' if absent else ''}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
