"""Mistakes in Tenon's text, one per file: what follows `;!` is what the message must say, and the message must
name that line. And text that nests too deep to be honest.
"""
import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TENON = str(Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
MODEL = 3


def compile_text(path):
    done = subprocess.run([TENON, "compile", str(path), "--stop-after=emit"], capture_output=True, text=True, timeout=20)
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("path", sorted(HERE.glob("*.tn")), ids=lambda p: p.stem)
def test_mistake(path):
    lines = path.read_text().splitlines()
    number, says = next((n, line.split(";!")[1].strip()) for n, line in enumerate(lines, 1) if ";!" in line)
    done = compile_text(path)
    assert done.returncode == MODEL, (done.returncode, done.stderr)
    first = done.stderr.splitlines()[0]
    assert f"{path.name}:{number}:" in first and says in first, done.stderr


VALUE = "graph @g(%x: f32[n]) -> (%y) {{\n  %y: f32[n] = call(%x) nest deep(x: f32[n]) -> (o: f32[n]) {{\n    o[i] = {}\n  }}\n}}\n"
MANY = 100000


@pytest.mark.parametrize("text", [
    VALUE.format("(" * MANY + "x[i]" + ")" * MANY),
    VALUE.format("-" * MANY + "x[i]"),
    VALUE.format("max(" * MANY + "x[i]" + ", 0)" * MANY),
    VALUE.format("x[" + "(" * MANY + "i" + ")" * MANY + "]"),
    VALUE.format("x[i] > 0 ? " * MANY + "x[i]" + " : 0" * MANY),
    VALUE.format("x[min(" + "x[" * MANY),
    "graph @g(%x: f32[" + "(" * MANY + "n" + ")" * MANY + "]) -> (%x) { }",
    "graph @g(%x: f32[" + " * ".join(f"(n{k} + 1)" for k in range(60)) + "]) -> (%x) { }",
    "graph @g(%x: f32[" + ", ".join("n" * 40) + "]) -> (%x) { }",
    "graph @g(%x: f32[n]) -> (%y) { %y: f32[n] = call(%x) kernel k(x: f32[n]) -> (o: f32[n]) { trips 1 grain 1 parallel t < 1 {"
    + " serial i < 2 {" * MANY,
    "graph @" + "g" * MANY,
    'graph @"' + "\\\\" * MANY,
    "graph @g(" + "%x: f32[1], " * MANY,
], ids=range(13))
def test_hostile_nesting(tmp_path, text):
    path = tmp_path / "deep.tn"
    path.write_text(text)
    done = compile_text(path)
    assert done.returncode in (MODEL, 5), (done.returncode, done.stderr[:500])
    assert "deep.tn:" in done.stderr and len(done.stderr) < 2000, done.stderr[:500]
