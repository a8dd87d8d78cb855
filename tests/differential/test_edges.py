"""Small graphs at the edge of what rules are made for, against the interpreter (tenon verify)."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))

GRAPHS = {
    # The sum that passes from part to part has one element, and is read behind it as well.
    "a window over one element that a kernel keeps": """graph @g(%x: f32[1, 5, 3], %z: f32[1, 1, 1]) -> (%y) {
  %s: f32[1, 1, 1] = call(%x)
    nest total(x: f32[1, 5, 3]) -> (o: f32[1, 1, 1]) {
      o[i, j, k] = sum r1, r2: abs(x[0, r1, r2])
    }
  %p: f32[1, 1, 1] = call(%s)
    nest window(x: f32[1, 1, 1]) -> (o: f32[1, 1, 1]) {
      o[i, j, k] = (sum r0<3>: x[i, j, 2*k + r0 | 0]) / 3
    }
  %y: f32[1, 1, 1] = add(%p, %z)
}
""",
    "a product that sums nothing": """graph @g(%x: f32[3, 0], %w: f32[3, 0, 19]) -> (%y) {
  %m: f32[3, 3, 19] = matmul(%x, %w)
  %y: f32[3, 3, 19] = softmax(%m) {axis = 0}
}
""",
    "a product of no columns": """graph @g(%x: f32[3, 8], %w: f32[8, 0]) -> (%y) {
  %m: f32[3, 0] = matmul(%x, %w)
  %y: f32[3, 0] = relu(%m)
}
""",
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("fuse", ["none", "dp"])
def test_computes_what_the_interpreter_computes(tmp_path, name, fuse):
    (tmp_path / "g.tn").write_text(GRAPHS[name])
    done = subprocess.run([TENON, "verify", tmp_path / "g.tn", "--fuse", fuse], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
