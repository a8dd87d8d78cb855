"""tenon run --many and explain --batches as a user meets them: requests from lines of JSON, results
as lines of JSON, and a table of what ran together.

Numbers arrive in the types of the model's inputs or are refused, what is wrong with a line is that
request's alone, and what is written reads back the same.
"""
import json
import re
import subprocess

import numpy as np
import pytest

from targets import SANITIZED
from test_cli import INTERNAL, MODEL, OK, ROOT, USAGE, Tenon, small_model
from test_cli import model, tenon    # noqa: F401  fixtures

BRANCH = """
graph @main(%x: f32[1, n], %most: f32[]) -> (%y, %sum) {
  %axes: i64[2] = const [0, 1]
  %sum: f32[] = reduce_sum(%x, %axes) {keepdims = 0}
  %low: bool[] = less(%sum, %most)
  %y: f32[1, n] = if(%low, %x)
    with [n_1 = n] graph @then(%x: f32[1, n_1]) -> (%t) {
      %t: f32[1, n_1] = tanh(%x)
    }
    with [n_2 = n] graph @else(%x: f32[1, n_2]) -> (%a) {
      %a: f32[1, n_2] = add(%x, %x)
    }
}
"""
TYPES = ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"]


@pytest.fixture(scope="session")
def branch(tmp_path_factory):
    """A model with a branch, compiled for many."""
    folder = tmp_path_factory.mktemp("branch")
    (folder / "branch.tn").write_text(BRANCH)
    return Tenon(folder).compiled(folder / "branch.tn", "--many")


@pytest.fixture(scope="session")
def same(tmp_path_factory):
    """For each type a model that gives its input back."""
    folder, made = tmp_path_factory.mktemp("same"), {}
    t = Tenon(folder)
    for dtype in TYPES:
        text = folder / f"{dtype}.tn"
        text.write_text(f"graph @main(%x: {dtype}[n]) -> (%z) {{\n"
                        f"  %z: {dtype}[n] = identity(%x)\n}}\n")
        made[dtype] = t.compiled(text, "--many")
    return made


def many(tenon, model, *lines, code=OK):
    path = tenon.folder / "requests.jsonl"
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{line}\n" for line in text), "utf-8")
    done = tenon("run", model, "--many", path)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    tenon.leaves_nothing()
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def says(tenon, model, line):
    """The error of a line alone, between two that have results."""
    good = {"x": [[1, 2]], "most": 0}
    (first, got, last), stderr = many(tenon, model, good, line, good, code=USAGE)
    assert first == last and "y" in first and list(got) == ["error"]
    assert got["error"].startswith("line 2: ")
    assert f"tenon: error: 1 of 3 requests have no result; {got['error']}\n" == stderr
    return got["error"]


def digits(number):
    """How many digits a float is written with, those left out that say its size alone."""
    return len(number.split("e")[0].replace(".", "").strip("-0"))


# ---- what runs ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_one_file_of_c_compiles(tenon, target):
    """Kernels' preludes and those of many requests are one source then."""
    text, source = tenon.folder / "branch.tn", tenon.folder / "branch.c"
    text.write_text(BRANCH)
    done = tenon("compile", text, "--many", "--emit", "c", "--target", target, "-o", source)
    assert done.returncode == OK, done.stderr
    built = subprocess.run(["gcc", "-fsyntax-only", f"-march={target}", source],
                           capture_output=True, text=True)
    assert built.returncode == 0, built.stderr


def test_another_machine(tenon, branch):
    """Where the compiler makes objects for another machine than Tenon's own was built for, it compiles all of the program:
    to the same results."""
    text, cc = tenon.folder / "branch.tn", tenon.folder / "other-cc"
    text.write_text(BRANCH)
    cc.write_text('#!/bin/sh\ncase " $* " in *" -dM "*) gcc "$@" | grep -v __linux__;; *) exec gcc "$@";; esac\n')
    cc.chmod(0o755)
    done = tenon("compile", text, "--many", "--no-cache", "--cc", cc, "-o", tenon.folder / "other.so")
    assert done.returncode == OK, done.stderr
    requests = [{"x": [[0.5] * n], "most": 1} for n in range(6)]
    assert many(tenon, tenon.folder / "other.so", *requests) == many(tenon, branch, *requests)


