"""One C file, `tenon compile --emit c`, in a program of its own: nothing of Tenon but its own header.

Both compilers build it without a warning, as C and as C++, and both give what ONNX Runtime gives. The shared
library built with either compiler does as well. Two models link into one program, and a frame that lacks
something is refused.
"""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
DIGITS = ROOT / "examples/digits/digits.onnx"
ALLOWED = 1e-4

MAIN = r"""
#include "tenon_abi.h"
#include <stdio.h>
#include <stdlib.h>

/* Floats from standard input to standard output: a batch of argv[1] images. */
int main(int argc, char **argv)
{
    const TnManifest *m = tenon_manifest();
    int64_t batch = argc > 1 ? atoll(argv[1]) : 1, dims[] = {batch, 1, 8, 8};
    const int64_t *input_dims[] = {dims};
    int64_t sym[8] = {0}, out_dims[8] = {0};
    TnSizes sizes = {sizeof sizes};
    TnFault fault = {0};

    if (m->abi != TENON_ABI_VERSION || m->ninput != 1 || m->noutput != 1 || m->nsymbol > 8 || m->output_rank_total != 2)
        return 2;
    if (!m->cpu_ok() || m->prepare(input_dims, sym, out_dims, &sizes, &fault))
        return 3;
    if (out_dims[0] != batch || out_dims[1] != 10)
        return 4;
    size_t nin = (size_t)batch * 64, nout = (size_t)batch * 10;
    float *in = aligned_alloc(64, (nin * 4 + 63) / 64 * 64), *out = aligned_alloc(64, (nout * 4 + 63) / 64 * 64);
    void *arena = aligned_alloc(64, (size_t)(sizes.arena_bytes + 127) / 64 * 64);
    void *scratch = aligned_alloc(64, (size_t)(sizes.scratch_bytes + 127) / 64 * 64);
    if (fread(in, 4, nin, stdin) != nin)
        return 5;
    const void *inputs[] = {in};
    void *outputs[] = {out};
    TnHost host = {.size = sizeof host, .scratch = scratch};
    TnFrame frame = {.size = sizeof frame, .inputs = inputs, .outputs = outputs, .arena = arena, .sym = sym, .host = &host, .fault = &fault};
    if (m->run(&frame))
        return 6;
    return fwrite(out, 4, nout, stdout) == nout ? 0 : 7;
}
"""


@pytest.fixture(scope="module")
def images():
    return np.load(ROOT / "examples/digits/held_out.npz")["images"]


@pytest.fixture(scope="module")
def want(images):
    return onnxruntime.InferenceSession(str(DIGITS)).run(None, {"image": images})[0]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("single")
    subprocess.run([TENON, "compile", DIGITS, "--emit", "c", "-o", folder / "digits.c"], check=True)
    (folder / "main.c").write_text(MAIN)
    return folder


def compiler(name):
    if not shutil.which(name):
        pytest.skip(f"no {name} here")
    return name


def close(got, want):
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= ALLOWED * np.abs(want).max()


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_a_program_of_its_own(source, images, want, cc):
    program = source / f"digits-{cc}"
    built = subprocess.run([compiler(cc), "-O2", "-march=native", "-Wall", "-I", ROOT / "include", "digits.c", "main.c", "-o", program, "-lm"],
                           cwd=source, capture_output=True, text=True)
    assert built.returncode == 0 and built.stderr == "", built.stderr
    for batch in (1, 7, len(images)):
        done = subprocess.run([program, str(batch)], input=images[:batch].tobytes(), capture_output=True)
        assert done.returncode == 0
        close(np.frombuffer(done.stdout, np.float32).reshape(batch, 10), want[:batch])


def test_the_file_includes_nothing_of_tenon(source):
    included = [line for line in (source / "digits.c").read_text().splitlines() if line.lstrip().startswith("#include")]
    assert all("<" in line for line in included), included


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_shared_library_of_either_compiler(tmp_path, images, want, cc):
    env = os.environ | {"CC": compiler(cc)}
    np.save(tmp_path / "x.npy", images)
    subprocess.run([TENON, "compile", DIGITS, "-o", tmp_path / "digits.so", "--no-cache"], check=True, env=env)
    subprocess.run([TENON, "run", tmp_path / "digits.so", "--input", f"image=@{tmp_path}/x.npy", "--output-dir", tmp_path], check=True)
    close(np.load(tmp_path / "probability.npy"), want)


