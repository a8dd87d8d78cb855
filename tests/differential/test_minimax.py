"""The coefficients in the prelude are those that tools/minimax.py derives."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_coefficients_are_derived():
    done = subprocess.run([sys.executable, ROOT / "tools/minimax.py", "--check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
