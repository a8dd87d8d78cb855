"""Files that a fuzzer once broke the compiler with: now each ends with a status and a message, or compiles."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
FOUND = sorted((pathlib.Path(__file__).parent / "found").iterdir())


@pytest.mark.parametrize("path", FOUND, ids=[p.name for p in FOUND])
def test_found(path):
    done = subprocess.run([TENON, "compile", path, "--stop-after=emit"], capture_output=True, text=True, timeout=60)
    assert 0 <= done.returncode <= 6, done.stderr
    assert (done.returncode == 0) == ("error: " not in done.stderr), done.stderr
