"""What an artefact is in the hands of others: kept for years, stripped, loaded by the system's loader
alone, compared byte by byte with one made elsewhere.
"""
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from test_cli import MODEL, OK, TENON, Tenon, built, expected, tenon    # noqa: F401  fixtures

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "artefacts"      # made of linear.tn with --target generic by the Tenon of their time
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the kept artefacts are for x86-64")


@ON_X86
def test_the_previous_version_is_refused_with_what_to_do(tenon):
    tenon.fails(MODEL, "run", KEPT / "abi2.so", says="compiled for ABI version 1 or 2, this library runs version 3; compile the model again")


@ON_X86
def test_an_artefact_of_this_version_keeps_running(tenon):
    x = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)
    np.save(tenon.folder / "x.npy", x)
    np.save(tenon.folder / "y.npy", x @ np.arange(1, 7, dtype=np.float32).reshape(3, 2))
    done = tenon("run", KEPT / "abi3.so", "--input", f"x=@{tenon.folder / 'x.npy'}", "--expect", f"y=@{tenon.folder / 'y.npy'}")
    assert done.returncode == OK, done.stderr


@pytest.mark.parametrize("strip", ["strip", "strip --strip-unneeded", "llvm-strip", "eu-strip"])
def test_stripping_keeps_the_weights(tenon, built, strip):
    program, *options = strip.split()
    if not shutil.which(program):
        pytest.skip(f"no {program} here")
    work = tenon.folder / "work"
    shutil.copy(built, work / "s.so")
    subprocess.run([program, *options, "s.so"], cwd=work, check=True)
    x = np.array([[1, 2, 3, 4], [-1, -2, -3, -4]], np.float32)
    np.save(work / "x.npy", x)
    np.save(work / "y.npy", expected(x))
    assert tenon("run", "s.so", "--input", "x=@x.npy", "--expect", "y/out:0=@y.npy").returncode == OK


LOADER = r"""
#include "tenon_abi.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 9;
    const TnManifest *m = ((const TnManifest *(*)(void))dlsym(library, "tenon_manifest"))();
    float x[512] = { 1, 2, 3, 4 }, y[600];
    int64_t in_dims[] = { 1, argc > 2 ? atoi(argv[2]) : 4 }, sym[1], out_dims[2];
    TnSizes sizes = { sizeof sizes };
    TnFault fault = { 0 };
    if (m->prepare((const int64_t *const[]){ in_dims }, sym, out_dims, &sizes, &fault))
        return 1;
    TnHost host = { .size = sizeof host, .scratch = aligned_alloc(64, (size_t)(sizes.scratch_bytes + 64) & ~(size_t)63) };
    void *arena = aligned_alloc(64, (size_t)(sizes.arena_bytes + 64) & ~(size_t)63);
    TnFrame frame = { .size = sizeof frame, .inputs = (const void *[]){ x }, .outputs = (void *[]){ y }, .arena = arena, .sym = sym,
                      .host = &host, .fault = &fault };
    if (m->run(&frame))
        return printf("fault %d, %lld bytes\n", fault.code, (long long)fault.want), 2;
    for (int i = 0; i < 3; i++)
        printf("%g ", y[i]);
    return 0;
}
"""


@pytest.fixture
def loader(tenon):
    work = tenon.folder / "work"
    (work / "loader.c").write_text(LOADER)
    subprocess.run(["cc", "-I", ROOT / "include", "loader.c", "-o", "loader", "-ldl"], cwd=work, check=True)
    return lambda *args: subprocess.run(["./loader", *map(str, args)], cwd=work, capture_output=True, text=True)


def test_the_systems_loader_alone_finds_the_weights(tenon, built, loader):
    done = loader(built)
    assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_allclose(np.array(done.stdout.split(), np.float32), expected(np.array([[1, 2, 3, 4]], np.float32))[0], rtol=1e-5)


def test_a_library_without_its_weights_says_so(tenon, loader):
    """Many weights lie beside an emitted C file; if they are forgotten, a message tells how many are missing."""
    work = tenon.folder / "work"
    text = "graph @wide(%x: f32[1, 512]) -> (%y) {\n  %w: f32[512, 600] = const file \"w.bin\" 0\n  %y: f32[1, 600] = matmul(%x, %w)\n}\n"
    (work / "wide.tn").write_text(text)
    np.ones((512, 600), np.float32).tofile(work / "w.bin")
    done = tenon("compile", "wide.tn", "--emit=c", "-o", "wide.c")
    assert done.returncode == OK, done.stderr
    subprocess.run(["cc", "-std=gnu17", "-O1", "-march=native", "-shared", "-fPIC", "wide.c", "-o", "wide.so", "-lm"], cwd=work, check=True)
    done = loader("./wide.so", 512)
    missing = (work / "wide.weights").stat().st_size
    assert done.returncode == 2 and f"fault 5, {missing} bytes" in done.stdout, done.stdout + done.stderr


