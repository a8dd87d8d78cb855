"""The tenon command as a user meets it: exit codes, messages, help, what is left on disk.

TENON names the command (default: build/tenon). Every test gets a folder and a cache of its own.
"""
import json
import os
import re
import resource
import shutil
import stat
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
TENON = str(Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
OK, DIFFERS, USAGE, MODEL, UNSUPPORTED, LIMIT, TOOLCHAIN, INTERNAL = 0, 1, 2, 3, 4, 5, 6, 7
VERBS = ["compile", "run", "bench", "inspect", "learn", "verify", "machine", "cache"]


def small_model(path, op="Relu", **attrs):
    """y = op(x @ w) with x: f32[batch, 4]."""
    w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3) - 5, "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
             helper.make_node(op, ["h"], ["y/out:0"], name="last", **attrs)]
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
                              [helper.make_tensor_value_info("y/out:0", TensorProto.FLOAT, ["batch", 3])], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="test")
    model.ir_version = 8
    onnx.save(model, path)
    return path


class Tenon:
    def __init__(self, folder):
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if k != "CC"}
        self.env |= {"TENON_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
        (folder / "tmp").mkdir()
        (folder / "work").mkdir()

    def __call__(self, *args, env=None, limit=None, stdin=None, stdout=subprocess.PIPE):
        done = subprocess.run([TENON, *map(str, args)], cwd=self.folder / "work",
                              env=self.env | (env or {}), stdin=stdin, stdout=stdout,
                              stderr=subprocess.PIPE, text=True, timeout=120, preexec_fn=limit)
        assert done.returncode >= 0, f"killed by signal {-done.returncode}: {done.stderr}"
        return done

    def fails(self, code, *args, says=(), **how):
        done = self(*args, **how)
        assert done.returncode == code, (done.returncode, done.stderr)
        for part in [says] if isinstance(says, str) else says:
            assert part in done.stderr, done.stderr
        self.leaves_nothing()
        return done

    def compiled(self, model, *options):
        """The artefact of a model, beside it."""
        made = model.with_suffix(".so")
        done = self("compile", model, *options, "-o", made)
        assert done.returncode == OK, done.stderr
        return made

    def leaves_nothing(self):
        """No temporary file outlives the command."""
        assert list((self.folder / "tmp").iterdir()) == []
        assert [p.name for p in (self.folder / "work").iterdir() if ".tmp" in p.name or "XXXXXX" in p.name] == []


@pytest.fixture
def tenon(tmp_path):
    return Tenon(tmp_path)


@pytest.fixture
def model(tenon):
    return small_model(tenon.folder / "small.onnx")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """One artefact that many tests load."""
    folder = tmp_path_factory.mktemp("built")
    return Tenon(folder).compiled(small_model(folder / "small.onnx"))


# ---- help and usage ------------------------------------------------------------------------------


def test_help_names_every_verb_and_exit_code(tenon):
    done = tenon("--help")
    assert done.returncode == OK and done.stderr == ""
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", done.stdout, re.M)
    for code in range(8):
        assert f"{code} " in done.stdout[done.stdout.index("exit codes"):]


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_options_and_examples(tenon, verb):
    done = tenon(verb, "--help")
    assert done.returncode == OK and done.stderr == ""
    assert done.stdout.startswith(f"usage: tenon {verb}")
    assert "options:" in done.stdout and "--help" in done.stdout
    assert f"  tenon {verb}" in done.stdout[done.stdout.index("examples:"):]
    assert max(map(len, done.stdout.splitlines())) <= 120
    options = re.findall(r"^  (?:-\w, |    )--.*$", done.stdout, re.M)
    assert options and all(re.match(r".{28} \S", line) for line in options), "the second column is crooked"


def test_version(tenon):
    assert re.fullmatch(r"tenon \d+\.\d+\.\d+\n", tenon("--version").stdout)


def test_no_verb_is_usage(tenon):
    tenon.fails(USAGE, says="usage: tenon VERB")


@pytest.mark.parametrize("args, says", [
    (["comple"], ["no such verb", "did you mean compile?"]),
    (["compile"], ["which model?", "usage: tenon compile"]),
    (["compile", "m.onnx", "extra"], ["extra: one argument too many"]),
    (["compile", "m.onnx", "--emitt", "c"], ["--emitt: no such option", "did you mean --emit?"]),
    (["compile", "m.onnx", "--output"], ["--output needs a value"]),
    (["compile", "m.onnx", "--time=yes"], ["--time takes no value"]),
    (["compile", "m.onnx", "--expect", "y=@y.npy"], ["--expect is not an option of compile"]),
    (["compile", "m.onnx", "-q"], ["-q: no such option"]),
    (["run", "m.onnx", "--threads", "many"], ["--threads many: a whole number"]),
    (["run", "m.onnx", "--atol=-1"], ["--atol -1: a number of 0 or more"]),
    (["compile", "m.onnx", "--density", "0"], ["--density 0: a share above 0 and at most 1"]),
    (["compile", "m.onnx", "--density", "1.5"], ["--density 1.5: a share above 0 and at most 1"]),
    (["compile", "m.onnx", "--density", "half"], ["--density half: a share above 0"]),
    (["run", "m.onnx", "--input", "x"], ["write --input X=@FILE"]),
    (["compile", "m.onnx", "--max-memory", "lots"], ["a size is needed"]),
    (["compile", "m.onnx", "--max-memory", "8GBs"], ["a size is needed"]),
    (["bench", "m.onnx", "--iterations", "0"], ["at least one run"]),
    (["verify", "m.so"], ["compiled already"]),
])
def test_usage_errors_say_what_to_do(tenon, args, says):
    tenon.fails(USAGE, *args, says=says)


@pytest.mark.parametrize("args, says", [
    (["--dim", "batch"], "write --dim N=SIZE"),
    (["--dim", "batch=two"], "does not begin with a size"),
    (["--dim", "batch=-2"], "size of 0 or more"),
    (["--shape", "x=2,4"], "separated by x"),
    (["--shape", "x=" + "x".join(["1"] * 20)], "more than 12 dimensions"),
    (["--dump", "nothing"], ["there is no stage \"nothing\"", "import, fold"]),
    (["--stop-after", "nothing"], "there is no stage"),
    (["--formats", "fastest"], ["--formats: \"fastest\" is not known", "search", "nhwc"]),
    (["--fuse", "fastest"], ["--fuse: \"fastest\" is not known", "dp"]),
    (["--format", "y"], "write --format V=nhwc"),
    (["--format", "z=nhwc"], ["--format z=nhwc", "no value of that name is in memory", "--fuse none", "Kernels make y/out:0"]),
    (["--format", "y/out:0=2,1"], ["--format y/out:0=2,1", "no order of its 2 dimensions", "such as 1,0"]),
    (["--format", "y/out:0=1,0"], ["--format y/out:0", "an output of the model: --io-format sets its order"]),
    (["--format", "x=1,0"], ["--format x", "an input of the model"]),
    (["--io-format", "z=nhwc"], ["--io-format z=nhwc", "no input or output z", "inputs are x", "outputs y/out:0"]),
    (["--io-format", "x=nhwc"], ["--io-format x=nhwc", "x is f32[", "no order of its 2 dimensions", "such as 1,0"]),
    (["--io-format", "x=1,1"], "no order of its 2 dimensions"),
    (["--io-format", "x=1,0", "--io-format", "x=0,1"], "x was given before"),
    (["--emit", "rust"], "--emit: \"rust\" is not known"),
    (["--target", "pdp-11"], "pdp-11"),
])
def test_option_values_are_checked(tenon, model, args, says):
    tenon.fails(USAGE, "compile", model, *args, says=says)


def test_flag_value_and_flag_equals_value(tenon, model):
    for args in (["--stop-after", "import"], ["--stop-after=import"]):
        assert tenon("compile", model, *args).returncode == OK
        assert list((tenon.folder / "work").iterdir()) == []


def test_list_passes_needs_no_model(tenon):
    done = tenon("compile", "--list-passes")
    names = [line.split()[1] for line in done.stdout.splitlines()]
    assert names[0] == "import" and names[-1] == "build" and "fuse" in names
    rows = json.loads(tenon("compile", "--list-passes", "--json").stdout)
    assert [row["name"] for row in rows] == names and all(row["what"] for row in rows)


def test_json_alone_is_on_standard_output(tenon, model):
    made = tenon("compile", model, "--json", "--dump=all", "--time")
    assert json.loads(made.stdout)["kernels"] == 1 and "05-cse" in made.stderr
    stopped = tenon("compile", model, "--json", "--stop-after=lower")
    assert json.loads(stopped.stdout)["stopped_after"] == "lower"


def test_options_without_effect_are_refused(tenon, model, built):
    tenon.fails(USAGE, "compile", model, "--dump-dir", "d", says=["--dump-dir", "--dump=all"])
    tenon.fails(USAGE, "bench", built, "--target", "generic", says=["--target", "compiled already"])
    tenon.fails(USAGE, "run", built, "--dim", "bath=2", says=["--dim bath", "tenon inspect"])


def test_the_output_may_not_be_the_model(tenon, model):
    before = Path(model).read_bytes()
    tenon.fails(USAGE, "compile", model, "-o", model, says="replace the model")
    link = tenon.folder / "link.so"
    link.symlink_to(model)
    tenon.fails(USAGE, "compile", link, "-o", model, says="replace the model")
    tenon.fails(USAGE, "explain", model, "--html", model, says="the page would replace the model")
    assert Path(model).read_bytes() == before


def test_an_artefact_is_known_by_its_contents(tenon, built):
    other = tenon.folder / "model"
    other.write_bytes(built.read_bytes())
    assert tenon("run", other, "--dim", "batch=2").returncode == OK
    tenon.fails(MODEL, "compile", other, "-o", "x.so", says="compiled already")


def test_dim_sizes_the_inputs_of_text(tenon):
    text = tenon.folder / "m.tn"
    text.write_text("graph @m(%x: f32[n, 4]) -> (%y) {\n  %y: f32[n, 4] = relu(%x)\n}\n")
    assert "f32[3, 4]" in tenon("run", text, "--dim", "n=3").stdout
    assert tenon("verify", text, "--shape", "x=5x4").returncode == OK
    tenon.fails(USAGE, "run", text, "--dim", "m=3", says="--dim m")
    tenon.fails(USAGE, "compile", text, "--shape", "x=3x4", says=["m.tn", "--dim"])


def test_dim_fixes_symbols_of_text(tenon):
    """In the model, its branches and its nests; not in functions, whose symbols are their own."""
    text = tenon.folder / "m.tn"
    text.write_text("graph @f(%x: f32[n]) -> (%y) {\n  %y: f32[n] = relu(%x)\n}\n"
                    "graph @m(%x: f32[n, 4], %z: f32[7]) -> (%y, %w) {\n  symbol n from 1 to 8\n"
                    "  %y: f32[n, 4] = call(%x)\n    nest own(x: f32[n, 4]) -> (o: f32[n, 4]) { o[i, j] = x[i, j] * f32(n) }\n"
                    "  %w: f32[7] = call @f(%z) with [n = 7]\n}\n")
    done = tenon("compile", text, "--dim", "n=3", "-o", "m.so")
    assert done.returncode == OK, done.stderr
    assert re.search(r"x +f32\[3, 4\]", tenon("inspect", "m.so").stdout)
    tenon.fails(USAGE, "compile", text, "--dim", "m=3", says=["m.tn", "--dim m: no input has a dimension"])
    tenon.fails(MODEL, "compile", text, "--dim", "n=9", says="--dim n=9: the model has it from 1 to 8")


@pytest.mark.parametrize("steps, line, says", [
    ("split i by 0 -> a b", 3, "12: error: split: a positive number is expected, found `0`"),
    ("splitt i by 2 -> a b", 3, "1: error: no step of a schedule is called `splitt`; there are split,"),
    ("; first\n\norder i j, run i j vectr", 5, "20: error: run: a word such as serial, unroll, vector or parallel is expected, found `vectr`"),
    ("order i j\nrun i vector", 4, "1: kernel relu: error: its schedule does not fit: step 2, `run i vector`: i cannot be the lanes"),
    ("hold o in i", 3, "8: error: hold: expected `at`, found `in`; the form is: hold L"),
])
def test_schedule_errors_say_where_once(tenon, steps, line, says):
    """In a file of choices, and in a text that was dumped and changed."""
    text, choices = tenon.folder / "m.tn", tenon.folder / "m.choices"
    text.write_text("graph @m(%x: f32[8, 4]) -> (%y) {\n  %y: f32[8, 4] = relu(%x)\n}\n")
    choices.write_text(f"%y {{\n\n{steps}\n}}\n")
    done = tenon("compile", text, "--choices", choices, "-o", "m.so")
    assert done.returncode in (USAGE, MODEL) and done.stderr.count(" error: ") == 1, done.stderr
    assert f"m.choices:{line}:{says}" in done.stderr, done.stderr
    dump = tenon("compile", text, "--dump=choose", "--stop-after=choose").stdout
    begin, rest = dump.split("schedule {\n", 1)
    text.write_text(f"{begin}schedule {{\n{steps}\n{rest[rest.index('}'):]}")
    done = tenon("compile", text, "-o", "m.so")
    line += begin.count("\n") - 1
    assert done.stderr.count(" error: ") == 1 and f"m.tn:{line}:{says}" in done.stderr, done.stderr


def test_dim_of_text_with_programs_for_some_sizes_is_refused(tenon, model):
    assert tenon("compile", model, "--dump=choose", "--dump-dir", "d", "-o", "x.so").returncode == OK
    assert "variant batch" in (dump := next((tenon.folder / "work/d").iterdir())).read_text()
    tenon.fails(MODEL, "compile", dump, "--dim", "batch=3", says=["--dim gives batch one size", "before choose"])


# ---- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["compile", "run", "bench", "inspect", "verify"])
def test_a_missing_model_is_named(tenon, verb):
    tenon.fails(USAGE, verb, "nowhere.onnx", says=["nowhere.onnx", "No such file"])


def test_a_folder_is_no_model(tenon):
    tenon.fails(USAGE, "compile", tenon.folder, "-o", "x.so", says="folder")


def test_garbage_is_a_bad_model(tenon):
    path = tenon.folder / "garbage.onnx"
    path.write_bytes(bytes(range(256)) * 40)
    for verb in ("compile", "inspect"):
        done = tenon(verb, path)
        assert done.returncode == MODEL, done.stderr
        assert "garbage.onnx" in done.stderr


def test_every_cut_of_a_model_is_refused(tenon, model):
    whole = model.read_bytes()
    cut = tenon.folder / "cut.onnx"
    for n in range(0, len(whole), max(1, len(whole) // 12)):
        cut.write_bytes(whole[:n])
        done = tenon("inspect", cut)
        assert done.returncode in (MODEL, UNSUPPORTED, USAGE), (n, done.returncode, done.stderr)
        assert done.stderr


def test_an_unknown_operator_is_unsupported_and_inspect_lists_it(tenon):
    path = small_model(tenon.folder / "odd.onnx", op="FrobnicateTensor")
    tenon.fails(UNSUPPORTED, "compile", path, "-o", "odd.so", says="FrobnicateTensor")
    assert not (tenon.folder / "work" / "odd.so").exists()
    done = tenon("inspect", path)
    assert done.returncode == OK, done.stderr
    assert "FrobnicateTensor" in done.stdout and "unsupported" in done.stdout
    told = json.loads(tenon("inspect", path, "--json").stdout)
    assert len(told["unsupported"]) == 1
    assert "last" in told["unsupported"][0]["node"] and "FrobnicateTensor" in told["unsupported"][0]["reason"]


def test_an_artefact_must_be_one(tenon, built):
    short = tenon.folder / "short.so"
    whole = built.read_bytes()
    for data in (b"", b"not a library", whole[: len(whole) // 2], whole[:-1]):
        short.write_bytes(data)
        done = tenon("run", short)
        assert done.returncode == MODEL, (len(data), done.returncode, done.stderr)
        assert "short.so" in done.stderr


def test_output_in_a_folder_that_is_not_there(tenon, model):
    tenon.fails(USAGE, "compile", model, "-o", "no/such/folder/m.so", says=["no/such/folder"])


def test_output_where_a_folder_stands(tenon, model):
    (tenon.folder / "work" / "m.so").mkdir()
    tenon.fails(USAGE, "compile", model, "-o", "m.so", says="m.so")


def test_a_file_size_limit_is_reported_and_leaves_nothing(tenon, model):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    tenon.fails(LIMIT, "compile", model, "-o", "m.so", limit=small_files)
    assert list((tenon.folder / "work").iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_standard_output_is_an_error(tenon):
    with open("/dev/full", "w") as full:
        tenon.fails(LIMIT, "--help", stdout=full, says="standard output")


def test_a_failed_compilation_leaves_the_old_output(tenon, model):
    out = tenon.folder / "work" / "m.so"
    out.write_text("precious")
    tenon.fails(TOOLCHAIN, "compile", model, "-o", "m.so", "--cc", "no-such-cc")
    assert out.read_text() == "precious"


# ---- compiler and cache ------------------------------------------------------------------------------


def test_a_missing_compiler_says_what_to_install(tenon, model):
    tenon.fails(TOOLCHAIN, "compile", model, "-o", "m.so", "--cc", "no-such-cc", says=["no-such-cc (not found)", "apt install gcc", "--cc"])
    tenon.fails(TOOLCHAIN, "compile", model, "-o", "m.so", env={"CC": "no-such-cc"}, says="no-such-cc")
    tenon.fails(TOOLCHAIN, "compile", model, "-o", "m.so", env={"PATH": str(tenon.folder)}, says=["cc (not found)", "clang (not found)"])


def test_a_failing_compiler_shows_what_it_said(tenon, model):
    broken = tenon.folder / "broken-cc"
    broken.write_text('#!/bin/sh\ncase " $* " in *" -dM "*) exec cc "$@";; *) echo "cannot do this today" >&2; exit 1;; esac\n')
    broken.chmod(0o755)
    # Others compile for it; that none links shows that the one which was named does.
    done = tenon.fails(TOOLCHAIN, "compile", model, "-o", "m.so", "--cc", broken, says=["linking: the compiler", "cannot do this today"])
    assert "unit \"" in done.stderr
    alone = {"PATH": str(tenon.folder / "bin")}             # no other compiler is there
    (tenon.folder / "bin").mkdir()
    broken.write_text(broken.read_text().replace("exec cc", f"exec {shutil.which('cc')}").replace("echo", "/bin/echo"))
    done = tenon.fails(TOOLCHAIN, "compile", model, "-o", "m.so", "--cc", broken, "--no-cache", env=alone,
                       says=["unit \"", "failed, with fewer optimisations too:", "cannot do this today"])
    assert done.stderr.count("error:") == 1 and "note:" not in done.stderr


def test_a_unit_that_does_not_compile_is_compiled_otherwise(tenon, model):
    """A compiler whose optimiser has a fault: the model runs all the same, and one line for each unit says why it may be slower."""
    faulty = tenon.folder / "faulty-cc"
    faulty.write_text('#!/bin/sh\nfor a; do case $a in -O*) o=$a;; esac; done\ncase " $* $o" in *" -c "*-O2) echo "a.c:1: internal compiler error: today" >&2; exit 4;; esac\nexec cc "$@"\n')
    faulty.chmod(0o755)
    done = tenon("verify", model, "--dim", "batch=3", "--cc", faulty)
    assert done.returncode == OK, done.stderr
    notes = done.stderr.splitlines()
    assert notes and all(re.fullmatch(r'tenon: note: unit ".+": the compiler .+ failed: internal compiler error: today\. '
                                      r'It was compiled with -O1 by .+ instead and may run slower; please report it', n) for n in notes), done.stderr


def test_names_with_blanks_and_quotes_reach_no_shell(tenon, model):
    done = tenon("compile", model, "-o", "a name; touch owned $(touch owned).so")
    assert done.returncode == OK, done.stderr
    assert sorted(p.name for p in (tenon.folder / "work").iterdir()) == ["a name; touch owned $(touch owned).so"]


def test_the_second_compilation_compiles_nothing(tenon, model):
    first = json.loads(tenon("compile", model, "-o", "m.so", "--json").stdout)
    again = json.loads(tenon("compile", model, "-o", "m.so", "--json").stdout)
    assert first["compiled_units"] > 0 and first["cached_units"] == 0
    assert again["compiled_units"] == 0 and again["cached_units"] == first["compiled_units"]


def test_a_cache_that_cannot_be_written_is_a_note(tenon, model):
    (tenon.folder / "cache").write_text("in the way")
    done = tenon("compile", model, "-o", "m.so")
    assert done.returncode == OK, done.stderr
    assert done.stderr.count("note:") == 1 and "cache" in done.stderr
    assert (tenon.folder / "work" / "m.so").exists()


def test_cache_tells_and_clears(tenon, model):
    assert tenon("compile", model, "-o", "m.so").returncode == OK
    told = json.loads(tenon("cache", "--json").stdout)
    assert told["files"] > 0 and told["bytes"] > 0 and told["folder"] == str(tenon.folder / "cache")
    assert tenon("cache", "--clear").returncode == OK
    assert json.loads(tenon("cache", "--json").stdout)["files"] == 0


def test_no_cache_leaves_no_cache(tenon, model):
    assert tenon("compile", model, "-o", "m.so", "--no-cache").returncode == OK
    assert not (tenon.folder / "cache").exists()
    tenon.leaves_nothing()


# ---- running ---------------------------------------------------------------------------------------------


def numbers(rows=2):
    return np.linspace(-1, 1, rows * 4, dtype=np.float32).reshape(rows, 4)


def expected(x):
    return np.maximum(x @ (np.arange(12, dtype=np.float32).reshape(4, 3) - 5), 0)


def test_a_report_goes_into_a_pipe(tenon, built):
    """What is no file is written to, as a device is, and stays what it is."""
    pipe = tenon.folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        done = tenon("bench", built, "--iterations", 2, "--dim", "batch=1", "--json", pipe)
        assert done.returncode == OK, done.stderr
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert json.loads(reader.communicate()[0])


def test_outputs_of_like_names_have_files_of_their_own(tenon):
    names = ["a:0", "a_0", "a/0", "a_0_2", 1000 * "b", 1001 * "b", "\u03b1", "\u03b2"]
    nodes = [helper.make_node("Add", ["x", f"c{i}"], [name]) for i, name in enumerate(names)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in names]
    added = [numpy_helper.from_array(np.float32(i), f"c{i}") for i in range(len(names))]
    graph = helper.make_graph(nodes, "like", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])], outputs, added)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, tenon.folder / "like.onnx")
    np.save(tenon.folder / "x.npy", np.float32([1, 2]))
    done = tenon("run", tenon.folder / "like.onnx", f"--input=x=@{tenon.folder / 'x.npy'}", "--output-dir", "out")
    assert done.returncode == OK, done.stderr
    files = ["a_0", "a_0_2", "a_0_3", "a_0_2_2", 200 * "b", 200 * "b" + "_2", "__", "___2"]
    assert sorted(p.stem for p in (tenon.folder / "work" / "out").iterdir()) == sorted(files)
    for i, name in enumerate(files):
        np.testing.assert_array_equal(np.load(tenon.folder / "work" / "out" / f"{name}.npy"), [1 + i, 2 + i])


def test_outputs_are_files_with_fit_names(tenon, built):
    x = tenon.folder / "x.npy"
    np.save(x, numbers())
    done = tenon("run", built, f"--input=x=@{x}", "--output-dir", "made/here")
    assert done.returncode == OK, done.stderr
    out = tenon.folder / "work" / "made" / "here"
    assert [p.name for p in out.iterdir()] == ["y_out_0.npy"]
    np.testing.assert_allclose(np.load(out / "y_out_0.npy"), expected(numbers()), rtol=1e-5, atol=1e-6)
    tenon.fails(USAGE, "run", built, f"--input=x=@{x}", "--output-dir", "", says="--output-dir")


def test_expect_agrees_and_differs(tenon, built):
    x, y = tenon.folder / "x.npy", tenon.folder / "y.npy"
    np.save(x, numbers())
    np.save(y, expected(numbers()))
    assert tenon("run", built, "--input", f"x=@{x}", "--expect", f"y/out:0=@{y}").returncode == OK
    np.save(y, expected(numbers()) + 0.01)
    done = tenon("run", built, "--input", f"x=@{x}", "--expect", f"y/out:0=@{y}")
    assert done.returncode == DIFFERS and "differs" in done.stdout
    assert tenon("run", built, "--input", f"x=@{x}", "--expect", f"y/out:0=@{y}", "--atol", "0.1").returncode == OK
    done = tenon("run", built, "--input", f"x=@{x}", "--expect", f"y/out:0=@{y}", "--json")
    out = json.loads(done.stdout)["outputs"][0]
    assert done.returncode == DIFFERS and out["agrees"] is False and 0.009 < out["max_abs"] < 0.011
    np.save(y, expected(numbers())[:1])
    tenon.fails(USAGE, "run", built, "--input", f"x=@{x}", "--expect", f"y/out:0=@{y}", says=["y.npy", "f32[1, 3]", "f32[2, 3]"])


def test_onnx_test_data_folder(tenon, built):
    data = tenon.folder / "test_data_set_0"
    data.mkdir()
    (data / "input_0.pb").write_bytes(numpy_helper.from_array(numbers(3), "x").SerializeToString())
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(expected(numbers(3)), "y/out:0").SerializeToString())
    assert tenon("run", built, "--data", data).returncode == OK
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(expected(numbers(3)) + 1, "y/out:0").SerializeToString())
    assert tenon("run", built, "--data", data).returncode == DIFFERS
    tenon.fails(USAGE, "run", built, "--data", tenon.folder / "tmp", says="input_0.pb")


