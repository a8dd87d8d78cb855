"""Numbers in choices: where programs, groups, layouts and prices are chosen, a number has a name, and beside the name stands why it is that number.

What a comment says is for people to judge. That there is one, and that no number hides in the middle of an expression, is what these tests hold
(doc/cost.md, Numbers in choices).
"""
import pathlib
import re

SRC = pathlib.Path(__file__).resolve().parents[1] / "src"
# Where it is decided. What only carries decisions out (steps, lowering, printing) may count as it likes.
DECIDE = ["schedule/write*.[ch]", "schedule/rows.[ch]", "fuse/inline.c", "fuse/legal.c", "fuse/price.c",
          "fuse/dp.c", "fuse/merge_groups.c", "fuse/internal.h", "format/candidates.c", "format/price.c", "format/internal.h", "cost/cost.c", "cost/traffic.c", "cost/formula.c",
          "normalise/normalise.[ch]", "normalise/gather_tables.c", "normalise/split_reduction.c", "normalise/pack_words.c", "driver/choose.c", "driver/variants.c", "driver/library.c"]

HIDDEN = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])+\'', re.S)
NUMBER = re.compile(r"(?<![\w.])(?:0x[\w.]+|\d[\d.]*(?:e[-+]?\d+)?)")
# A name that gets a number: NAME = 8 in an enum or a constant, #define NAME 8, a table of numbers.
NAMED = re.compile(r"#define +[A-Z][A-Z0-9_]+ |\b[A-Z][A-Z0-9_]+ = |static const \w+ \w+\[[^]]*\] = ")
# Nothing, one and two are structure: an end, a neighbour, the other side, both, a half.
PLAIN = {"0", "1", "2", "1.0"}
# Bits of a word, bits and bytes of an element, units of time, texts.
UNITS = re.compile(r"[%/] ?64|\b63\b|< 64|<< (?:32|56|62)|(?:bytes|bits)\)? *(?:[<>=!]=|[<>/%]) *\d+|bytes \? |1e-?\d+|0x1p62|\b8 / dtype_info"
                   r"|: 64 - |\b64 - |vector_bytes / 4|strncmp|text_printf|__attribute__|dim\[80\]|(?:path|at)\[64\]|depth < 64")
# A #define of two lines is read as one.
CONTINUED = re.compile(r" *\\\n *([^\n]*)")
# Arguments of what is printed, which may go on behind the line of the call.
PRINTED = re.compile(r"text_printf\([^;]*\Z")


def lines():
    for path in sorted(p for pattern in DECIDE for p in SRC.glob(pattern)):
        text = CONTINUED.sub(lambda m: f" {m[1]}\n", path.read_text())
        hidden = HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text).split("\n")
        yield from ((path.relative_to(SRC), i, hidden, text.split("\n")) for i in range(len(hidden)))


def numbers(line: str) -> set[str]:
    return set(NUMBER.findall(line)) - PLAIN


def bare() -> list[str]:
    return [f"src/{path}:{i + 1}: {text[i].strip()}" for path, i, code, text in lines()
            if numbers(code[i]) and not NAMED.search(code[i]) and not UNITS.search(code[i])
            and not PRINTED.search("\n".join(code[max(0, i - 3):i]))]


def unexplained() -> list[str]:
    """Names with a number that have no comment beside them, nor in front of the block that they stand in."""
    found = []
    for path, i, code, text in lines():
        if not NAMED.search(code[i]) or not numbers(code[i]):
            continue
        first = i
        while first > 0 and text[first - 1].strip():
            first -= 1
        if not any("*/" in line or "/*" in line for line in text[first:i + 1]):
            found.append(f"src/{path}:{i + 1}: {text[i].strip()}")
    return found


def test_no_choice_by_a_bare_number():
    assert not bare(), "give it a name, and say beside that why it is this number:\n" + "\n".join(bare())


def test_every_named_number_is_explained():
    assert not unexplained(), "say beside it why it is this number:\n" + "\n".join(unexplained())


def test_numbers_are_found():
    """What the other tests look for is seen where it stands."""
    code = HIDDEN.sub(" ", 'if (tiles >= 8)  /* 9 */')
    assert numbers(code) == {"8"} and not NAMED.search(code) and not UNITS.search(code)
    assert numbers("x = y * 3 / 4;") == {"3", "4"} and numbers("x > 0.96") == {"0.96"} and NAMED.search("enum { TILES = 8 };")
