"""Models compiled for other processors, run under their emulators, against the interpreter."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = str(pathlib.Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
MODELS = [ROOT / "examples/digits/digits.onnx", ROOT / "examples/causal/causal.onnx"]
TARGETS = ["armv8-a", "armv8.2-dot", "armv8.6", "rv64gcv", "wasm32-simd", "wasm32-relaxed",
           "cortex-m4", "cortex-m55"]
NODE = int(subprocess.run(["node", "--version"], capture_output=True, text=True).stdout[1:].split(".")[0])
if NODE < 20:
    TARGETS.remove("wasm32-relaxed")    # Node has relaxed SIMD from version 20 on
if os.environ.get("TENON_NIGHTLY"):
    TARGETS += ["cortex-m0plus", "cortex-m7", "cortex-m33"]


def tenon(tmp_path, *args, **env):
    (tmp_path / "tmp").mkdir(exist_ok=True)
    kept = os.environ | {"TENON_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")} | env
    return subprocess.run([TENON, *map(str, args)], env=kept, cwd=tmp_path, capture_output=True, text=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.stem)
def test_agrees(tmp_path, model, target):
    done = tenon(tmp_path, "verify", model, "--target", target)
    assert done.returncode == 0, done.stderr
    assert ": agrees" in done.stdout and ": differs" not in done.stdout
    assert not list((tmp_path / "tmp").iterdir())


def test_a_library_for_another_processor(tmp_path):
    done = tenon(tmp_path, "compile", MODELS[0], "--target", "armv8-a", "-o", "m.so")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m.so").read_bytes()[18:20] == b"\xb7\0"   # e_machine: AArch64


def test_no_compiler(tmp_path):
    done = tenon(tmp_path, "compile", MODELS[0], "--target", "armv8-a", "-o", "m.so", PATH="/nonexistent")
    assert done.returncode == 6
    assert "no usable C compiler for 64-bit Arm" in done.stderr and "apt install" in done.stderr and "aarch64" in done.stderr


def test_no_emulator(tmp_path):
    bin = tmp_path / "bin"
    bin.mkdir()
    for program in (p for folder in os.environ["PATH"].split(":") for p in pathlib.Path(folder).glob("*")):
        if not program.name.startswith("qemu-") and not (bin / program.name).exists():
            (bin / program.name).symlink_to(program)
    done = tenon(tmp_path, "verify", MODELS[0], "--target", "armv8-a", PATH=str(bin))
    assert done.returncode == 6
    assert "qemu-aarch64-static: not found" in done.stderr and "apt install qemu-user-static" in done.stderr


def test_a_form_that_the_target_has_not(tmp_path):
    done = tenon(tmp_path, "compile", MODELS[0], "--target", "wasm32-simd", "--emit", "so", "-o", "m.so")
    assert done.returncode == 2 and "WebAssembly has none" in done.stderr


def test_a_compiler_for_this_processor(tmp_path):
    done = tenon(tmp_path, "compile", MODELS[0], "--target", "armv8-a", "--cc", "gcc", "-o", "m.so")
    assert done.returncode == 6 and "gcc" in done.stderr and "--cc" in done.stderr