def test_npz_members(tenon, built):
    path = tenon.folder / "both.npz"
    np.savez(path, images=numbers())
    assert tenon("run", built, "--input", f"x=@{path}:images").returncode == OK
    assert "nothing" in tenon.fails(USAGE, "run", built, "--input", f"x=@{path}:nothing").stderr


@pytest.mark.parametrize("array, says", [
    (np.zeros((2, 4), np.float64), ["f64", "f32"]),
    (np.zeros((2, 4, 1), np.float32), ["x"]),
    (np.zeros((2, 5), np.float32), ["x", "5", "4"]),
])
def test_wrong_inputs_name_both_sides(tenon, built, array, says):
    x = tenon.folder / "x.npy"
    np.save(x, array)
    tenon.fails(USAGE, "run", built, "--input", f"x=@{x}", says=says)


def test_messages_name_the_model_not_a_temporary_file(tenon, model):
    x = tenon.folder / "x.npy"
    np.save(x, numbers()[:, :2])
    done = tenon.fails(USAGE, "run", model, "--input", f"x=@{x}", says=[f"{model}: error: input \"x\""])
    assert "model.so" not in done.stderr


@pytest.fixture
def defaults(tenon):
    """y = x * w + b, where w and b are inputs with values of their own, and c is a constant."""
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xwby"]
    nodes = [helper.make_node("Mul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["g"]), helper.make_node("Add", ["g", "c"], ["y"])]
    values = [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("w", [2, 3]), ("b", [10, 20]), ("c", [0, 0]))]
    model = helper.make_model(helper.make_graph(nodes, "defaults", info[:3], info[3:], values), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tenon.folder / "defaults.onnx")
    for name, x in (("x", [1, 1]), ("w", [5, 6])):
        np.save(tenon.folder / f"{name}.npy", np.array(x, np.float32))
    return tenon.folder / "defaults.onnx"


def result(tenon, *args):
    done = tenon("run", *args, "--output-dir", tenon.folder / "out")
    assert done.returncode == OK, done.stderr
    return np.load(tenon.folder / "out" / "y.npy").tolist()


def test_a_default_is_taken_unless_it_is_given(tenon, defaults):
    x, w = (["--input", f"{n}=@{tenon.folder / n}.npy"] for n in "xw")
    assert result(tenon, defaults, *x) == [12, 23]
    assert result(tenon, defaults, *x, *w) == [15, 26]
    built = tenon.folder / "built.so"
    assert tenon("compile", defaults, "-o", built).returncode == OK
    assert result(tenon, built, *x) == [12, 23]
    tenon.fails(USAGE, "run", built, *x, *w, says=["--input w: the model has no such input", "--given w"])
    assert tenon("compile", defaults, "--given", "w", "-o", built).returncode == OK
    assert result(tenon, built, *x, *w) == [15, 26]
    assert tenon("compile", defaults, "--given", "*", "-o", built).returncode == OK
    assert " b " in tenon("inspect", built).stdout


def test_only_what_has_a_value_can_be_given_another(tenon, defaults, model):
    for name in "cxz":
        tenon.fails(USAGE, "compile", defaults, "--given", name, says=[f"--given {name}", "such are w, b"])
    tenon.fails(USAGE, "compile", model, "--given", "w", says=["--given w", "nor another"])


def test_wrong_names_list_the_right_ones(tenon, built):
    x = tenon.folder / "x.npy"
    np.save(x, numbers())
    tenon.fails(USAGE, "run", built, "--input", f"z=@{x}", says=["z", "no such input", " x"])
    tenon.fails(USAGE, "run", built, "--expect", f"z=@{x}", says=["z", "no such output", "y/out:0"])
    tenon.fails(USAGE, "run", built, "--shape", "x=2x5", says=["5", "4"])


def test_a_broken_npy_is_refused(tenon, built):
    x = tenon.folder / "x.npy"
    np.save(x, numbers())
    whole = x.read_bytes()
    for data in (b"", whole[:20], whole[:-4], b"\x93NUMPY\x07\x00" + whole[8:]):
        x.write_bytes(data)
        tenon.fails(USAGE, "run", built, "--input", f"x=@{x}", says="x.npy")


def test_free_dimensions_are_one_and_said_so(tenon, built):
    done = tenon("run", built)
    assert done.returncode == OK and "batch" in done.stderr and "taken as 1" in done.stderr
    assert "f32[1, 3]" in done.stdout
    done = tenon("run", built, "--dim", "batch=5")
    assert "f32[5, 3]" in done.stdout and done.stderr == ""


def test_sizes_that_contradict_each_other_are_refused(tenon):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Concat", ["u", "u"], ["d"], axis=0), helper.make_node("Add", ["d", "v"], ["w"])]
    value = lambda name, *dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)    # noqa: E731
    graph = helper.make_graph(nodes, "sizes", [value("x", "n", "n"), value("u", "m", 3), value("v", "k", 3)], [value("y", "n", "n"), value("w", "k", 3)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tenon.folder / "work" / "sizes.onnx")
    assert tenon("compile", "sizes.onnx", "-o", "sizes.so").returncode == OK
    np.save(tenon.folder / "work" / "x.npy", np.ones((4, 4), np.float32))
    for model in ("sizes.so", "sizes.onnx"):
        for verb in ("run", "bench") if model == "sizes.so" else ("run", "bench", "verify", "compile"):
            for says, shapes in ((("--shape x", "dimension 1", "3", "n is 2"), ["x=2x3"]), (("--shape u", "dimension 1", "4", "3"), ["u=2x4"])):
                shapes = [a for s in shapes for a in ("-s", s)] + (["-o", "other.so"] if verb == "compile" else [])
                done = tenon(verb, model, *shapes)
                assert done.returncode == USAGE, (verb, model, done.stdout, done.stderr)
                assert all(part in done.stderr for part in says), done.stderr
    for sizes, says in ((["-s", "u=2x3", "-s", "v=5x3"], "2*m == k, or one of them is 1; here the sides are 4 and 5"), (["--input", "x=@x.npy", "-s", "x=3x3"], "n is 4 as dimension 0 of input x"),
                        (["--dim", "n=5", "-s", "x=3x3"], "--dim n=5")):
        done = tenon("run", "sizes.so", *sizes)
        assert done.returncode == USAGE and says in done.stderr, done.stderr
    assert tenon("run", "sizes.so", "-s", "x=3x3", "-s", "u=2x3", "-s", "v=4x3").returncode == OK


def test_random_inputs_follow_the_seed(tenon, built):
    runs = [tenon("run", built, "--seed", s).stdout for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_run_compiles_onnx_and_leaves_nothing(tenon, model):
    done = tenon("run", model, "--dim", "batch=2")
    assert done.returncode == OK, done.stderr
    assert "f32[2, 3]" in done.stdout
    tenon.leaves_nothing()
    assert list((tenon.folder / "work").iterdir()) == []


def test_verify_agrees(tenon, model):
    done = tenon("verify", model, "--dim", "batch=3")
    assert done.returncode == OK, done.stderr
    assert "y/out:0: agrees" in done.stdout


def test_bench_json_has_every_number(tenon, built):
    done = tenon("bench", built, "--iterations", 20, "--threads", 1, "--json", "t.json")
    assert done.returncode == OK, done.stderr
    told = json.loads((tenon.folder / "work" / "t.json").read_text())
    assert told["iterations"] == 20 and told["threads"] == 1
    times = [told[k] for k in ("min_ms", "median_ms", "p90_ms", "p99_ms", "max_ms")]
    assert times == sorted(times) and told["min_ms"] <= told["mean_ms"] <= told["max_ms"]
    assert json.loads(tenon("bench", built, "--iterations", 3, "--json=-").stdout)["iterations"] == 3


def test_bench_tells_throughput_memory_and_loading(tenon, built):
    told = json.loads(tenon("bench", built, "--iterations", 20, "--threads", 1, "--json=-").stdout)
    assert told["runs_per_second"] == pytest.approx(1e3 / told["mean_ms"], rel=1e-2)
    assert 0 < told["load_ms"] < 5000 and told["first_ms"] > 0 and told["arena_bytes"] >= 0
    assert 1 << 20 < told["resident_bytes"] < 1 << 30
    said = tenon("bench", built, "--iterations", 20, "--threads", 1).stdout
    for part in ("runs/s", "loaded in", "first run", "arena", "resident"):
        assert part in said


def test_bench_on_several_numbers_of_threads(tenon, built):
    told = json.loads(tenon("bench", built, "--iterations", 6, "-t", "1,2,3", "--json=-").stdout)["results"]
    assert [(r["threads"], r["iterations"]) for r in told] == [(1, 6), (2, 6), (3, 6)]
    for wrong in ("1,", "1,,2", "0", "two", "1;2"):
        tenon.fails(USAGE, "bench", built, "--threads", wrong, says="with commas between")
    tenon.fails(USAGE, "bench", built, "--threads", 2**32 + 1, says="at most 2147483647")
    tenon.fails(USAGE, "bench", built, "--threads", "1,2", "--profile", says="one number of threads")


def test_bench_of_two_models_in_turn(tenon, built):
    shutil.copy(built, tenon.folder / "work" / "B.so")
    slow = small_model(tenon.folder / "slow.onnx")
    told = json.loads(tenon("bench", "--compare", slow, "B.so", "--iterations", 30, "-t", "1", "--dim", "batch=64", "--json=-").stdout)["results"]
    first, second = told
    assert first["model"] == str(slow) and second["model"] == "B.so" and first["speed"] == 1
    assert second["speed"] == pytest.approx(first["median_ms"] / second["median_ms"], rel=1e-2)
    said = tenon("bench", "B.so", "--compare", built, "--iterations", 5, "-t", "1,2").stdout
    assert len(re.findall(r"^on \d threads? B.so is [\d.]+ times as fast as .*small.so$", said, re.M)) == 2
    tenon.fails(USAGE, "bench", "B.so", "--compare", "no.so", says="no.so")
    tenon.fails(USAGE, "bench", "B.so", "--compare", built, "--trace", "t", says="leave out --compare")


def test_bench_profile_and_trace(tenon, built):
    done = tenon("bench", built, "--iterations", 20, "--threads", 1, "--dim", "batch=3", "--profile", "--json", "t.json", "--trace", "t.trace")
    assert done.returncode == OK, done.stderr
    told = json.loads((tenon.folder / "work" / "t.json").read_text())
    assert told["median_ms"] > 0 and told["kernels"]
    assert {"name", "calls", "ms", "share", "gflops", "gbps", "roof", "predicted_ms"} <= set(told["kernels"][0])
    assert abs(sum(k["share"] for k in told["kernels"]) - 1) < 1e-3
    assert all(0 < k["roof"] and k["calls"] >= 1 for k in told["kernels"])
    assert [k["ms"] for k in told["kernels"]] == sorted((k["ms"] for k in told["kernels"]), reverse=True)
    product = next(k for k in told["kernels"] if 'MatMul "product"' in k["origin"])
    assert product["operations"] >= 2 * 3 * 4 * 3 and product["bytes"] == 4 * (3 * 4 + 4 * 3 + 3 * 3)
    assert product["name"] in done.stdout and "GFLOP/s" in done.stdout
    events = json.loads((tenon.folder / "work" / "t.trace").read_text())["traceEvents"]
    assert len(events) == 20 * len(told["kernels"]) and {e["name"] for e in events} == {k["name"] for k in told["kernels"]}
    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events) and all(e["dur"] >= 0 for e in events)
    # without a profile there is none
    assert "kernels" not in json.loads(tenon("bench", built, "--iterations", 3, "--json=-").stdout)


# ---- what one can look at ----------------------------------------------------------------------------------


def test_inspect_of_model_text_and_artefact(tenon, model, built):
    told = json.loads(tenon("inspect", model, "--json").stdout)
    assert told["kind"] == "ONNX" and told["opset"] == 17 and told["producer"] == "test"
    assert told["inputs"] == [{"name": "x", "type": "f32[batch, 4]"}] and told["symbols"] == ["batch"]
    assert told["operators"] == {"MatMul": 1, "Relu": 1} and told["unsupported"] == [] and told["weights_bytes"] == 48
    told = json.loads(tenon("inspect", built, "--json").stdout)
    assert told["kind"] == "artefact" and told["inputs"][0]["type"] == "f32[batch, 4]" and told["kernels"]
    assert "f32[batch, 4]" in tenon("inspect", model).stdout


def test_inspect_counts_what_branches_hold(tenon):
    power = ROOT / "examples/power/power.onnx"
    told = json.loads(tenon("inspect", power, "--json").stdout)
    assert told["nodes"] == 8 and told["inner_nodes"] == 6 and told["operators"]["MatMul"] == 1
    assert "operators    8 nodes, 6 of them in branches" in tenon("inspect", power).stdout
    assert tenon("compile", power, "--dump=dce", "--dump-dir", "d", "--stop-after=dce").returncode == OK
    told = json.loads(tenon("inspect", next((tenon.folder / "work/d").iterdir()), "--json").stdout)
    assert told["inner_nodes"] > 0 and told["operators"]["matmul"] == 1
    # weights of a branch
    w = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    def branch(op): return helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node(op, ["h"], ["z"])], op, [],      # noqa: E704
                                             [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)], [w])
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"))], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tenon.folder / "if.onnx")
    told = json.loads(tenon("inspect", tenon.folder / "if.onnx", "--json").stdout)
    assert told["nodes"] == 5 and told["inner_nodes"] == 4 and told["weights_bytes"] == 96
    assert told["operators"] == {"MatMul": 2, "If": 1, "Neg": 1, "Relu": 1}