def test_requests_run(tenon, branch):
    rng = np.random.default_rng(1)
    xs = [rng.normal(size=(1, int(n))).astype("f4") for n in rng.integers(0, 5, 30)]
    got, stderr = many(tenon, branch, *({"x": x.tolist(), "most": 0.1} for x in xs))
    assert stderr == ""
    for x, one in zip(xs, got, strict=True):
        want = np.tanh(x) if x.sum() < 0.1 else x + x
        np.testing.assert_allclose(np.array(one["y"], "f4").reshape(x.shape), want, rtol=1e-6)
        np.testing.assert_allclose(one["sum"], x.sum(), rtol=1e-5, atol=1e-6)


def test_from_standard_input_and_from_text(tenon, branch):
    """A model that is not compiled yet is, for many; blank lines are no requests."""
    (tenon.folder / "branch.tn").write_text(BRANCH)
    line = tenon.folder / "line"
    line.write_text('\n{"x": [[1, 2]], "most": 0}\n \n')
    with open(line) as f:
        done = tenon("run", tenon.folder / "branch.tn", "--many", "-", stdin=f)
    assert (done.returncode, done.stdout, done.stderr) == (OK, '{"y": [[2, 4]], "sum": 3}\n', "")
    assert tenon("run", branch, "--many=-", stdin=open("/dev/null")).stderr.startswith(
        "tenon: note: standard input has no requests")


def test_what_runs_one_by_one_says_so(tenon, tmp_path):
    model = small_model(tmp_path / "m.onnx")
    assert tenon("compile", model, "-o", tmp_path / "m.so").returncode == OK
    line, other = {"x": [[1, 0, 0, 0]]}, {"x": [[0, 3, -1, 5]]}
    want = many(tenon, tmp_path / "m.so", other)[0]
    got, stderr = many(tenon, tmp_path / "m.so", line, other, line)
    assert got == [{"y/out:0": [[0, 0, 0]]}, *want, {"y/out:0": [[0, 0, 0]]}]
    assert want != [got[0]], "else it says nothing"
    assert "m.so: requests run one by one: it was compiled without --many" in stderr
    assert many(tenon, tmp_path / "m.so", line)[1] == ""


def test_shapes(tenon, branch, tmp_path):
    """Lists say all shapes but those with a dimension in one of 0, as input and as output."""
    got, _ = many(tenon, branch, {"x": [[]], "most": 1},
                  {"x": {"shape": [1, 0], "data": []}, "most": 1},
                  {"most": {"data": [9], "shape": []}, "x": {"data": [1, 2], "shape": [1, 2]}})
    assert got[0] == got[1] == {"y": [[]], "sum": 0} and len(got[2]["y"][0]) == 2
    model = small_model(tmp_path / "m.onnx")
    got, _ = many(tenon, model, {"x": {"shape": [0, 4], "data": []}}, {"x": [[1] * 4] * 2})
    assert got[0] == {"y/out:0": {"shape": [0, 3], "data": []}}
    assert np.shape(got[1]["y/out:0"]) == (2, 3)


# ---- numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_floats_read_back_the_same(tenon, same, dtype):
    """All that is finite and all that is not, written with as few digits as that takes."""
    kind = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[dtype]
    info = np.finfo(kind)
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 63, 3000, np.uint64).astype(f"u{kind().nbytes}").view(kind)
    odd = [0, -0.0, info.max, -info.max, info.tiny, info.smallest_subnormal, np.inf, -np.inf,
           np.nan]
    x = np.concatenate([bits[np.isfinite(bits)], rng.normal(size=500), np.arange(-9, 9) / 10, odd])
    x = x.astype(kind)
    got, _ = many(tenon, same[dtype], {"x": [float(v) for v in x]})
    text = tenon("run", same[dtype], "--many", tenon.folder / "requests.jsonl").stdout
    back = np.array(got[0]["z"], kind)
    np.testing.assert_array_equal(back, x)
    assert (np.signbit(back) == np.signbit(x)).all()
    if dtype != "f16":                                 # which is written as the f32 that it is
        words = text[text.index("[") + 1:text.index("]")].split(", ")
        for word, v in zip(words, x, strict=True):
            fewest = np.format_float_scientific(v)
            assert not np.isfinite(v) or digits(word) == digits(fewest), (word, fewest)


