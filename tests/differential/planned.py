"""A small model of convolutions with random weights, the plan of its kernels beside it, and the compiler asked about both."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))


def saved(folder, nodes, shape, weights, plan):
    """nodes: from x, of this shape, to z. weights: the shape of each by its name."""
    rng = np.random.default_rng(3)
    graph = helper.make_graph(nodes, "planned", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array((rng.standard_normal(s) * 0.2).astype(np.float32), w) for w, s in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    (folder / "plan.txt").write_text(f"graph planned {{\n{plan}}}\n")
    return folder / "m.onnx"


def tenon(*words):
    return subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)


def agrees(model, *words):
    """Fused as the plan says, it computes what the interpreter does."""
    done = tenon("verify", model, "--dim", "n=2", "--fuse-plan", model.with_name("plan.txt"), *words)
    assert done.returncode == 0 and "agrees" in done.stdout, done.stderr


def are_joined(model, pair, *words):
    """Without the plan, two values are in one kernel."""
    done = tenon("explain", model, "--dim", "n=1", "--why", pair, *words)
    assert done.returncode == 0 and "are in kernel" in done.stdout, done.stdout + done.stderr