def test_what_repeats_is_told_once(tenon, tmp_path):
    """Layers that differ in their numbers; what does not go on evenly, or comes twice, stands as it is."""
    inputs = [f'%"layer.{i}.{what}": f32[n, {7 + 2 * i}]' for i in range(4) for what in ("key", "value")]
    inputs += [f'%"{name}": f32[n]' for name in ("a.1", "a.2", "a.5", "b.01", "b.02", "b.03")]
    (tmp_path / "m.tn").write_text(f"graph @m({', '.join(inputs)}) -> (%y) {{\n  %y: f32[n] = relu(%\"a.1\")\n}}\n")
    told = tenon("inspect", tmp_path / "m.tn").stdout
    assert re.findall(r"(\S+) +f32\[(.*)\]", told) == [("layer.{0..3}.key", "n, {7..13..2}"), ("layer.{0..3}.value", "n, {7..13..2}"), ("a.1", "n"), ("a.2", "n"),
                                                    ("a.5", "n"), ("b.01", "n"), ("b.02", "n"), ("b.03", "n"), ("y", "n")], told
    assert len(json.loads(tenon("inspect", tmp_path / "m.tn", "--json").stdout)["inputs"]) == 14


def test_dumps_of_all_stages_compile_again(tenon, model):
    done = tenon("compile", model, "-o", "m.so", "--dump=all", "--dump-dir", "dumps")
    assert done.returncode == OK, done.stderr
    dumps = sorted((tenon.folder / "work" / "dumps").iterdir())
    stages = [line.split()[1] for line in tenon("compile", "--list-passes").stdout.splitlines()]
    assert len([d for d in dumps if d.suffix != ".weights"]) == len(stages)
    for d in dumps:
        if d.suffix != ".tn" or d.read_text().startswith("; unchanged"):
            continue
        done = tenon("verify", d)
        assert done.returncode == OK, (d.name, done.stderr)