@pytest.mark.parametrize("dtype", [t for t in TYPES if t[0] in "iu"])
def test_integers(tenon, same, dtype):
    bits = int(dtype[1:])
    low, high = (-1 << bits - 1, (1 << bits - 1) - 1) if dtype[0] == "i" else (0, (1 << bits) - 1)
    got, _ = many(tenon, same[dtype], {"x": [low, high, 0, 1]}, '{"x": [1e1, 20.0, 5E+0]}')
    assert got == [{"z": [low, high, 0, 1]}, {"z": [10, 20, 5]}]
    wrong = [low - 1, high + 1, 0.5, "1e30", "NaN", "-Infinity"]
    got, _ = many(tenon, same[dtype], *(f'{{"x": [1, {v}]}}' for v in wrong), code=USAGE)
    for line, (v, one) in enumerate(zip(wrong, got, strict=True), 1):
        why = f"is given, and {dtype} holds {low} to {high}"
        why = "is no whole number" if v in (0.5, "NaN") else why
        assert one["error"].startswith(f'line {line}: input "x": {v} {why}'), one


def test_booleans(tenon, same):
    got, _ = many(tenon, same["bool"], {"x": [True, False, 1, 0]}, {"x": []})
    assert got == [{"z": [True, False, True, False]}, {"z": []}]
    got, _ = many(tenon, same["bool"], {"x": [2]}, {"x": ["true"]}, code=USAGE)
    assert 'line 1: input "x": 2 is given, and the input is bool' in got[0]["error"]
    assert 'line 2: input "x": "true" is a string; the input is bool' == got[1]["error"]


@pytest.mark.parametrize("dtype, large", [
    ("f32", "3.5e38"), ("f32", "-1e400"), ("f64", "1e309"), ("f16", "65520"), ("bf16", "3.4e38")])
def test_floats_that_are_too_large(tenon, same, dtype, large):
    got, _ = many(tenon, same[dtype], f'{{"x": [{large}]}}', {"x": [0.5]}, code=USAGE)
    assert f'input "x": {large} is given, which is beyond what {dtype} holds' in got[0]["error"]
    assert got[1] == {"z": [0.5]}


# ---- what is wrong with a line --------------------------------------------------------------


