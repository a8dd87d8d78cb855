"""What 64-bit Arm's and RISC-V's rows add: dot products of signed bytes, conversions and maxima by one instruction, checks of the
processor."""
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
TENON = str(pathlib.Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
ARM_COMPILERS = ["clang-19 --target=aarch64-linux-gnu", "aarch64-linux-gnu-gcc"]
F = TensorProto.FLOAT


def tenon(folder, *args, **env):
    env = os.environ | {"TENON_CACHE_DIR": str(folder / "cache")} | env
    return subprocess.run([TENON, *map(str, args)], env=env, cwd=folder, capture_output=True, text=True)


def save(folder, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*o) for o in outputs],
                              [numpy_helper.from_array(a, name) for name, a in constants])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), folder / "m.onnx")


def whole_numbers(folder, x_type, w_type):
    rng, w_zero = np.random.default_rng(5), 7 if w_type == np.uint8 else 0
    w = rng.integers(np.iinfo(w_type).min, np.iinfo(w_type).max + 1, (37, 22)).astype(w_type)
    save(folder, [helper.make_node("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])],
         [("x", helper.np_dtype_to_tensor_dtype(np.dtype(x_type)), ["n", 37])], [("y", TensorProto.INT32, ["n", 22])],
         [("w", w), ("xz", np.array(3, x_type)), ("wz", np.array(w_zero, w_type))])
    x = rng.integers(np.iinfo(x_type).min, np.iinfo(x_type).max + 1, (9, 37)).astype(x_type)
    np.save(folder / "x.npy", x)
    return (x.astype(np.int32) - 3) @ (w.astype(np.int32) - w_zero)


@pytest.mark.parametrize("x_type, w_type", [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8), (np.int8, np.uint8)])
def test_signed_dot_products(tmp_path, x_type, w_type):
    want = whole_numbers(tmp_path, x_type, w_type)
    for cc in ARM_COMPILERS:
        done = tenon(tmp_path, "run", "m.onnx", "--input", "x=@x.npy", "--target", "armv8.2-dot", "--cc", cc, "--output-dir", "out")
        assert done.returncode == 0, done.stderr
        assert np.array_equal(np.load(tmp_path / "out/y.npy"), want)
    done = tenon(tmp_path, "compile", "m.onnx", "--target", "armv8.2-dot", "--emit", "c", "-o", "m.c")
    assert done.returncode == 0, done.stderr
    assert re.search(r"tn_dot4s_sum_i32x\d+\(", (tmp_path / "m.c").read_text())


@pytest.mark.parametrize("cc", ARM_COMPILERS)
def test_f16_by_one_instruction(tmp_path, cc):
    """Every f16 but NaNs, and floats between two of them, to f32 and back, and maxima with a NaN."""
    bits = np.arange(65536, dtype=np.uint16)
    every = bits[np.isfinite(bits.view(np.float16)) | np.isinf(bits.view(np.float16))].view(np.float16)
    wide = np.concatenate([every.astype(np.float32) * np.float32(s) for s in (1, 1.00048828125, 0.99951171875, 1.0001)])
    rest = np.array([np.nan, 1, -1, np.nan, -np.inf], np.float32)
    np.savez(tmp_path / "in.npz", x=every, w=wide, a=rest, b=rest[::-1].copy())
    cast = helper.make_node
    save(tmp_path, [cast("Cast", ["x"], ["y"], to=F), cast("Cast", ["w"], ["h"], to=TensorProto.FLOAT16),
                    cast("Max", ["a", "b"], ["m"]), cast("Min", ["a", "b"], ["l"])],
         [("x", TensorProto.FLOAT16, ["n"]), ("w", F, ["k"]), ("a", F, [5]), ("b", F, [5])],
         [("y", F, ["n"]), ("h", TensorProto.FLOAT16, ["k"]), ("m", F, [5]), ("l", F, [5])])
    inputs = [f"--input={name}=@in.npz:{name}" for name in "xwab"]
    done = tenon(tmp_path, "run", "m.onnx", *inputs, "--target", "armv8-a", "--cc", cc, "--output-dir", "out")
    assert done.returncode == 0, done.stderr
    got = {name: np.load(tmp_path / f"out/{name}.npy") for name in "yhml"}
    assert np.array_equal(got["y"].view(np.uint32), every.astype(np.float32).view(np.uint32))
    with np.errstate(over="ignore"):
        assert np.array_equal(got["h"].view(np.uint16), wide.astype(np.float16).view(np.uint16))
    assert np.array_equal(got["m"], np.maximum(rest, rest[::-1]), equal_nan=True)
    assert np.array_equal(got["l"], np.minimum(rest, rest[::-1]), equal_nan=True)


@pytest.mark.parametrize("target, processor", [("armv8.2-dot", "cortex-a72"), ("armv8.6", "cortex-a76"), ("rv64gcv", "rv64,v=false")])
def test_a_processor_without_it_is_refused(tmp_path, target, processor):
    """The emulator's own words for the processor are replaced by those of an older one."""
    emulator = "qemu-riscv64-static" if target == "rv64gcv" else "qemu-aarch64-static"
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / emulator
    script.write_text(f'#!/bin/sh\nshift 2\nexec {shutil.which(emulator)} -cpu {processor} "$@"\n')
    script.chmod(0o755)
    done = tenon(tmp_path, "run", ROOT / "examples/digits/digits.onnx", "--target", target, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert done.returncode != 0
    assert f"the processor lacks what {target} needs" in done.stderr


def vector_loops(assembly):
    """Instructions, and multiply-adds of vectors among them, of each innermost loop that has ten of them or more."""
    place, code, found = {}, [], []
    for line in assembly.splitlines():
        line = line.split("//")[0].strip()
        if label := re.match(r"(\.L\w+):", line):
            place[label[1]] = len(code)
        elif re.match(r"[a-z]", line):
            code.append(line)
    ends = {(place[jump[1]], i) for i, line in enumerate(code)
            if (jump := re.match(r"(?:b\.?\w*|cbn?z|tbn?z)\b.*?(\.L\w+)$", line)) and place.get(jump[1], i + 1) <= i}
    for a, b in ends:
        if not any((a, b) != (c, d) and a <= c and d <= b for c, d in ends):
            steps = sum(bool(re.match(r"fmla\s+v", line)) for line in code[a:b + 1])
            found += [(b + 1 - a, steps)] if steps >= 10 else []
    return found


@pytest.mark.parametrize("cc, most", [(ARM_COMPILERS[0], 1.5), (ARM_COMPILERS[1], 1.8)])
def test_inner_loop_of_a_matmul(tmp_path, cc, most):
    """Instructions for each multiply-add. Clang multiplies by a lane; GCC 12 copies it first."""
    (tmp_path / "m.tn").write_text("graph @g(%x: f32[256, 256], %w: f32[256, 256]) -> (%y) {\n  %y: f32[256, 256] = matmul(%x, %w)\n}\n")
    assert tenon(tmp_path, "compile", "m.tn", "--target", "armv8-a", "--emit", "c", "-o", "m.c").returncode == 0
    subprocess.run([*cc.split(), "-march=armv8-a", "-O2", "-ffp-contract=fast", "-w", "-S", "m.c", "-o", "m.s"], cwd=tmp_path, check=True)
    loops = vector_loops((tmp_path / "m.s").read_text())
    instructions, steps = max(loops, key=lambda loop: loop[1])
    assert steps >= 24 and instructions / steps <= most
