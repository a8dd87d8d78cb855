"""One C file, `tenon compile --emit c`, in a program of its own: nothing of Tenon but tenon_abi.h.

Both compilers build it without a warning, and both give what ONNX Runtime gives. The shared library
built with either compiler does as well.
"""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest

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