@pytest.mark.parametrize("line, why", [
    ('{"x": [[1, 2]], "most": null}', 'input "most": null is no number; the input is f32'),
    ('{"x": [[1, true]], "most": 0}', 'input "x": true is no number; the input is f32'),
    ('{"x": [["1"]], "most": 0}', 'input "x": "1" is a string; the input is f32'),
    ('{"x": "[[1]]", "most": 0}', 'input "x": "[[1]]" is a string'),
    ('{"x": [[1]]}', 'input "most" is not given'),
    ('{"x": [[1]], "least": 0}', 'there is no input "least"; the model\'s are x, most'),
    ('{"x": [[1]], "x": [[1]], "most": 0}', 'input "x": it is given twice'),
    ('{"x": [[1], [2, 3]], "most": 0}',
     'input "x": a list of 2 stands beside one of 1; dimension 1 has one length'),
    ('{"x": [[1], 2], "most": 0}', "a number stands beside a list"),
    ('{"x": [1, [2]], "most": 0}', "a list stands beside a number"),
    ('{"x": [[], 2], "most": 0}', "a number stands beside a list"),
    ('{"x": [[], [[]]], "most": 0}', "a list of 1 stands beside one of 0"),
    ('{"x": [{}], "most": 0}', "an object stands where numbers are wanted"),
    ('{"x": [1], "most": 0}', 'input "x": f32[1] has rank 1'),
    ('{"x": [[1], [2]], "most": 0}', 'input "x": dimension 0 is 2, the model takes 1'),
    ('{"x": {"shape": [1, 2], "data": [1]}, "most": 0}', '"data" has 1 elements, "shape" means 2'),
    ('{"x": {"shape": [1, -1], "data": [1]}, "most": 0}', '"shape" has -1 as dimension 1'),
    ('{"x": {"shape": [4294967296, 4294967296], "data": []}, "most": 0}',
     '"shape" has 4294967296 as dimension 1'),
    ('{"x": {"shape": [1, 1.5], "data": [1]}, "most": 0}', "1.5 is no whole number"),
    ('{"x": {"shape": [[1]], "data": [1]}, "most": 0}', "lists without lists in them"),
    ('{"x": {"data": [1]}, "most": 0}', 'an object has "shape" and "data"'),
    ('{"x": {"shape": 1, "data": [1]}, "most": 0}', '"shape" and "data" are lists'),
    ('{"x": {"shape": [1], "date": [1]}, "most": 0}', 'no "date"'),
    ('{"x": {"shape": [1], "shape": [1]}, "most": 0}', '"shape" is given twice'),
    ('{"x": {}, "most": 0}', 'an object has "shape" and "data"'),
    ("[1]", 'a request is an object, of inputs by name: {"x": …}'),
    ("5", "a request is an object"),
])
def test_what_is_wrong_with_a_request(tenon, branch, line, why):
    assert why in says(tenon, branch, line)


@pytest.mark.parametrize("line, column, why", [
    ('{"x": [[1, 2]]', 15, "the line ends here"),
    ('{"x": [[1, 2', 13, "the line ends here"),
    ('{"x', 4, "the line ends here"),
    ("{", 2, "the line ends here"),
    ('{"x": [[1 2]]}', 11, "a comma or ] is missing"),
    ('{"x": [[1, ]]}', 12, "a number, list, string, true, false or null is missing"),
    ('{"x": [[1]] "most": 0}', 13, "a comma or } is missing"),
    ('{"x": [[1]],}', 13, "a name in quotes is missing"),
    ('{x: [[1]]}', 2, "a name in quotes is missing"),
    ('{"x" [[1]]}', 6, "a colon is missing"),
    ('{"x": [[01]]}', 10, "a comma or ] is missing"),
    ('{"x": [[+1]]}', 9, "a number, list"),
    ('{"x": [[.5]]}', 9, "a number, list"),
    ('{"x": [[1.]]}', 11, "digits are missing behind the point"),
    ('{"x": [[1e]]}', 11, "digits of the exponent are missing"),
    ('{"x": [[1e+]]}', 12, "digits of the exponent are missing"),
    ('{"x": [[0x10]]}', 10, "a comma or ] is missing"),
    ('{"x": [[nan]]}', 9, "a number, list"),
    ('{"x": [[1]], "most": 0}}', 24, "something stands behind"),
    ('{"x": [[1]], "most": 0} 5', 25, "something stands behind"),
    ('{"\\x": 1}', 4, "no such escape"),
    ('{"\\ud800": 1}', 9, "no such escape"),
    ('{"\\u0000": 1}', 4, "no such escape"),
    ('{"a\tb": 1}', 4, "a character that a string has as \\u and its number"),
    ('{"x": ' + "[" * 100, 70, "nested too deep"),
])
def test_where_json_is_malformed(tenon, branch, line, column, why):
    said = says(tenon, branch, line)
    assert f"column {column}: {why}" in said


def test_names_in_errors_are_json_too(tenon, branch):
    said = says(tenon, branch, '{"\\u00e9\\ud83d\\ude00\\"\\n€": 1}')
    assert 'no input "é😀"\n€"' in said


