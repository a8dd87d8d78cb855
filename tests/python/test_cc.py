"""tenon-compiler[cc]: where there is no C compiler, the one from PyPI is found."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("ziglang")
PROGRAM = """
import numpy as np, tenon
from onnx import TensorProto as T, helper
x, y = (helper.make_tensor_value_info(n, T.FLOAT, ["n"]) for n in "xy")
model = helper.make_model(helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
np.testing.assert_allclose(tenon.compile(model)(np.float32([0, 1])), np.exp([0, 1]), rtol=1e-6)
"""


def run(program, **env):
    kept = {k: v for k, v in os.environ.items() if k not in ("CC", "PATH", "PYTHONPATH")}
    return subprocess.run([sys.executable, "-c", program], env=kept | {"PATH": "/nonexistent"} | env, capture_output=True, text=True)


def test_it_is_found():
    done = run(PROGRAM)
    assert done.returncode == 0, done.stderr


def test_without_it_the_message_says_what_to_install():
    done = run("import sys; sys.modules['ziglang'] = None\n" + PROGRAM)
    assert "ToolchainError" in done.stderr and "no usable C compiler" in done.stderr and "tenon-compiler[cc]" in done.stderr
