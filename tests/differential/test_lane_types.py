"""Lanes of one element type compared, lanes of another chosen, cast and loaded under the mask that came of it: every pair of types, for
every x86 target. C compilers know each such pair by patterns of their own, and lack some. What the host cannot run is compiled all the same."""
import os
import pathlib
import subprocess

import pytest

from targets import MORE_TARGETS, TARGETS, runs_here

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
NIGHTLY = os.environ.get("TENON_NIGHTLY", "") not in ("", "0")
TYPES = ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"]


def pairs():
    """A kernel for each pair. Lanes of `a` and `b` lie apart by one and by two, and some lanes of a vector are of neither."""
    inputs = ", ".join(f"%x_{t}: {t}[6], %y_{t}: {t}[6], %a_{t}: {t}[3], %b_{t}: {t}[11]" for t in TYPES)
    text = "".join(f"""  %{t}_as_{u}: {u}[9] = call(%x_{t}, %y_{t}, %a_{u}, %b_{u})
    nest choose(x: {t}[6], y: {t}[6], a: {u}[3], b: {u}[11]) -> (o: {u}[9]) {{
      o[i<9>] = i < 3 ? (x[i] != y[i] ? a[i] : {u}(1)) : x[i - 3] == y[i - 3] ? b[2 * (i - 3)] : {u}(x[i - 3] > y[i - 3])
    }}
""" for t in TYPES for u in TYPES)
    outputs = ", ".join(f"%{t}_as_{u}" for t in TYPES for u in TYPES)
    return f"graph @pairs({inputs}) -> ({outputs}) {{\n{text}}}\n"


@pytest.mark.parametrize("cc", ["gcc", "clang"] if NIGHTLY else ["gcc"])
@pytest.mark.parametrize("target", TARGETS + MORE_TARGETS if NIGHTLY else TARGETS)
def test_every_pair_of_types(tmp_path, target, cc):
    (tmp_path / "pairs.tn").write_text(pairs())
    how = ["--target", target, "--cc", cc, "--fuse", "none", "--cache-dir", BUILD / "conformance" / "cache"]
    verb = ["verify"] if runs_here(target) else ["compile", "-o", tmp_path / "pairs.so"]
    done = subprocess.run([TENON, *verb, tmp_path / "pairs.tn", *how], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
