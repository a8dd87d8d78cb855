#!/usr/bin/env python3
"""The arrows of the house: who includes whom, read from the #include lines of src/ and cmd/.

As a program it prints the map (./dev map) and exits with 1 if an arrow points upward; as a test it
holds the same rules, and that operators are known by name in three rooms only.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SRC = ROOT / "src"

# Highest first. A room may include the rooms of lower levels, never its own level's or a higher one's.
LEVELS = [
    ["api"],
    ["driver"],
    ["import", "rewrite", "lower", "batch", "normalise", "fuse", "format", "schedule", "plan", "page", "emit", "build", "run"],
    ["winograd"],
    ["ref"],
    ["graph"],
    ["op"],
    ["cost"],
    ["kernel"],
    ["algebra"],
    ["text"],
    ["nest"],
    ["machine", "routine"],
    ["type"],
    ["expr"],
    ["base"],
]
LEVEL = {room: i for i, rooms in enumerate(LEVELS) for room in rooms}

# What ships without the compiler sees only this.
RUN_MAY_INCLUDE = {"base/base.h", "type/dtype.h", "puff.h"}
# The command is a user of the public API like any other.
CMD_MAY_INCLUDE = {"tenon.h", "cmd.h", "against_text.h"}      # the last one is made of cmd/against.py
# Where an operator may be called by its name.
KNOW_OPERATORS = {"import", "op", "rewrite"}
# Words with a meaning of their own that operators happen to share: a combiner, an access, a file's field.
PLAIN_WORDS = {"sum", "identity", "gather", "shape", "size"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def sources(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in (".c", ".h", ".def"))


def includes(path: pathlib.Path) -> list[tuple[int, str]]:
    """(line, header) of every #include "…" of a file."""
    text = path.read_text()
    return [(text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in INCLUDE.finditer(text)]


def room_of(header: str, includer: str) -> str | None:
    """The room a header belongs to: by its folder, or, without one, its includer's; None outside src/."""
    if "/" in header:
        return header.split("/")[0]
    return includer if (SRC / includer / header).exists() else None


def arrows() -> dict[tuple[str, str], list[str]]:
    """(from, to) -> the places that make the arrow."""
    found = collections.defaultdict(list)
    for room in sorted(p.name for p in SRC.iterdir() if p.is_dir()):
        for path in sources(SRC / room):
            for line, header in includes(path):
                to = room_of(header, room)
                if to not in (None, room) and (SRC / to).is_dir():
                    found[room, to].append(f"{path.relative_to(ROOT)}:{line}: {header}")
    return found


def is_upward(source: str, target: str) -> bool:
    return LEVEL[target] <= LEVEL[source]


def op_names() -> set[str]:
    """How operators are called: ONNX's names, and Tenon's that are not also words of scalar expressions
    ("exp", "max"), which every room may use."""
    ours = set(re.findall(r"^OP\(\s*(\w+)", (SRC / "op" / "ops.def").read_text(), re.M))
    scalar = set(re.findall(r'^SCALAR\(\s*\w+,\s*"([^"]+)"', (SRC / "nest" / "scalar.def").read_text(), re.M))
    onnx = set(re.findall(r'\{\s*"(\w+)", OP_', (SRC / "import" / "ops.c").read_text()))
    return ours - scalar - PLAIN_WORDS | onnx


# ---- tests -------------------------------------------------------------------------------------------


def test_every_room_has_a_level():
    rooms = {p.name for p in SRC.iterdir() if p.is_dir()}
    assert rooms <= set(LEVEL), f"not in LEVELS: {rooms - set(LEVEL)}"


def test_arrows_point_downward():
    upward = [place for (a, b), places in arrows().items() if is_upward(a, b) for place in places]
    assert not upward, "\n".join(upward)


def test_internal_headers_stay_inside():
    foreign = [place for places in arrows().values() for place in places if "internal.h" in place.rsplit(" ", 1)[1]]
    assert not foreign, "\n".join(foreign)


def test_run_ships_without_the_compiler():
    foreign = []
    for path in sources(SRC / "run") + sorted((SRC / "api").glob("run_*.c")):
        for line, header in includes(path):
            inside = room_of(header, path.parent.name) in ("run", path.parent.name) or header.startswith(("run/", "tenon"))
            if not inside and header not in RUN_MAY_INCLUDE:
                foreign.append(f"{path.relative_to(ROOT)}:{line}: {header}")
    assert not foreign, "\n".join(foreign)


def test_the_command_uses_the_public_api_alone():
    foreign = [f"{p.relative_to(ROOT)}:{line}: {header}" for p in sources(ROOT / "cmd") for line, header in includes(p)
               if header not in CMD_MAY_INCLUDE]
    assert not foreign, "\n".join(foreign)


def test_few_rooms_know_operators():
    """No OP_… enumerator, and no string that is an ONNX operator's name, outside the rooms that may."""
    names = op_names()
    assert {"Conv", "MatMul", "conv", "softmax", "batch_norm"} <= names and "exp" not in names, "ops.def is not read as it should be"
    found = []
    for path in sources(SRC):
        if path.relative_to(SRC).parts[0] in KNOW_OPERATORS:
            continue
        text = path.read_text()
        for m in COMMENT_OR_STRING.finditer(text):
            if m.group().startswith('"') and m.group()[1:-1] in names:
                found.append(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, m.start()) + 1}: {m.group()}")
        code = COMMENT_OR_STRING.sub(lambda m: "\n" * m.group().count("\n"), text)
        for m in re.finditer(r"\bOP_(\w+)", code):
            if m.group(1) in names:
                found.append(f"{path.relative_to(ROOT)}:{code.count(chr(10), 0, m.start()) + 1}: {m.group()}")
    assert not found, "\n".join(found)


def test_an_upward_arrow_would_be_seen():
    assert is_upward("base", "graph") and is_upward("fuse", "emit") and is_upward("nest", "nest")
    assert not is_upward("fuse", "nest") and not is_upward("driver", "emit")


def test_licences():
    """Every folder of other people's sources has its licence in it, and a row of its own in REUSE.toml."""
    for folder in (p for p in (ROOT / "third_party").iterdir() if p.is_dir()):
        assert list(folder.glob("LICENSE*")), folder
        assert f'path = "third_party/{folder.name}/**"' in (ROOT / "REUSE.toml").read_text(), folder


# ---- the map -----------------------------------------------------------------------------------------


def draw() -> int:
    found, bad = arrows(), 0
    for level in LEVELS:
        for room in level:
            if not (SRC / room).is_dir():
                continue
            files = sources(SRC / room)
            lines = sum(len(p.read_text().splitlines()) for p in files)
            targets = sorted({b for a, b in found if a == room}, key=LEVEL.get)
            print(f"{room:10}{len(files):3} files {lines:6} lines   {'-> ' + ' '.join(targets) if targets else ''}")
        print()
    for (a, b), places in found.items():
        if is_upward(a, b):
            bad += 1
            print(f"UPWARD  {a} -> {b}")
            print("".join(f"        {p}\n" for p in places), end="")
    print(f"{len(found)} arrows, {bad} upward")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(draw())
