"""Every stage's text reads back: it is printed, parsed, and printed again, and is the same.

Of onnx's own models, of the examples and of the zoo (bench/zoo, where it is built). A text's nests may be anybody's, so
reading adds what no proof settles: what they demand of sizes, and checks of indices. What has these reads back the same.
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
    """Without comments, names of the files of weights, ranges of symbols (all that is required is known when a text begins),
    and what is required for nests."""
    text = [re.sub(r'(= const )(file "[^"]*" \d+|elided \w+)', r"\1", line) for line in path.read_text().splitlines() if not line.startswith(";")]
    text = [re.sub(r'^( *symbol ("[^"]*"|\w+)) from \d+( to \d+)?', r"\1", line) for line in text]
    return [line for line in text if not re.match(r' *symbol ("[^"]*"|\w+)$| *require .* "(nest|kernel) [^ ]*: .*" ""$', line)]


def printed(dump, folder):
    """What is printed of a dump that was read."""
    done = compile_to(dump, folder, "--dump=import", "--stop-after=import")
    assert not done.returncode, f"{dump.name}: {done.stderr}"
    path, = folder.glob("*.tn")
    return path


def checks(text):
    return sum(line.count("at(u64(") for line in text)


def reads_back(model, folder):
    done = compile_to(model, folder, "--dump=all", "--stop-after=schedule")
    if done.returncode:
        pytest.skip("it does not compile")
    for dump in sorted(folder.glob("*.tn")):
        first = lines(dump)
        if not first:     # the stage changed nothing
            continue
        path = printed(dump, folder / f"{dump.stem}-2")
        second = lines(path)
        if checks(second) > checks(first):     # of accesses that no proof settles
            first, second = second, lines(printed(path, folder / f"{dump.stem}-3"))
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