PRODUCT = "graph @t(%x: f32[1024, 64]) -> (%y) {\n  %w: f32[64, 32] = const file \"w.bin\" 0\n  %p: f32[1024, 32] = matmul(%x, %w)\n"


def test_the_same_input_and_options_give_the_same_bytes(tenon):
    """Whatever the cache holds, wherever it is compiled, however many processors may be used."""
    work = tenon.folder / "work"
    np.ones((64, 32), np.float32).tofile(work / "w.bin")
    (work / "m.tn").write_text(PRODUCT + "  %y: f32[1024, 32] = softmax(%p)\n}\n")
    (work / "other.tn").write_text("graph @t(%p: f32[1024, 32]) -> (%y) {\n  %y: f32[1024, 32] = softmax(%p)\n}\n")

    def made(name, *how, processors, cache):
        done = subprocess.run(["taskset", "-c", processors, TENON, "compile", "m.tn", "--target", "generic", "-o", name, *how], cwd=work,
                              env=tenon.env | {"TENON_CACHE_DIR": str(tenon.folder / cache)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return (work / name).read_bytes()

    every = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    assert tenon("compile", "other.tn", "--target", "generic", "-o", "other.so").returncode == OK
    shared = made("a.so", processors=every, cache="cache")
    alone = made("b.so", "--jobs", "1", processors=every.split(",")[0], cache="another cache")
    assert shared == alone
    assert json.loads(tenon("compile", "m.tn", "--target", "generic", "-o", "c.so", "--json").stdout)["cached_units"] == 2


CONVOLUTIONS = """graph @t(%x: f32[1, 24, 30, 30]) -> (%y) {
  %w: f32[32, 24, 3, 3] = const file "w.bin" 0
  %v: f32[24, 32, 1, 1] = const file "w.bin" 0
  %a: f32[1, 32, 30, 30] = conv(%x, %w) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}
  %b: f32[1, 32, 30, 30] = relu(%a)
  %c: f32[1, 24, 30, 30] = conv(%b, %v) {kernel_shape = [1, 1]}
  %y: f32[1, 24, 30, 30] = add(%c, %x)
}
"""


OF_ANY_SIZE = """graph @t(%x: f32[n, 24], %y: f32[m, 24]) -> (%o) {
  symbol n from 1 to 2048 usually 1, 64
  require m == n "they are added"
  %w: f32[24, 96] = const file "w.bin" 0
  %v: f32[96, 24] = const file "w.bin" 0
  %s: f32[n, 24] = add(%x, %y)
  %a: f32[n, 96] = matmul(%s, %w)
  %b: f32[n, 96] = relu(%a)
  %c: f32[n, 24] = matmul(%b, %v)
  %e: f32[n, 24] = add(%c, %y)
  %o: f32[n, 24] = softmax(%e)
}
"""


@pytest.mark.parametrize("model", [CONVOLUTIONS, OF_ANY_SIZE], ids=["convolutions", "of_any_size"])
def test_choices_found_by_several_processors_are_those_of_one(tenon, model):
    """Convolutions in a transform domain among them, and variants; by one processor, by several, with memory bounded, which one processor does
    alone, and from the cache."""
    work = tenon.folder / "work"
    np.random.default_rng(0).standard_normal(32 * 24 * 9, np.float32).tofile(work / "w.bin")
    (work / "m.tn").write_text(model)

    def made(name, *how):
        done = tenon("compile", "m.tn", "--target", "generic", "-o", name, *how)
        assert done.returncode == OK, done.stderr
        return (work / name).read_bytes()

    alone = made("a.so", "--no-cache", "--jobs", "1")
    assert made("b.so", "--no-cache", "--jobs", "3") == alone
    assert made("c.so", "--no-cache", "--jobs", "3", "--max-memory", "2G") == alone
    assert made("d.so", "--jobs", "3") == alone
    assert made("d.so", "--jobs", "3") == alone
