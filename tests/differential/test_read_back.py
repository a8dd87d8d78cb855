"""Every stage's text reads back: it is printed, parsed, and printed again, and is the same.

Of onnx's own models, of the examples and of the zoo (bench/zoo, where it is built). What reading adds is no
difference: a text's nests may be anybody's, so what they demand of sizes, and no proof settles, is required.
"""
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
sys.path.insert(0, str(ROOT / "tests" / "conformance"))
import conformance  # noqa: E402

EVERY = 1 if os.environ.get("TENON_ALL") else 12
LARGE = 40 << 20        # bytes of a model of the zoo that is tried by night alone


def compile_to(model, folder, *options):
    return subprocess.run([TENON, "compile", model, "--no-cache", "--target", "x86-64-v3", "--cores", "2", "--dump-dir", folder, *options],
                          capture_output=True, text=True, timeout=600)


def lines(path):
    """Without comments, names of the files of weights, and what is required for nests."""
    text = [re.sub(r'(= const )(file "[^"]*" \d+|elided \w+)', r"\1", line) for line in path.read_text().splitlines() if not line.startswith(";")]
    return [line for line in text if not re.match(r' *require .* "nest [^ ]*: .*" ""$', line)]


def reads_back(model, folder):
    done = compile_to(model, folder, "--dump=all", "--stop-after=schedule")
    if done.returncode:
        pytest.skip("it does not compile")
    for dump in sorted(folder.glob("*.tn")):
        if not lines(dump):     # the stage changed nothing
            continue
        again = folder / "again"
        done = compile_to(dump, again, "--dump=import", "--stop-after=import")
        if not done.returncode:
            printed, = again.glob("*.tn")
            first, second = lines(dump), lines(printed)
            printed.unlink()
        assert not done.returncode, f"{dump.name}: {done.stderr}"
        other = next((f"< {a}\n> {b}" for a, b in zip(first, second, strict=False) if a != b), None)
        assert first == second, f"{dump.name} reads back as another:\n{other}"


def zoo():
    paths = sorted((ROOT / "examples").glob("*/*.onnx")) + sorted((BUILD / "zoo").glob("*.onnx"))
    return [p for p in paths if EVERY == 1 or p.stat().st_size < LARGE]


@pytest.mark.parametrize("model", zoo(), ids=lambda p: p.stem)
def test_models(model, tmp_path):
    reads_back(model, tmp_path)


def cases():
    folder, index = conformance.all_cases()
    return [folder / name / "model.onnx" for name, _, _ in index[::EVERY]]


@pytest.mark.parametrize("model", cases(), ids=lambda p: p.parent.name)
def test_operators(model, tmp_path):
    reads_back(model, tmp_path)
