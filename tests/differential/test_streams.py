"""What is written past the caches: that it is chosen where nothing of it would stay, and right at odd sizes, on one thread and two, in
an output at any address."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "zoo")]
from decode import TENON  # noqa: E402
from session import Session  # noqa: E402

# So small that all else lies in memory.
MACHINE = "target x86-64-v4\nl1.bytes 2048\nl2.bytes 4096\nl3.bytes 8192\ncores 2\n"
MODEL = """graph @t(%x: f32[n, 48, m], %b: f32[48]) -> (%o) {
  %t: f32[n, m, 48] = transpose(%x) {perm = [0, 2, 1]}
  %s: f32[n, m, 48] = add(%t, %b)
  %o: f32[n, m, 48] = exp(%s)
}
"""


def runs_here():
    flags = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
    return "avx512vl" in flags


@pytest.fixture
def model(tmp_path):
    (tmp_path / "small.machine").write_text(MACHINE)
    (tmp_path / "m.tn").write_text(MODEL)
    return tmp_path / "m.tn"


def tenon(model, what, *options):
    return subprocess.run([TENON, what, model, "--machine", model.parent / "small.machine", *options], capture_output=True, text=True, timeout=600)


def test_chosen_where_nothing_stays(model):
    told = tenon(model, "compile", "--stop-after=schedule", "--dump=schedule").stdout
    assert "stream o" in told and "stream16 o[" in told, told
    near = tenon(model, "compile", "--stop-after=schedule", "--dump=schedule", "--dim-hint=n=1", "--dim-hint=m=16").stdout
    assert "stream" not in near, near


@pytest.mark.skipif(not runs_here(), reason="its vectors are no lines")
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_computes_the_same(model, cc):
    for n, m in (1, 1), (2, 15), (1, 16), (3, 17), (2, 129), (5, 300):
        for threads in 1, 2:
            done = tenon(model, "verify", f"--dim=n={n}", f"--dim=m={m}", "-t", str(threads), "--cc", cc, "--dim-hint=m=128")
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not runs_here(), reason="its vectors are no lines")
def test_an_output_may_lie_anywhere(model):
    done = tenon(model, "compile", "-o", model.parent / "m.so")
    assert done.returncode == 0, done.stderr
    code = subprocess.run(["objdump", "-d", model.parent / "m.so"], capture_output=True, text=True, check=True).stdout
    assert "vmovnt" in code and "sfence" in code
    rng = np.random.default_rng(1)
    x, b = rng.standard_normal((3, 48, 130)).astype(np.float32), rng.standard_normal(48).astype(np.float32)
    want = np.exp(x.transpose(0, 2, 1) + b)
    room = np.zeros(want.size + 64, np.float32)
    first = (-room.ctypes.data // 4) % 16                        # a line begins there
    session = Session(model.parent / "m.so", threads=2)
    for off in 0, 1, 4, 8, 15:
        room[:] = -1
        place = room[first + off:first + off + want.size].reshape(want.shape)
        session.run({"x": x, "b": b}, into={"o": place})
        assert np.allclose(place, want, rtol=1e-5) and (room[:first + off] == -1).all() and (room[first + off + want.size:] == -1).all()
    session.close()
