"""Constants that follow from their indices, or look as if they did: compiled code computes what the
interpreter does, down to the sign of a zero and the last of 64 bits."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))

NEGATIVE_ZERO = "[-10000.0, 0.0, 0.0, -10000.0, -0.0, 0.0, -10000.0, 0.0, 0.0, -0.0]"
TRIANGLE = ", ".join("-2" if j <= i else "0" for i in range(8) for j in range(8))
CASES = {
    "a mask with both zeros": ("f32[10]", NEGATIVE_ZERO, "div"),
    "a triangle near 2^64": ("u64[8, 8]", f"[{TRIANGLE}]", "max"),
    "a triangle of -2": ("i64[8, 8]", f"[{TRIANGLE}]", "max"),
    "steps near 2^64": ("u64[9]", f"[{', '.join(str(-9 + i) for i in range(9))}]", "max"),
}


@pytest.mark.parametrize("name", CASES)
def test_constants_keep_their_bits(tmp_path, name):
    kind, contents, op = CASES[name]
    model = tmp_path / "m.tn"
    model.write_text(f"graph @main(%x: {kind}) -> (%y) {{\n  %c: {kind} = const {contents}\n"
                     f"  %y: {kind} = {op}(%x, %c)\n}}\n")
    done = subprocess.run([TENON, "verify", model], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "y: agrees, largest error 0" in done.stdout


def test_a_state_that_may_shrink_is_not_joined(tmp_path):
    """What lies behind p elements of n is nothing where n is less."""
    model = tmp_path / "m.tn"
    model.write_text("graph @main(%a: f32[n], %x: f32[p]) -> (%s, %y) {\n  state %x = %y\n"
                     "  %s = add(%a, %a)\n  %y: f32[n] = call(%x, %a)\n"
                     "    nest next(x: f32[p], a: f32[n]) -> (o: f32[n]) {\n"
                     "      o[k] = k < p ? x[k] : a[k]\n    }\n}\n")
    done = subprocess.run([TENON, "compile", model, "--dump=lower", "--stop-after=lower"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "join(" not in done.stdout