# ---- the header, the example, C++ ------------------------------------------------------------------------------


def model_file(path, nodes, inputs, outputs, initializers=(), opset=18):
    values = [[helper.make_tensor_value_info(*v) for v in side] for side in (inputs, outputs)]
    model = helper.make_model(helper.make_graph(nodes, path.stem, *values, list(initializers)), opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def counting(path):
    """A loop whose number of turns is an input: sizes from data, memory as it goes."""
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["v", "v"], ["next"]),
                              helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0)], "body",
                             [helper.make_tensor_value_info("i", T.INT64, []), helper.make_tensor_value_info("go", T.BOOL, []),
                              helper.make_tensor_value_info("v", T.FLOAT, ["n"])],
                             [helper.make_tensor_value_info("go_on", T.BOOL, []), helper.make_tensor_value_info("next", T.FLOAT, ["n"]),
                              helper.make_tensor_value_info("sum", T.FLOAT, [])])
    yes = helper.make_tensor("yes", T.BOOL, [], [1])
    return model_file(path, [helper.make_node("Loop", ["turns", "yes", "x"], ["y", "sums"], body=body)],
                      [("turns", T.INT64, []), ("x", T.FLOAT, ["n"])], [("y", T.FLOAT, ["n"]), ("sums", T.FLOAT, ["turns_0"])], [yes])


def chain(path, dtype, *ops):
    """y = the operators one after the other, on 37 elements: full vectors and a rest."""
    names = ["x", *(f"t{i}" for i in range(len(ops) - 1)), "y"]
    return model_file(path, [helper.make_node(op, [names[i], names[0]] if op in ("Add", "Mul", "Div", "Mod", "Max") else [names[i]], [names[i + 1]])
                             for i, op in enumerate(ops)], [("x", dtype, ["n", 37])], [("y", dtype, ["n", 37])])


def product(path):
    return model_file(path, [helper.make_node("MatMul", ["a", "b"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])],
                      [("a", T.FLOAT, ["m", 70]), ("b", T.FLOAT, [70, "k"])], [("y", T.FLOAT, ["m", "k"])])


def best(path):
    return model_file(path, [helper.make_node("TopK", ["x", "k"], ["y", "at"]), helper.make_node("NonZero", ["y"], ["where"]),
                             helper.make_node("Unique", ["where"], ["u", "first", "", ""])],
                      [("x", T.FLOAT, ["n", 37])], [("y", T.FLOAT, ["n", 5]), ("u", T.INT64, ["m"]), ("first", T.INT64, ["m"])],
                      [helper.make_tensor("k", T.INT64, [1], [5])])


MODELS = {
    "best": best,
    "product": product, "counting": counting,
    "floats": lambda p: chain(p, T.FLOAT, "Exp", "Add", "Tanh", "Erf", "Round", "Max", "Sqrt"),
    "doubles": lambda p: chain(p, T.DOUBLE, "Exp", "Mul", "Sigmoid", "Floor"),
    "halves": lambda p: chain(p, T.FLOAT16, "Relu", "Add", "Neg"),
    "brain": lambda p: chain(p, T.BFLOAT16, "Relu", "Add", "Neg"),
    "longs": lambda p: chain(p, T.INT64, "Add", "Mul", "Mod", "Abs"),
    "bytes": lambda p: chain(p, T.UINT8, "Add", "Mul", "Max"),
}


