"""Matrix multiplications that a nest adds up are nests of their own, so each gets a program for one."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
SHAPES = "p: f32[64, 256], q: f32[64, 128], u: f32[256, 512], w: f32[128, 512]"


def normalised(folder, value):
    names = ", ".join(f"%{x[0]}" for x in re.findall(r"\w: ", SHAPES))
    params = re.sub(r"(\w): ", r"%\1: ", SHAPES)
    (folder / "m.tn").write_text(
        f"graph @g({params}) -> (%o) {{\n  %o: f32[64, 512] = call({names})\n"
        f"    nest t({SHAPES}) -> (o: f32[64, 512]) {{ o[i, j] = {value} }}\n}}\n")
    done = subprocess.run([TENON, "compile", folder / "m.tn", "--dump=normalise", "--stop-after=normalise"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if re.match(r" +\w+\[.*\] = ", line)]


def test_products_are_taken_apart(tmp_path):
    one, other = "(sum k: p[i, k] * u[k, j])", "(sum l: q[i, l] * w[l, j])"
    lines = normalised(tmp_path, f"max({one} + {other}, 0)")
    assert len(lines) == 2 and all(line.count("sum") == 1 for line in lines)


def test_other_sums_stay(tmp_path):
    """The sum of a row is no matrix multiplication; beside one it stays with what reads it."""
    lines = normalised(tmp_path, "(sum k: p[i, k] * u[k, j]) * (sum l: q[i, l])")
    assert len(lines) == 2 and "sum" in lines[1]
    assert len(normalised(tmp_path, "(sum k: p[i, k]) * (max l: w[l, j])")) == 1