def test_dump_to_standard_output(tenon, model):
    done = tenon("compile", model, "--dump", "lower", "--stop-after", "lower")
    assert done.returncode == OK and "nest " in done.stdout


def test_emitted_c_compiles_and_is_commented(tenon, model):
    assert tenon("compile", model, "--emit", "c", "-o", "m.c").returncode == OK
    text = (tenon.folder / "work" / "m.c").read_text()
    assert "product" in text and "last" in text
    done = subprocess.run(["cc", "-std=gnu17", "-O1", "-Wall", "-Werror", "-march=native", "-shared", "-fPIC", "m.c", "-o", "c.so", "-lm"],
                          cwd=tenon.folder / "work", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


OWN_PROGRAM = r"""
#include "m.c"
#include <stdio.h>
#include <stdlib.h>

int
main(void)
{
    const TnManifest *m = tenon_manifest();
    float x[8] = { 1, 2, 3, 4, -1, -2, -3, -4 }, y[6];
    int64_t in_dims[] = { 2, 4 }, sym[1], out_dims[2];
    const int64_t *dims[] = { in_dims };
    const void *inputs[] = { x };
    void *outputs[] = { y };
    TnSizes sizes = { sizeof sizes };
    TnFault fault = { 0 };
    TnHost host = { sizeof host };
    if (m->prepare(dims, sym, out_dims, &sizes, &fault))
        return 1;
    host.scratch = aligned_alloc(64, (size_t)(sizes.scratch_bytes + 64) & ~(size_t)63);
    void *arena = aligned_alloc(64, (size_t)(sizes.arena_bytes + 64) & ~(size_t)63);
    TnFrame frame = { sizeof frame, inputs, outputs, NULL, arena, sym, &host, &fault };
    if (m->run(&frame))
        return 2;
    for (int i = 0; i < out_dims[0] * out_dims[1]; i++)
        printf("%g ", y[i]);
    return 0;
}
"""


def test_emitted_c_runs_in_a_program_of_ones_own(tenon, model):
    work = tenon.folder / "work"
    assert tenon("compile", model, "--emit=c", "-o", "m.c").returncode == OK
    (work / "own.c").write_text(OWN_PROGRAM)
    subprocess.run(["cc", "-std=gnu17", "-O1", "-march=native", "own.c", "-o", "own", "-lm"], cwd=work, check=True)
    done = subprocess.run(["./own"], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0
    x = np.array([[1, 2, 3, 4], [-1, -2, -3, -4]], np.float32)
    np.testing.assert_allclose(np.array(done.stdout.split(), np.float32).reshape(2, 3), expected(x), rtol=1e-5)


def test_many_weights_lie_beside_the_c_file(tenon):
    w = numpy_helper.from_array(np.ones((512, 600), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "wide",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 512])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 600])], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, tenon.folder / "wide.onnx")
    assert tenon("compile", tenon.folder / "wide.onnx", "--emit=c", "-o", "wide.c").returncode == OK
    assert sorted(p.name for p in (tenon.folder / "work").iterdir()) == ["wide.c", "wide.h", "wide.weights"]
    text = (tenon.folder / "work" / "wide.c").read_text()
    assert "wide.weights" in text and len(text) < 500_000
    assert (tenon.folder / "work" / "wide.weights").stat().st_size >= 512 * 600 * 4