def build(folder, program, compiler, *sources, flags=()):
    last = ["-o", program, "-lm"] if program else ["-fsyntax-only"]
    done = subprocess.run([*compiler, "-O1", "-Wall", "-Wextra", "-Werror", *flags, *sources, *last], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return program and folder / program


STRICT = ["-Wvla", "-Wdouble-promotion"]


def needs(*compilers):
    for c in compilers:
        if not shutil.which(c):
            pytest.skip(f"no {c} here")


@pytest.mark.parametrize("name", MODELS)
def test_c_and_cplusplus_without_a_warning(tmp_path, name):
    """Every target as C++ by both compilers; the native one links with its example and runs, as C and as C++."""
    needs("g++", "clang++")
    model = MODELS[name](tmp_path / f"{name}.onnx")
    for target in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        subprocess.run([TENON, "compile", model, "--emit", "c", "--target", target, "-o", tmp_path / f"{target}.c"], check=True, capture_output=True)
        for cxx in ("g++", "clang++"):
            build(tmp_path, None, [cxx, "-x", "c++", "-std=c++17"], f"{target}.c", flags=[f"-march={target}", *STRICT])
    subprocess.run([TENON, "compile", model, "--emit", "c", "--main", "-o", tmp_path / "m.c"], check=True, capture_output=True)
    said = {subprocess.run([build(tmp_path, "program", compiler, "m.c", "m-main.c", flags=["-march=native", *STRICT])], capture_output=True, text=True, check=True).stdout
            for compiler in (["gcc", "-std=gnu17"], ["g++", "-x", "c++", "-std=c++17"])}
    assert len(said) == 1
    for value in onnx.load(model).graph.output:
        assert f"{value.name}: " in "".join(said)


def test_the_example_computes(source, tmp_path, images, want):
    subprocess.run([TENON, "compile", DIGITS, "--emit", "c", "--main", "-o", tmp_path / "digits.c"], check=True, capture_output=True)
    images[:1].tofile(tmp_path / "image")
    program = build(tmp_path, "digits", ["gcc"], "digits.c", "digits-main.c", flags=["-march=native"])
    said = subprocess.run([program, tmp_path / "image"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("probability: f32[1, 10] = ")
    np.testing.assert_allclose([float(x) for x in said.split("=")[1].split()[:6]], want[0, :6], rtol=1e-4, atol=1e-6)
    short = subprocess.run([program, "/dev/null"], capture_output=True, text=True)
    assert short.returncode == 1 and "256 bytes are needed" in short.stderr


def test_weights_in_a_file_beside(tmp_path):
    w = np.random.default_rng(0).normal(size=(512, 600)).astype(np.float32)
    model = model_file(tmp_path / "wide.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", T.FLOAT, [1, 512])], [("y", T.FLOAT, [1, 600])],
                       [onnx.numpy_helper.from_array(w, "w")])
    subprocess.run([TENON, "compile", model, "--emit", "c", "--main", "-o", tmp_path / "wide.c"], check=True, capture_output=True)
    x = np.ones((1, 512), np.float32)
    x.tofile(tmp_path / "x")
    said = subprocess.run([build(tmp_path, "wide", ["gcc"], "wide.c", "wide-main.c", flags=["-march=native"]), "x"], cwd=tmp_path,
                          capture_output=True, text=True, check=True).stdout
    np.testing.assert_allclose([float(v) for v in said.split("=")[1].split()[:6]], (x @ w)[0, :6], rtol=1e-3)


@pytest.mark.parametrize("where", ["c", "object", "file"])
def test_weights_where_one_wants_them(tmp_path, where):
    """Of a model above the default's limit, in two models of one program; the digits below it."""
    w = np.random.default_rng(1).normal(size=(512, 600)).astype(np.float32)
    x = np.ones((1, 512), np.float32)
    x.tofile(tmp_path / "x")
    model = model_file(tmp_path / "wide.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", T.FLOAT, [1, 512])], [("y", T.FLOAT, [1, 600])],
                       [onnx.numpy_helper.from_array(w, "w")])
    for name, of in ("m", model), ("other", DIGITS):
        subprocess.run([TENON, "compile", of, "--emit", "c", "--weights-in", where, "--prefix", name, "-o", tmp_path / f"{name}.c"], check=True, capture_output=True)
        assert (tmp_path / f"{name}.weights").exists() == (where != "c")
    weights, main = "", PLAIN
    if where == "file":
        main = PLAIN.replace("int main", "static char weights[M_WEIGHTS_BYTES] __attribute__((aligned(64)));\nint main").replace(
            "    int code", '    FILE *g = fopen("m.weights", "rb");\n    if (!g || fread(weights, 1, sizeof weights, g) != sizeof weights)\n        return 2;\n    int code')
        weights = "weights,"
    (tmp_path / "main.c").write_text(main)
    for compiler in (["gcc", "-std=gnu17"], ["g++", "-x", "c++"], ["clang"]):
        if not shutil.which(compiler[0]):
            continue
        program = build(tmp_path, "m", compiler, "m.c", "other.c", "main.c", flags=["-march=native", f"-DWEIGHTS={weights}"])
        said = subprocess.run([program, "x"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        np.testing.assert_allclose([float(v) for v in said.split()], (x @ w)[0], rtol=1e-3, atol=1e-3)


PLAIN = r"""
#include "m.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    static float in[M_IN], out[M_OUT];
    FILE *f = fopen(argv[1], "rb");
    if (!f || fread(in, sizeof *in, M_IN, f) != M_IN)
        return 1;
    int code = m_run(WEIGHTS in, out);
    for (int i = 0; i < M_OUT; i++)
        printf("%.8g\n", (double)out[i]);
    return (void)argc, code;
}
"""


@pytest.mark.parametrize("compiler", [["gcc", "-std=c11"], ["g++", "-x", "c++"]], ids=["C", "C++"])
def test_a_model_of_fixed_sizes_is_a_function(tmp_path, compiler, images, want):
    images[:1].tofile(tmp_path / "image")
    (tmp_path / "main.c").write_text(PLAIN)
    subprocess.run([TENON, "compile", DIGITS, "--dim", "batch=1", "--emit", "c", "--prefix", "m", "-o", tmp_path / "m.c"], check=True, capture_output=True)
    header = (tmp_path / "m.h").read_text()
    assert "\nint m_run(const float in[64], float out[10]);" in header and "#define M_OUT 10\n" in header
    program = build(tmp_path, "m", compiler, "m.c", "main.c", flags=["-march=native", "-DWEIGHTS=", *STRICT])
    said = subprocess.run([program, "image"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    np.testing.assert_allclose([float(x) for x in said.split()], want[0], rtol=1e-4, atol=1e-6)
    subprocess.run([TENON, "compile", DIGITS, "--emit", "c", "--prefix", "m", "-o", tmp_path / "m.c"], check=True, capture_output=True)
    assert "m_run" not in (tmp_path / "m.h").read_text()            # the batch is open


def test_emitted_files_are_the_users_and_want_their_flags(tmp_path):
    subprocess.run([TENON, "compile", DIGITS, "--target", "x86-64-v3", "--emit", "c", "--main", "-o", tmp_path / "m.c"], check=True, capture_output=True)
    for name in ("m.c", "m.h", "m-main.c"):
        assert "This file is yours, under whatever licence you choose." in (tmp_path / name).read_text()
    if os.uname().machine == "x86_64":
        for march, warned in (("x86-64-v2", True), ("x86-64-v3", False)):
            done = subprocess.run(["gcc", "-O0", f"-march={march}", "-c", "m.c", "-o", "m.o"], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0 and ("compiled without -march=x86-64-v3: vectors are emulated" in done.stderr) == warned, done.stderr


TWO = r"""
#include "one.h"
#include "two.h"
#include <stdio.h>
int main(void)
{
    const TnManifest *a = one_manifest(), *b = two_manifest();
    printf("%s %s %d\n", a->inputs[0].name, b->inputs[0].name, a != b);
    return 0;
}
"""


@pytest.mark.parametrize("compiler", [["gcc"], ["g++", "-x", "c++"]], ids=["C", "C++"])
def test_two_models_in_one_program(tmp_path, compiler):
    for name, model in (("one", product(tmp_path / "p.onnx")), ("two", MODELS["longs"](tmp_path / "l.onnx"))):
        subprocess.run([TENON, "compile", model, "--emit", "c", "--prefix", name, "-o", tmp_path / f"{name}.c"], check=True, capture_output=True)
    (tmp_path / "main.c").write_text(TWO)
    program = build(tmp_path, "both", compiler, "one.c", "two.c", "main.c", flags=["-march=native"])
    assert subprocess.run([program], capture_output=True, text=True).stdout == "a x 1\n"


@pytest.mark.parametrize("args, says", [(["--prefix", "a"], "--emit c"), (["--main"], "--emit c"), (["--emit", "c", "--prefix", "2"], "a letter first"),
                                        (["--emit", "c", "--prefix", "a-b"], "letters, digits"), (["--weights-in", "c"], "--emit c"),
                                        (["--emit", "c", "--weights-in", "rom"], "c, object and file are possible")])
def test_what_a_prefix_may_be(tmp_path, args, says):
    done = subprocess.run([TENON, "compile", DIGITS, *args, "-o", tmp_path / "x"], capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr and not list(tmp_path.iterdir())


LACKING = r"""
#include "p.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TnFault fault;

static void tell(const char *what, int code)
{
    printf("%s: %d %d %d %d %lld\n", what, code, fault.code, fault.where, fault.dim, (long long)fault.want);
    memset(&fault, 0, sizeof fault);
}

int main(void)
{
    const TnManifest *m = tenon_manifest();
    const int64_t a[] = {5, 70}, b[] = {70, 90}, *const dims[] = {a, b};
    int64_t sym[8] = {0}, out_dims[2];
    TnSizes sizes = {sizeof sizes, 0, 0};
    if (m->prepare(dims, sym, out_dims, &sizes, &fault) || !sizes.arena_bytes || !sizes.scratch_bytes)
        return 1;
    float *x = aligned_alloc(64, 6400), *y = aligned_alloc(64, 25600), *o = aligned_alloc(64, 6400);
    const void *inputs[] = {x, y}, *one_input[] = {x, NULL};
    void *outputs[] = {o}, *none[] = {NULL};
    char *memory = aligned_alloc(64, 64 * (1 + (sizes.arena_bytes + 63) / 64));
    TnHost host = {sizeof host, NULL, NULL, aligned_alloc(64, (size_t)(sizes.scratch_bytes + 127) / 64 * 64)};
    memset(x, 0, 6400), memset(y, 0, 25600);
    const TnFrame good = {.size = sizeof good, .inputs = inputs, .outputs = outputs, .arena = memory, .sym = sym, .host = &host, .fault = &fault};
    TnFrame f;
    tell("good", m->run(&good));
    f = good, f.host = NULL, tell("no host", m->run(&f));
    TnHost bare = {sizeof bare, NULL, NULL, NULL};
    f = good, f.host = &bare, tell("no scratch", m->run(&f));
    f = good, f.arena = NULL, tell("no arena", m->run(&f));
    f = good, f.arena = memory + 8, tell("crooked arena", m->run(&f));
    f = good, f.inputs = NULL, tell("no inputs", m->run(&f));
    f = good, f.inputs = one_input, tell("no second input", m->run(&f));
    f = good, f.outputs = none, tell("no output", m->run(&f));
    f = good, f.sym = NULL, tell("no sym", m->run(&f));
    f = good, f.fault = NULL, tell("no fault", m->run(&f));
    f = good, f.size = 0, tell("no size", m->run(&f));
    tell("nothing", m->run(NULL));
    tell("good again", m->run(&good));
    printf("%lld %lld %d\n", (long long)sizes.arena_bytes, (long long)sizes.scratch_bytes, 8 * (int)m->nsymbol);
    return 0;
}
"""


def test_a_frame_says_what_it_lacks(tmp_path):
    subprocess.run([TENON, "compile", product(tmp_path / "p.onnx"), "--fuse", "none", "--emit", "c", "-o", tmp_path / "p.c"], check=True, capture_output=True)
    (tmp_path / "lacking.c").write_text(LACKING)
    program = build(tmp_path, "lacking", ["gcc"], "p.c", "lacking.c", flags=["-march=native", "-Wno-missing-field-initializers", "-fsanitize=address,undefined"])
    done = subprocess.run([program], capture_output=True, text=True, env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0, done.stderr
    *lines, sizes = done.stdout.splitlines()
    arena, scratch, symbols = sizes.split()
    FRAME, SIZE_INPUT = 11, 4 * 70 * 90
    assert lines == ["good: 0 0 0 0 0", f"no host: {FRAME} {FRAME} 6 0 {scratch}", f"no scratch: {FRAME} {FRAME} 6 0 {scratch}",
                     f"no arena: {FRAME} {FRAME} 5 0 {arena}", f"crooked arena: {FRAME} {FRAME} 5 0 {arena}", f"no inputs: {FRAME} {FRAME} 1 0 16",
                     f"no second input: {FRAME} {FRAME} 1 1 {SIZE_INPUT}", f"no output: {FRAME} {FRAME} 2 0 {4 * 5 * 90}", f"no sym: {FRAME} {FRAME} 3 0 {symbols}",
                     f"no fault: {FRAME} 0 0 0 0", f"no size: {FRAME} 0 0 0 0", f"nothing: {FRAME} 0 0 0 0", "good again: 0 0 0 0 0"]