@pytest.mark.parametrize("raw", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
                                 b"\xe2\x82"])
def test_bytes_that_are_no_text(tenon, branch, raw):
    path = tenon.folder / "requests.jsonl"
    path.write_bytes(b'{"' + raw + b'": 1}\n\0\n{"x": [[1, \0')
    done = tenon("run", branch, "--many", path)
    errors = [json.loads(line)["error"] for line in done.stdout.splitlines()]
    assert done.returncode == USAGE and errors[0] == "line 1: column 3: bytes that are not UTF-8"
    assert len(errors) == 3 and "column 12" in errors[2]


def test_every_cut_of_a_line_is_refused(tenon, branch):
    whole = '{"x": {"shape": [1, 2], "data": [1.5e-1, -2]}, "most": 0.25}'
    got, _ = many(tenon, branch, *(whole[:n] for n in range(1, len(whole))), code=USAGE)
    assert len(got) == len(whole) - 1
    assert all("the line ends here" in one["error"] for one in got), got


def test_a_fault_of_one_request_leaves_the_others(tenon, tmp_path):
    """An index outside is seen when it runs."""
    text = tmp_path / "at.tn"
    text.write_text("graph @main(%x: f32[n], %at: i64[1]) -> (%y) {\n"
                    "  %y: f32[1] = gather(%x, %at) {axis = 0}\n}\n")
    requests = {"x": [1, 2], "at": [1]}, {"x": [1, 2], "at": [7]}, {"x": [3], "at": [0]}
    got, _ = many(tenon, text, *requests, code=USAGE)
    assert got[0] == {"y": [2]} and got[2] == {"y": [3]} and "7" in got[1]["error"]


# ---- options --------------------------------------------------------------------------------