def test_hostile_names_stay_inside_comments(tenon):
    path = tenon.folder / "hostile.onnx"
    name = 'a */ #error "escaped" /* b\n#error second'
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name=name)], name,
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    assert tenon("compile", path, "-o", "m.so").returncode == OK
    assert tenon("compile", path, "--emit=c", "-o", "m.c").returncode == OK
    done = subprocess.run(["cc", "-std=gnu17", "-fsyntax-only", "-march=native", "m.c"], cwd=tenon.folder / "work", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_time_lists_the_stages(tenon, model):
    done = tenon("compile", model, "-o", "m.so", "--time")
    assert re.search(r"^import +\d+\.\d+ s$", done.stdout, re.M) and re.search(r"^all ", done.stdout, re.M)
    assert re.search(r"^proofs +\d+ questions about sizes, \d+ left open; of these \d+ held at all sizes tried$", done.stdout, re.M)


def test_memory_limit_is_named(tenon, model):
    tenon.fails(LIMIT, "compile", model, "-o", "m.so", "--max-memory", "4K", says="--max-memory")


def test_progress_is_shown_on_a_terminal(tenon, model):
    """A slow compiler: the stage and the seconds, on one line that is gone at the end."""
    slow = tenon.folder / "slow-cc"
    slow.write_text('#!/bin/sh\ncase "$*" in *" -c "*) sleep 1.5;; esac\nexec cc "$@"\n')
    slow.chmod(0o755)
    try:
        master, terminal = os.openpty()
    except OSError:
        pytest.skip("this system has no terminals")
    done = subprocess.run([TENON, "compile", model, "-o", "m.so", "--cc", slow], cwd=tenon.folder / "work", env=tenon.env, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    said = os.read(master, 1 << 16).decode()
    os.close(master)
    assert done.returncode == OK and said.startswith("\r\033[K") and said.endswith("\r\033[K"), said
    assert re.search(r"\r\033\[K(kernels built: \d+ of \d+|stage build: 16 of 16), \d+ s", said), said


def test_nothing_is_shown_of_progress_when_piped(tenon, model):
    done = tenon("compile", model, "-o", "m.so", "--no-cache")
    assert done.stderr == "" and len(done.stdout.splitlines()) == 1


def test_sizes_outside_a_symbols_range_are_refused(tenon):
    (tenon.folder / "work" / "range.tn").write_text(
        "graph @t(%x: f32[batch, 4]) -> (%y) {\n  symbol batch from 1 to 64\n  %y: f32[batch, 4] = relu(%x)\n}\n")
    tenon("compile", "range.tn", "-o", "range.so")
    tenon.fails(USAGE, "run", "range.so", "--dim", "batch=65", says="dimension 0 (batch) is 65, at most 64")
    tenon.fails(USAGE, "run", "range.so", "--dim", "batch=0", says="dimension 0 (batch) is 0, at least 1")
    assert tenon("run", "range.so", "--dim", "batch=64").returncode == 0


# ---- machines ------------------------------------------------------------------------------------------


def test_a_machine_is_measured_written_and_used(tenon, model):
    file = tenon.folder / "here.machine"
    start = time.monotonic()
    done = tenon("machine", "-o", file)
    assert done.returncode == OK, done.stderr
    assert time.monotonic() - start < 40        # 20 where nothing disturbs; sanitizers and neighbours do
    assert "multiply-adds" in done.stdout and "kernel call" in done.stdout
    facts = dict(line.split(";")[0].split(None, 1) for line in file.read_text().splitlines() if line[0] != ";")
    assert float(facts["f32_per_second"]) > 1e8 and float(facts["l1.read"]) > float(facts["memory.read"]) > 1e8
    # reading it back measures nothing and says the same
    again = tenon("machine", "--machine", file, "-o", tenon.folder / "again.machine")
    assert again.returncode == OK and again.stdout.splitlines()[:-1] == done.stdout.splitlines()[:-1]
    assert (tenon.folder / "again.machine").read_text() == file.read_text()
    made = tenon("compile", model, "--machine", file, "-o", "m.so")
    assert made.returncode == OK and facts["target"].strip() in made.stdout
    tenon.leaves_nothing()


def test_a_roof_that_is_exceeded_says_from_cache(tenon, model):
    """Of a machine whose caches are as slow as no cache is."""
    file = tenon.folder / "slow.machine"
    file.write_text("target generic\nl1.read 1e3\nl1.write 1e3\n")
    done = tenon("bench", model, "--iterations", 5, "--threads", 1, "--profile", "--machine", file)
    assert done.returncode == OK and " cache " in done.stdout and "\nroof cache: " in done.stdout, (done.stdout, done.stderr)
    file.write_text("target generic\n")
    done = tenon("bench", model, "--iterations", 5, "--threads", 1, "--profile", "--machine", file)
    assert done.returncode == OK and "roof cache" not in done.stdout, done.stdout


def test_a_machine_file_is_checked(tenon, model):
    file = tenon.folder / "bad.machine"
    file.write_text("target x86-64-v3\nl1.raed 4e11\n")
    tenon.fails(USAGE, "compile", model, "--machine", file, says=[f"{file}:2: error: l1.raed"])
    file.write_text("target x86-64-v3\n")
    tenon.fails(USAGE, "compile", model, "--machine", file, "--target", "generic", says=["x86-64-v3", "generic", "leave one"])
    tenon.fails(USAGE, "compile", model, "--machine", tenon.folder / "none", says="none")
    tenon.fails(USAGE, "compile", model, "--cores", "5000", says="4096")
    tenon.fails(USAGE, "machine", "--target", "armv8-a" if os.uname().machine == "x86_64" else "x86-64-v3", says="cannot run")


def test_schedules_can_be_given(tenon, model):
    chosen = tenon("compile", model, "--dump=choose", "--stop-after=choose").stdout
    assert re.search(r'; %"y/out:0": \d+ programs?; [0-9.]+ [um]s', chosen), chosen
    listed = tenon("compile", model, "--dump=choose", "--stop-after=choose", "--alternatives", "2").stdout
    both = re.search(r'; %"y/out:0": \d+ programs, MatMul .*\n((?:;   [0-9.e-]+ s, alone [0-9.e-]+ s\n(?:;     .*\n)+){2})(?!;)', listed)
    assert both, listed
    file = tenon.folder / "pins"
    second = both[1].rindex("s, alone")
    steps = [line[6:] for line in both[1][second:].splitlines()[1:]]
    file.write_text('%"y/out:0" {\n' + "\n".join(steps) + "\n}\n")
    shown = tenon("compile", model, "--choices", file, "--dump=schedule", "--stop-after=schedule").stdout
    assert all(step in shown for step in steps)
    file.write_text('; one product\n%"y/out:0" {\n  hold o at j -> acc reg ; plain\n}\n')
    shown = tenon("compile", model, "--choices", file, "--dump=schedule", "--stop-after=schedule").stdout
    assert "hold o at j -> acc reg" in shown and "parallel" not in shown
    assert tenon("verify", model, "--choices", file).returncode == OK
    file.write_text('%"y/out:0" {\n  hold o at h -> acc reg\n}\n')
    tenon.fails(USAGE, "compile", model, "--choices", file, says=["step 1, `hold o at h -> acc reg`", "there is no loop h; there are i, j, k"])
    file.write_text('%"y/out:0" {\n  holt o at j -> acc reg\n}\n')
    tenon.fails(MODEL, "compile", model, "--choices", file, says=["no step of a schedule is called `holt`", "split, fuse, order"])
    file.write_text("%z {\n}\n")
    tenon.fails(USAGE, "compile", model, "--choices", file, says=[f"{file}:1: error: no kernel makes %z; kernels make %y/out:0"])
    file.write_text("hold o at j -> acc reg\n")
    tenon.fails(MODEL, "compile", model, "--choices", file, says=[f"{file}:1", "expected %NAME { steps }"])


def test_code_does_not_depend_on_where_it_is_compiled(tenon, model):
    """Neither on the processors that the compiler may use, nor on folders or time."""
    texts, artefacts = [], []
    for core in sorted(os.sched_getaffinity(0))[:1], os.sched_getaffinity(0):
        for emit, kept in ("c", texts), ("so", artefacts):
            out = tenon.folder / f"{len(core)}.{emit}"
            done = tenon("compile", model, "--emit", emit, "--target", "x86-64-v3", "--no-cache", "-o", out, limit=lambda: os.sched_setaffinity(0, core))
            assert done.returncode == OK, done.stderr
            kept.append(out.read_bytes().replace(out.name.encode(), b"NAME").replace(f"{len(core)}.so".encode(), b"NAME.so").replace(f"{len(core)}.h".encode(), b"NAME.h"))
    assert texts[0] == texts[1]
    assert artefacts[0] == artefacts[1]
    assert tenon("compile", model, "--cores", "64", "--target", "x86-64-v3", "-o", "m.so").returncode == OK


TREE = """data Tree = leaf(word: i64[]) | node(left: Tree[], right: Tree[])
graph @sum(%t: Tree[]) -> (%s: i64[]) {
  %s = case(%t)
    leaf graph @leaf(%word) -> (%word) { }
    node graph @node(%left, %right) -> (%s) {
      %a = call @sum(%left)
      %b = call @sum(%right)
      %s = add(%a, %b)
    }
}
graph @main(%t: Tree[]) -> (%s) { %s = call @sum(%t) }
"""


@pytest.mark.parametrize("verb", ["run", "verify"])
def test_trees_are_not_drawn(tenon, verb):
    """Random columns make no tree; columns that are given do."""
    model = tenon.folder / "tree.tn"
    model.write_text(TREE)
    tenon.fails(USAGE, verb, model, says=["input Tree.tag is a column of a data type", "--input"])
    columns = {"t": 2, "Tree.tag": [0, 0, 1], "Tree.word": [20, 22, 0], "Tree.left": [0] * 3, "Tree.right": [0, 0, 1]}
    given = []
    for name, x in columns.items():
        np.save(tenon.folder / f"{name}.npy", np.array(x))
        given += ["--input", f"{name}=@{tenon.folder / name}.npy"]
    done = tenon(verb, model, *given)
    assert done.returncode == OK, done.stderr
    assert verb == "verify" or "i64[] = 42" in done.stdout


def test_a_cell_that_is_missing(tenon):
    """Both the file, and where the text names it."""
    model = tenon.folder / "tree.tn"
    model.write_text(f'graph @cell =   file "nowhere.onnx"\n{TREE}')
    tenon.fails(USAGE, "compile", model, "-o", tenon.folder / "tree.so",
                says=["nowhere.onnx: error: cannot open", "tree.tn:1:22: note: graph @cell is read from that file"])
