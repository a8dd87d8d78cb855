"""Products by the system's CBLAS (--library blas): computed, chosen by price, off by default; and what is said where there is no CBLAS."""
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
TYPES = {"f4": TensorProto.FLOAT, "f8": TensorProto.DOUBLE}


def tenon(folder, *args, **env):
    return subprocess.run([TENON, *map(str, args)], cwd=folder, capture_output=True, text=True, timeout=120, env=os.environ | env)


def works(folder, *args, **env):
    done = tenon(folder, *args, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def save(folder, nodes, inputs, outputs, constants=(), dtype="f4"):
    infos = [helper.make_tensor_value_info(name, TYPES[dtype], dims) for name, dims in inputs]
    graph = helper.make_graph(nodes, "products", infos, [helper.make_empty_tensor_value_info(o) for o in outputs],
                              [numpy_helper.from_array(v, name) for name, v in constants])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")


def run(folder, what, arrays, *more):
    for name, v in arrays.items():
        np.save(folder / f"{name}.npy", v)
    works(folder, "run", what, *(a for i in arrays for a in ("--input", f"{i}=@{i}.npy")), "--output-dir", "out", *more)
    return np.load(folder / "out" / "y.npy")


def calls(folder, *more):
    """The calls of the library in what is compiled: batch, transposed_a, transposed_b of each."""
    dump = works(folder, "compile", "m.onnx", "--dump=normalise", "--stop-after=normalise", *more)
    return [tuple(map(int, m)) for m in re.findall(r"library_product\(.*batch = (\d+), transposed_a = (\d), transposed_b = (\d)", dump)]


def close(y, want, k):
    assert y.shape == want.shape
    np.testing.assert_allclose(y, want, rtol=0, atol=(2e-6 if y.dtype == np.float32 else 1e-14) * max(k, 1))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("equation, call", [
    ("ik,kj->ij", (0, 0, 0)), ("ki,kj->ij", (0, 1, 0)), ("ik,jk->ij", (0, 0, 1)), ("ki,jk->ij", (0, 1, 1)),
    ("bik,bkj->bij", (1, 0, 0)), ("bhki,bhjk->bhij", (2, 1, 1)), ("bik,kj->bij", (0, 0, 0)), ("ik,kjh->ijh", (0, 0, 0)),
    ("ik,k->i", (0, 0, 0)), ("bik,bk->bi", (1, 0, 0)),
])
def test_every_form_at_open_sizes(tmp_path, equation, call, dtype):
    a, b = equation.split("->")[0].split(",")
    save(tmp_path, [helper.make_node("Einsum", ["a", "b"], ["y"], equation=equation)], [("a", list(a)), ("b", list(b))], ["y"], dtype=dtype)
    made = calls(tmp_path, "--library", "blas=always")
    assert len(made) == 1 and (made[0] == call or "j" not in equation), made       # a vector may stand on either side
    works(tmp_path, "compile", "m.onnx", "-o", "m.so", "--library", "blas=always", "--cores", "2")
    r = np.random.default_rng(3)
    for i, j, k in ((1, 1, 1), (3, 17, 5), (130, 33, 64), (40, 300, 129), (0, 4, 3), (4, 0, 3), (4, 3, 0), (1, 50, 7), (50, 1, 7)):
        size = {"i": i, "j": j, "k": k, "b": 3, "h": 2}
        x, w = (r.standard_normal([size[c] for c in side]).astype(dtype) for side in (a, b))
        want = np.einsum(equation, x, w)
        for threads in "1", "2":
            close(run(tmp_path, "m.so", {"a": x, "b": w}, "--threads", threads), want, k)


@pytest.mark.parametrize("sizes", [{"n": 1, "b": 1}, {"n": 7, "b": 2}])
def test_what_stands_around_goes_into_a_kernel(tmp_path, sizes):
    r = np.random.default_rng(5)
    w, c, v = (r.standard_normal(s).astype("f4") for s in ((24, 40), (24,), (1, 24, 9)))
    nodes = [helper.make_node("Gemm", ["x", "w", "c"], ["h"], transB=1, alpha=0.5), helper.make_node("Relu", ["h"], ["g"]),
             helper.make_node("Unsqueeze", ["g", "zero"], ["u"]), helper.make_node("MatMul", ["u", "v"], ["p"]),
             helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Softmax", ["s"], ["t"], axis=-1), helper.make_node("Tanh", ["p"], ["z"]),
             helper.make_node("ReduceSum", ["t"], ["o"], keepdims=0), helper.make_node("Add", ["z", "o"], ["y"])]
    save(tmp_path, nodes, [("x", ["n", 40]), ("q", ["b", 1, "n", 8]), ("k", ["b", 1, 8, 5])], ["y"],
         [("w", w), ("c", c), ("v", v), ("zero", np.array([0]))])
    assert calls(tmp_path, "--library", "blas=always") == [(0, 0, 1), (1, 0, 0), (2, 0, 0)]
    fixed = [a for name, n in sizes.items() for a in ("--dim", f"{name}={n}")]
    assert "agrees" in works(tmp_path, "verify", "m.onnx", "--library", "blas=always", *fixed)
    # the dump is as good an input, for the interpreter as well, and needs no option
    text = works(tmp_path, "compile", "m.onnx", "--library", "blas=always", *fixed, "--dump=normalise", "--dump-dir=d", "--stop-after=normalise")
    dumped = next((tmp_path / "d").glob("*normalise.tn"))
    assert "library_product" in dumped.read_text(), text
    assert "agrees" in works(tmp_path, "verify", dumped)


def test_what_is_no_plain_product_stays(tmp_path):
    nodes = [helper.make_node("Einsum", ["x", "w"], ["a"], equation="ikl,klj->ij"), helper.make_node("Conv", ["i", "f"], ["b"]),
             helper.make_node("Einsum", ["x", "z"], ["c"], equation="ikl,jk->jli")]
    save(tmp_path, nodes, [("x", [4, 6, 5]), ("w", [6, 5, 3]), ("i", [1, 3, 9, 9]), ("f", [4, 3, 3, 3]), ("z", [7, 6])], ["a", "b", "c"])
    assert calls(tmp_path, "--library", "blas=always") == []
    assert "CBLAS" not in works(tmp_path, "compile", "m.onnx", "-o", "m.so", "--library", "blas=always")


@pytest.fixture
def product(tmp_path):
    w = np.random.default_rng(7).standard_normal((256, 256)).astype("f4")
    save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", ["n", 256])], ["y"], [("w", w)])
    return w


def machine(folder, rate, layout):
    (folder / "m.machine").write_text(f"target x86-64-v3\ncores 2\nblas_f32_per_second {rate}\nblas_layout_per_second {layout}\nblas_call_seconds 1e-7\n")
    return "--machine", "m.machine"


def test_it_is_off_by_default(tmp_path, product):
    assert calls(tmp_path, *machine(tmp_path, 1e13, 1e12)) == []
    assert "CBLAS" not in works(tmp_path, "compile", "m.onnx", "-o", "m.so")
    needed = subprocess.run(["readelf", "-d", "m.so"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "blas" not in needed


def test_it_is_taken_by_its_price(tmp_path, product):
    quick = "--library", "blas", *machine(tmp_path, 1e13, 1e12)
    assert len(calls(tmp_path, *quick)) == 1
    assert "called" in works(tmp_path, "compile", "m.onnx", "--dump=normalise", "--stop-after=normalise", *quick)
    slow = "--library", "blas", *machine(tmp_path, 1e9, 1e9)
    assert calls(tmp_path, *slow) == []
    works(tmp_path, "compile", "m.onnx", "-o", "m.so", *slow)
    works(tmp_path, "compile", "m.onnx", "-o", "n.so", *slow[2:])
    assert (tmp_path / "m.so").read_bytes() == (tmp_path / "n.so").read_bytes()
    # laying out 256 KB takes too long for one row, and little of many: all sizes that are asked have to be less
    uneven = "--library", "blas", *machine(tmp_path, 1e13, 2e9)
    assert calls(tmp_path, *uneven) == []
    assert calls(tmp_path, *uneven, "--dim-hint", "n=1,4096") == []
    assert len(calls(tmp_path, *uneven, "--dim-hint", "n=4096")) == 1
    assert len(calls(tmp_path, *uneven, "--dim", "n=2048..8192")) == 1


def test_what_is_needed_is_said(tmp_path, product):
    made = works(tmp_path, "compile", "m.onnx", "-o", "m.so", "--library", "blas=always")
    assert "1 product by a library's CBLAS, which it needs to run" in made
    assert "CBLAS, which it needs to run" in works(tmp_path, "inspect", "m.so")
    done = tenon(tmp_path, "compile", "m.onnx", "-o", "n.so", "--library", "blas", "--target", "x86-64-v3")
    assert done.returncode == 2 and "nothing is known of how fast the library is" in done.stderr and "blas=always" in done.stderr, done.stderr
    done = tenon(tmp_path, "compile", "m.onnx", "-o", "n.so", "--library", "blas=perhaps")
    assert done.returncode == 2 and "--library blas=perhaps: blas (where it takes less) and blas=always are possible" in done.stderr, done.stderr
    # one C file names the library in the line that builds it
    works(tmp_path, "compile", "m.onnx", "-o", "m.c", "--library", "blas=always")
    line = next(s for s in (tmp_path / "m.c").read_text().splitlines() if " cc " in s)
    assert "-lopenblas -lm" in line
    subprocess.run(line.strip("* ").split(), cwd=tmp_path, check=True)


def test_no_cblas(tmp_path, product):
    """A compiler that knows of no such library."""
    cc = tmp_path / "cc"
    cc.write_text(f'#!/bin/sh\nfor i; do case $i in -lopenblas|-lcblas|-lblas) echo "cannot find $i" >&2; exit 1;; esac; done\nexec {shutil.which("cc")} "$@"\n')
    cc.chmod(0o755)
    dump = works(tmp_path, "compile", "m.onnx", "--library", "blas=always", "--dump=normalise", "--dump-dir=d", "--stop-after=normalise")
    dumped = next((tmp_path / "d").glob("*normalise.tn"))
    for what in ("m.onnx", "--library", "blas=always"), (dumped,):
        done = tenon(tmp_path, "compile", *what, "-o", "m.so", "--cc", cc)
        assert done.returncode == 6 and "finds no CBLAS" in done.stderr and "apt install libopenblas-dev" in done.stderr, dump + done.stderr
        assert done.stderr.count("error") == 1 and not (tmp_path / "m.so").exists()
    assert tenon(tmp_path, "compile", "m.onnx", "-o", "m.so", "--cc", cc).returncode == 0
