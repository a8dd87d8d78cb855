"""--fast-math: the last bits may change, nothing else does, and without it nothing is moved."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build"))
TENON = os.environ.get("TENON", str(BUILD / "tenon"))
CACHE = ["--cache-dir", str(BUILD / "conformance" / "cache")]

# An attention that scales queries and keys, an activation between two products as exporters write GELU, a convolution whose
# normalisation stands frozen behind it.
NODES = [("Mul", "q s", "qs"), ("Transpose", "k", "kt"), ("Mul", "s kt", "ks"), ("MatMul", "qs ks", "scores"), ("Softmax", "scores", "p"), ("MatMul", "p k", "attended"),
         ("Div", "attended root", "d"), ("Erf", "d", "e"), ("Add", "e one", "f"), ("Mul", "attended f", "g"), ("Mul", "g half", "h"), ("MatMul", "h w", "y"),
         ("Conv", "image filters", "c"), ("Mul", "c scale", "cs"), ("Add", "cs shift", "z")]
INPUTS = {"q": ["n", 48], "k": ["m", 48], "image": ["n", 3, 9, 11]}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    r = np.random.default_rng(5)
    drawn = {"w": (48, 40), "filters": (20, 3, 3, 3), "scale": (1, 20, 1, 1), "shift": (20, 1, 1)}
    constants = {"s": np.float32(48**-0.25), "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5),
                 **{name: r.standard_normal(shape).astype("f4") for name, shape in drawn.items()}}
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node(op, reads.split(), [makes]) for op, reads, makes in NODES], "m", [value(n, TensorProto.FLOAT, d) for n, d in INPUTS.items()],
                              [value("y", TensorProto.FLOAT, None), value("z", TensorProto.FLOAT, None)], [numpy_helper.from_array(v, n) for n, v in constants.items()])
    path = tmp_path_factory.mktemp("fast") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("words, left", [([], (5, 1, 2)), (["--fast-math"], (3, 0, 1))])
def test_what_is_left(model, words, left):
    """Products of elements, divisions, sums of elements."""
    text = subprocess.run([TENON, "compile", model, *words, "--stop-after=dce", "--dump=dce"], check=True, capture_output=True, text=True).stdout
    assert tuple(text.count(f" = {op}(") for op in ("mul", "div", "add")) == left, text


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("n, m", [(1, 1), (5, 33)])
def test_results(model, compiler, n, m):
    subprocess.run([TENON, "verify", model, "--fast-math", "--cc", compiler, "--dim", f"n={n}", "--dim", f"m={m}", "--quick", *CACHE], check=True, capture_output=True)
