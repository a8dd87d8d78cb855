"""What the documents show is so.

The texts in ARCHITECTURE.md are what the compiler prints: each block behind `<!-- dump STAGE -->` is cut
out of that stage's dump of the digits model, or of the example that is named before the stage.

A line ending in … is a beginning; … alone stands for any lines; indentation is not compared. Where several
stages are named, the first that changed the graph is meant.
"""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build")) / "tenon"))
BLOCK = re.compile(r"<!-- dump (?:([a-z]+) )?([^ ]+) -->\n```\n(.*?)```", re.S)
BLOCKS = BLOCK.findall((ROOT / "ARCHITECTURE.md").read_text())


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    made = {}
    for name, options in {"digits": ["--exact", "--keep", "relu2_out", "--cores", "2"], "power": ["--exact"], "causal": ["--cores", "2"]}.items():
        folder = tmp_path_factory.mktemp(name)
        subprocess.run([TENON, "compile", ROOT / f"examples/{name}/{name}.onnx", "--target", "x86-64-v3", *options, "--dump=all", "--dump-dir", folder,
                        "-o", folder / f"{name}.so"], check=True, stdout=subprocess.DEVNULL)
        made[name] = {p.name.split(".")[1]: p.read_text().splitlines() for p in folder.glob(f"{name}.*.*") if p.suffix != ".so"}
    return made


def matches(shown: str, printed: str) -> bool:
    shown, printed = shown.strip(), printed.strip()
    return printed.startswith(shown[:-1]) if shown.endswith("…") else printed == shown


def find(chunk: list[str], lines: list[str], start: int) -> int:
    """The end of the first place from `start` on where the chunk stands; -1 if nowhere."""
    for at in range(start, len(lines) - len(chunk) + 1):
        if all(matches(s, p) for s, p in zip(chunk, lines[at:])):
            return at + len(chunk)
    return -1


@pytest.mark.parametrize("model, stages, text", BLOCKS, ids=[f"{model or 'digits'}-{stages}" for model, stages, _ in BLOCKS])
def test_what_is_shown_is_what_is_printed(dumps, model, stages, text):
    printed = dumps[model or "digits"]
    lines = next((printed[s] for s in stages.split("|") if not printed[s][0].startswith("; unchanged")), None)
    assert lines, f"no stage of {stages} changed the graph"
    at, chunk = 0, []
    for line in text.splitlines() + ["…"]:
        if line != "…":
            chunk.append(line)
            continue
        at = find(chunk, lines, at)
        assert at >= 0, f"{stages} does not print:\n" + "\n".join(chunk)
        chunk = []


def test_the_table_of_operators():
    """doc/operators.md ends with what `tenon operators` prints."""
    table = (ROOT / "doc" / "operators.md").read_text().split("<!-- tenon operators -->\n")[1]
    assert table == subprocess.run([TENON, "operators"], check=True, capture_output=True, text=True).stdout


def test_the_program_of_the_readme(tmp_path):
    """The C program in README.md compiles as told there, and runs."""
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "program.c").write_text(re.search(r"```c\n(#include.*?)```", readme, re.S).group(1))
    build = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
    program, model = tmp_path / "program", tmp_path / "digits.so"
    subprocess.run(["cc", "-Wall", f"-I{ROOT}/include", tmp_path / "program.c", build / "libtenon-run.a", "-lm", "-lpthread", "-ldl", "-o", program],
                   check=True)
    subprocess.run([TENON, "compile", ROOT / "examples/digits/digits.onnx", "-o", model], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([program, model, f"{ROOT}/examples/digits/held_out.npz:images"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("probability: 14400 bytes of f32"), done.stderr


def test_there_are_walks():
    assert len([b for b in BLOCKS if not b[0]]) >= 8 and len([b for b in BLOCKS if b[0] == "power"]) >= 4
