"""Operators of the user in a shared library of C functions (--library): compiled, run, interpreted; and what is wrong with one."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
F, I = TensorProto.FLOAT, TensorProto.INT64
SOURCE = r"""
#include "tenon_abi.h"
const char tenon_operators[] =
    "\"my.Running\"(x: f32[n, m], start: f32[m]) -> (o: f32[n, m], last: f32[m]) = running\n"
    "\"my.Running\"(x: i64[n]) -> (o: i64[n]) = running_whole\n"
    "Twice(x: f32[n]) -> (o: f32[2*n]) = twice\n"
    "Lost(x: f32[2*n]) -> (o: f32[n]) = twice\n";

int running(int32_t n, const TnArray *a)        /* sums of the rows before, `start` first */
{
    const float *x = a[0].at, *start = a[1].at;
    float *o = a[2].at, *last = a[3].at;
    if (n != 4 || a[0].type != 'f' || a[0].rank != 2)
        return 1;
    for (int64_t j = 0; j < a[0].dim[1]; j++) {
        float sum = start[j];
        for (int64_t i = 0; i < a[0].dim[0]; i++)
            o[i * a[0].dim[1] + j] = sum += x[i * a[0].dim[1] + j];
        last[j] = sum;
    }
    return 0;
}
int running_whole(int32_t n, const TnArray *a)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < a[0].dim[0]; i++)
        ((int64_t *)a[1].at)[i] = sum += ((const int64_t *)a[0].at)[i];
    return n == 2 && sum < 0 ? 7 : 0;
}
int twice(int32_t n, const TnArray *a)
{
    (void)n;
    for (int64_t i = 0; i < a[1].dim[0]; i++)
        ((float *)a[1].at)[i] = ((const float *)a[0].at)[i / 2];
    return 0;
}
"""


def library(folder, source=SOURCE, name="libown.so"):
    (folder / "own.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{ROOT}/include", "own.c", "-o", name], cwd=folder, check=True)


def model(folder, nodes, inputs, outputs):
    infos = [helper.make_tensor_value_info(name, t, dims) for name, t, dims in inputs]
    graph = helper.make_graph(nodes, "own", infos, [helper.make_empty_tensor_value_info(o) for o in outputs])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22), helper.make_opsetid("my", 1)], ir_version=10), folder / "m.onnx")


def tenon(folder, *args):
    return subprocess.run([TENON, *args], cwd=folder, capture_output=True, text=True, timeout=120)


def run(folder, what, arrays, *more):
    for name, v in arrays.items():
        np.save(folder / f"{name}.npy", v)
    return tenon(folder, "run", what, *(a for i in arrays for a in ("--input", f"{i}=@{i}.npy")), "--output-dir", "out", *more)


def test_they_compute(tmp_path):
    library(tmp_path)
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Running", ["r", "s"], ["o", "l"], domain="my"), helper.make_node("Neg", ["o"], ["y"]),
             helper.make_node("Twice", ["l"], ["t"], domain="my"), helper.make_node("Running", ["k"], ["w"], domain="my")]
    model(tmp_path, nodes, [("x", F, ["n", "b"]), ("s", F, ["b"]), ("k", I, ["m"])], ["y", "t", "w"])
    done = tenon(tmp_path, "compile", "m.onnx", "-o", "m.so", "--library", "libown.so")
    assert done.returncode == 0, done.stderr
    r = np.random.default_rng(1)
    for n, b in ((1, 1), (3, 17), (8, 5), (0, 4)):
        x, s, k = r.standard_normal((n, b)).astype("f4"), r.standard_normal(b).astype("f4"), r.integers(0, 9, n + 2)
        done = run(tmp_path, "m.so", {"x": x, "s": s, "k": k})
        assert done.returncode == 0, done.stderr
        sums = np.cumsum(np.vstack([s[None], np.maximum(x, 0)]), 0)
        for name, want in (("y", -sums[1:]), ("t", np.repeat(sums[-1], 2)), ("w", np.cumsum(k))):
            np.testing.assert_allclose(np.load(tmp_path / "out" / f"{name}.npy"), want, rtol=1e-5, atol=1e-5)
    done = tenon(tmp_path, "verify", "m.onnx", "--library", "libown.so")
    assert done.returncode == 0, done.stderr
    # the dump is as good an input; without the library it is none
    (tmp_path / "m.tn").write_text("\n".join(tenon(tmp_path, "compile", "m.onnx", "--library", "libown.so", "--dump=import", "--stop-after=import").stdout.splitlines()[1:]))
    assert tenon(tmp_path, "compile", "m.tn", "-o", "n.so", "--library", "libown.so").returncode == 0
    done = tenon(tmp_path, "compile", "m.tn", "-o", "n.so")
    assert done.returncode == 3 and "declared by no library that was given" in done.stderr, done.stderr


def test_what_it_returns_stops_the_run(tmp_path):
    library(tmp_path)
    model(tmp_path, [helper.make_node("Running", ["k"], ["w"], "sum", domain="my")], [("k", I, ["m"])], ["w"])
    assert tenon(tmp_path, "compile", "m.onnx", "-o", "m.so", "--library", "libown.so").returncode == 0
    done = run(tmp_path, "m.so", {"k": np.array([-5])})
    assert done.returncode == 2 and 'Running "sum": its function in a library of your own returned 7' in done.stderr, done.stderr


def test_its_sizes_are_checked_as_it_runs(tmp_path):
    library(tmp_path)
    model(tmp_path, [helper.make_node("Running", ["x", "s"], ["o", "l"], domain="my")], [("x", F, ["n", "b"]), ("s", F, ["c"])], ["o"])
    assert tenon(tmp_path, "compile", "m.onnx", "-o", "m.so", "--library", "libown.so").returncode == 0
    done = run(tmp_path, "m.so", {"x": np.ones((2, 3), "f4"), "s": np.ones(4, "f4")})
    assert done.returncode == 2 and "running declares" in done.stderr and "3" in done.stderr and "4" in done.stderr, done.stderr


@pytest.mark.parametrize("op, inputs, says", [
    ("Running", [("x", TensorProto.INT32, ["n"])], "no function of the library, takes i32[n]"),
    ("Running", [("x", F, [2, 3]), ("s", F, [4])], "running declares, differ: 4 and 3"),
    ("Lost", [("x", F, ["n"])], "stands alone in no dimension of an input"),
    ("Nobody", [("x", F, ["n"])], "Nobody"),
])
def test_what_does_not_fit_is_refused(tmp_path, op, inputs, says):
    library(tmp_path)
    model(tmp_path, [helper.make_node(op, [i[0] for i in inputs], ["z"], "one", domain="my")], inputs, ["z"])
    done = tenon(tmp_path, "compile", "m.onnx", "-o", "m.so", "--library", "libown.so")
    assert done.returncode in (3, 4) and says in done.stderr and f"node 0 {op} \"one\"" in done.stderr, done.stderr


@pytest.mark.parametrize("source, says", [
    (None, "cannot open the library"),
    ("int nothing;", "does not say which operators it has"),
    ('const char tenon_operators[] = "a(x: f32[n]) -> (o: f32[n]) = gone";', "the library has no function gone"),
    ('const char tenon_operators[] = "a(x: f32[n] -> (o: f32[n]) = gone";', "tenon_operators:1:"),
    ('const char tenon_operators[] = "a(x: i4[n]) -> (o: f32[n]) = gone";', "numbers of 8 bits and more"),
    ('const char tenon_operators[] = "a(x: f32[n]) -> () = gone";', "a function without results"),
])
def test_a_library_that_is_wrong(tmp_path, source, says):
    if source:
        library(tmp_path, source)
    model(tmp_path, [helper.make_node("Relu", ["x"], ["z"])], [("x", F, ["n"])], ["z"])
    done = tenon(tmp_path, "compile", "m.onnx", "-o", "m.so", "--library", "libown.so")
    assert done.returncode in (2, 3) and says in done.stderr, done.stderr
