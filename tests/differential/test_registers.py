"""Innermost loops of products and windows keep their vectors in registers: what GCC's passes make of the C that is emitted."""
import os
import pathlib
import platform
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", ROOT / "build" / "tenon")

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the code of one processor")


def model(path, weights, nodes, shape):
    rng = np.random.default_rng(1)
    constants = [numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32), name) for name, dims in weights.items()]
    graph = helper.make_graph(nodes, "loops", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def product(path):
    model(path, {"w": (256, 256)}, [helper.make_node("MatMul", ["x", "w"], ["y"])], [96, 256])


def first_convolution(path):
    """Three channels, steps of two: neighbouring points read in common what predictive commoning would carry along."""
    model(path, {"w": (64, 3, 3, 3), "v": (16, 64, 1, 1)},
          [helper.make_node("Conv", ["x", "w"], ["h"], strides=[2, 2]), helper.make_node("Conv", ["h", "v"], ["y"], strides=[4, 4])], [1, 3, 224, 224])


def innermost(library):
    """Of each innermost loop of a kernel that multiplies and adds vectors: how many do, and how many vectors are on the stack."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    for function in re.findall(r"<tk_\w+>:\n(.*?)(?:\n\n|$)", text, re.S):
        code = [(int(at, 16), what) for at, what in re.findall(r"^\s+([0-9a-f]+):\t(.*)$", function, re.M)]
        where = {at: i for i, (at, _) in enumerate(code)}
        jumps = [(where[int(m[1], 16)], i) for i, (_, what) in enumerate(code) if (m := re.match(r"j\w+\s+([0-9a-f]+)", what)) and int(m[1], 16) in where]
        loops = [(begin, end) for begin, end in jumps if begin <= end]
        for begin, end in loops:
            body = [what for _, what in code[begin:end + 1]]
            sums = sum(what.startswith("vfmadd") for what in body)
            if sums and not any(begin <= b and e < end for b, e in loops):
                yield sums, sum(what.startswith("v") and "(%rsp)" in what for what in body)


@pytest.mark.parametrize("of", [product, first_convolution])
def test_vectors_stay_in_registers(tmp_path, of):
    of(tmp_path / "m.onnx")
    subprocess.run([TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target", "x86-64-v3", "--cc", "gcc", "--cores", "1"], check=True)
    loops = list(innermost(tmp_path / "m.so"))
    assert any(sums >= 8 for sums, _ in loops), loops
    assert all(4 * stack <= sums for sums, stack in loops), loops