@pytest.mark.parametrize("args, says", [
    (["--many", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
    (["--many", "/"], "/: Is a directory"),
    (["--many"], "--many needs a value"),
    (["--many", "-", "--input", "x=@x.npy"], "--input is for one run"),
    (["--many", "-", "--expect", "y=@y.npy"], "--expect is for one run"),
    (["--many", "-", "--output-dir", "out"], "--output-dir is for one run"),
    (["--many", "-", "--stats"], "--stats is for one run"),
    (["--many", "-", "--dim", "n=3"], "--dim: sizes are those of each request"),
    (["--many", "-", "--json"], "leave out --json"),
])
def test_options_are_checked(tenon, branch, args, says):
    tenon.fails(USAGE, "run", branch, *args, says=says)


def test_a_model_that_cannot_be_loaded(tenon):
    bad = tenon.folder / "bad.onnx"
    bad.write_bytes(b"\x08\x08garbage")
    done = tenon("run", bad, "--many", "/dev/null")
    assert done.returncode in (MODEL, USAGE) and done.returncode != INTERNAL and done.stdout == ""


# ---- explain --batches ----------------------------------------------------------------------


ONE_BY_ONE = """
graph @main(%x: str[n]) -> (%y) {
  %axis: i64[1] = const [1]
  %y: str[n, 1] = unsqueeze(%x, %axis)
}
"""
COUNTED = """
graph @main(%x: f32[n], %turns: i64[]) -> (%y) {
  %go: bool[] = const [1]
  %y: f32[n] = loop(%turns, %go, %x) carried 1
    with [n_1 = n] graph @body(%i: i64[], %on: bool[], %a: f32[n_1]) -> (%again, %b) {
      %three: i64[] = const [30]
      %again: bool[] = less(%i, %three)
      %b: f32[n_1] = add(%a, %a)
    }
}
"""


def table(text):
    """Its lines by column: of the first, a name, blanks are no end."""
    lines = text.split("\n\n")[1].splitlines()
    behind = 5 if "asked" in lines[0] else 2
    return [line.rsplit(maxsplit=behind) for line in lines]


def requests(tenon, *lines):
    path = tenon.folder / "requests.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_blocks(tenon, branch):
    done = tenon("explain", branch, "--batches")
    assert done.returncode == OK and done.stderr == ""
    assert "branch.so: requests run together, in " in done.stdout
    assert "\nnext: --requests FILE" in done.stdout
    lines = done.stdout.split("\n\n")[1].splitlines()
    assert len({line.index("together") for line in lines[1:]} | {lines[0].index("run")}) == 1
    assert lines[-1].startswith("total ") and not any(line.endswith(" ") for line in lines)
    data = json.loads(tenon("explain", branch, "--batches", "--json").stdout)
    assert data["single"] is None and len(data["blocks"]) == len(lines) - 2
    assert {tuple(b) for b in data["blocks"]} == {("name", "nests", "host")}
    assert sum(b["nests"] for b in data["blocks"]) == int(lines[-1].split()[1])


def test_batches(tenon, branch):
    """What the table says adds up, and all requests of a branch run at once."""
    path = requests(tenon, *({"x": [[i, 1]], "most": 10} for i in range(20)))
    done = tenon("explain", branch, "--batches", "--requests", path)
    assert done.returncode == OK and done.stderr == ""
    header, *rows, total = table(done.stdout)
    assert header[-1] == "size" and total[0] == "total"
    for column in (1, 3, 4):
        assert sum(int(row[column]) for row in rows) == int(total[column])
    assert max(float(row[5]) for row in rows) == 20
    assert f"next: tenon run {branch} --many {path}" in done.stdout
    data = json.loads(tenon("explain", branch, "--batches", "--requests", path, "--json").stdout)
    assert (data["requests"], data["failed"], data["shapes"]) == (20, 0, 1)
    counts = [(b["asked"], b["batches"]) for b in data["blocks"]]
    assert counts == [(int(r[3]), int(r[4])) for r in rows]


def test_what_to_do_next(tenon, branch):
    def hint(*lines):
        done = tenon("explain", branch, "--batches", "--requests", requests(tenon, *lines))
        assert done.returncode == OK
        return done.stdout[done.stdout.index("\nnext: "):], done.stderr

    assert "one has nothing to run together with" in hint({"x": [[1]], "most": 0})[0]
    assert "These 6 have 6 shapes" in hint(*({"x": [[1] * n], "most": 0} for n in range(6)))[0]
    said, stderr = hint({"x": [[1]]}, {"x": [[1]]})
    assert "none had a result" in said
    assert 'note: 2 of 2 requests have no result; line 1: input "most" is not given' in stderr


def test_what_control_asks_for_runs_alone(tenon, tmp_path):
    text = tmp_path / "counted.tn"
    text.write_text(COUNTED)
    path = requests(tenon, *({"x": [1, 2], "turns": n} for n in range(9)))
    done = tenon("explain", text, "--batches", "--requests", path)
    assert done.returncode == OK, done.stderr
    rows = table(done.stdout)
    alone = [r for r in rows if r[2] == "alone"]
    assert [r[0] for r in rows[-2:]] == ["total", "total"] and rows[-1][2] == "alone"
    assert all(r[3] == r[4] for r in alone)
    assert sum(int(r[3]) for r in alone[:-1]) == int(rows[-1][3])


def test_no_program_for_many(tenon, model, tmp_path):
    """Why, and what to do."""
    text = tmp_path / "single.tn"
    text.write_text(ONE_BY_ONE)
    done = tenon("explain", text, "--batches", "--requests", requests(tenon))
    assert done.returncode == OK and "\nnext: tenon run --many" in done.stdout
    data = json.loads(tenon("explain", text, "--batches", "--json").stdout)
    assert data == {"model": str(text), "single": data["single"], "blocks": []} and data["single"]
    assert done.stdout.startswith(f"{text}: requests run one by one: {data['single']}\n")
    got, stderr = many(tenon, text, {"x": ["a"]}, {"x": []}, code=USAGE)
    assert 'input "x": the input is str' in got[0]["error"]
    assert got[1] == {"y": {"shape": [0, 1], "data": []}}
    assert stderr.count(f"requests run one by one: {data['single']}\n") == 1
    plain = tmp_path / "plain.so"
    assert tenon("compile", model, "-o", plain).returncode == OK
    said = tenon("explain", plain, "--batches").stdout
    assert f"next: tenon compile MODEL --many -o {plain}\n" in said


@pytest.mark.parametrize("args, says", [
    (["--requests", "r.jsonl"], "--requests is what --batches counts: give both"),
    (["--batches", "--plan"], "leave out --plan"),
    (["--batches", "--why", "a,b"], "leave out --plan, --why"),
    (["--batches", "--dim", "n=3"], "--dim is about compiling"),
    (["--batches", "--target", "generic"], "--target is about compiling"),
    (["--batches", "--requests", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
])
def test_options_of_explain_are_checked(tenon, branch, args, says):
    tenon.fails(USAGE, "explain", branch, *args, says=says)


# ---- from C ---------------------------------------------------------------------------------


def test_the_example_of_the_header(tenon, tmp_path):
    """What tenon.h shows of tn_run_many compiles and runs as it stands."""
    header = (ROOT / "include/tenon.h").read_text()
    said = header[:header.index("TnStatus tn_run_many(")].rsplit("/*", 1)[1]
    example = "\n".join(re.findall(r"^ \* (    .*)$", said, re.M))
    (tmp_path / "m.tn").write_text("graph @main(%x: f32[1, n]) -> (%y) {\n"
                                   "  %y: f32[1, n] = add(%x, %x)\n}\n")
    assert tenon("compile", tmp_path / "m.tn", "--many", "-o", tmp_path / "m.so").returncode == OK
    (tmp_path / "main.c").write_text(f"""#include <stdio.h>
#include "tenon.h"
int main(void)
{{
    TnContext *ctx;
    TnModel *model;
    TnSession *session;
    if (tn_context_new(NULL, &ctx) || tn_load(ctx, "m.so", &model)
        || tn_session_new(ctx, model, NULL, &session))
        return 1;
{example}
    return 0;
}}
""")
    library = ROOT / "build/libtenon-run.a"
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run(["cc", *flags, "main.c", library, "-lm", "-lpthread", "-ldl", "-o", "main"],
                   cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "2\n8\n")


ENDLESS = """
graph @f(%x: f32[1, 4], %n: i64[]) -> (%y) {
  %zero: i64[] = const [0]
  %stop: bool[] = equal(%n, %zero)
  %y: f32[1, 4] = if(%stop, %x, %n)
    graph @done(%x: f32[1, 4], %n: i64[]) -> (%s) {
      %s: f32[1, 4] = identity(%x)
    }
    graph @more(%x: f32[1, 4], %n: i64[]) -> (%t) {
      %one: i64[] = const [1]
      %less: i64[] = sub(%n, %one)
      %a: f32[1, 4] = call @f(%x, %less)
      %t: f32[1, 4] = tanh(%a)
    }
}
graph @main(%x: f32[1, 4], %n: i64[]) -> (%y) {
  %y: f32[1, 4] = call @f(%x, %n)
}
"""


@pytest.mark.skipif(SANITIZED, reason="a sanitizer reserves addresses of its own")
def test_calls_that_take_all_memory(tenon):
    """What has no end says how deep its calls are, and which option bounds them."""
    (tenon.folder / "endless.tn").write_text(ENDLESS)
    lines = {"x": [[1, 2, 3, 4]], "n": -1}, {"x": [[0, 0, 0, 0]], "n": 2}
    (tenon.folder / "line").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = tenon.compiled(tenon.folder / "endless.tn", "--many", "--max-calls", "1000000000000")
    done = subprocess.run(["sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh",
                           ROOT / "build" / "tenon", "run", model, "--many",
                           tenon.folder / "line"], capture_output=True, text=True)
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert re.search(r"calls of functions are \d{6,} deep and take \d{8,} bytes.*--max-calls",
                     first["error"])
    assert second == {"y": [[0, 0, 0, 0]]}
