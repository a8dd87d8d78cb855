"""Models as one C99 file for a microcontroller (--profile mcu): compiled strictly, for the host and for Cortex-M."""
import ctypes
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = str(pathlib.Path(os.environ.get("TENON", ROOT / "build" / "tenon")).resolve())
DIGITS = ROOT / "examples/digits/digits.onnx"
STRICT = "-std=c99 -O2 -Wall -Wextra -Werror -pedantic".split()
CORES = {"cortex-m0plus": "-mcpu=cortex-m0plus -mthumb",
         "cortex-m4": "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard",
         "cortex-m55": "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard"}


def tenon(tmp_path, *args):
    env = os.environ | {"TENON_CACHE_DIR": str(tmp_path / "cache")}
    return subprocess.run([TENON, *map(str, args)], env=env, cwd=tmp_path, capture_output=True, text=True)


def emit(tmp_path, model, *args):
    done = tenon(tmp_path, "compile", model, "--profile", "mcu", "-o", "m.c", *args)
    assert done.returncode == 0, done.stderr
    return tmp_path / "m.c"


def call(tmp_path, x, y, *flags):
    """The model of m.c on this processor."""
    subprocess.run(["gcc", *STRICT, *flags, "-shared", "-fPIC", "m.c", "-o", "m.so"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "m.so"))
    assert library.m_run(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p)) == 0
    return y


def reference(tmp_path, model, name, x):
    np.save(tmp_path / "x.npy", x)
    done = tenon(tmp_path, "run", model, "--input", f"{name}=@x.npy", "--output-dir", "out")
    assert done.returncode == 0, done.stderr
    return np.load(next((tmp_path / "out").glob("*.npy")))


@pytest.mark.parametrize("core", CORES)
def test_needs_nothing(tmp_path, core):
    emit(tmp_path, DIGITS, "--dim", "batch=1", "--target", core)
    for plain in [], ["-DTN_PLAIN_C"]:
        subprocess.run(["arm-none-eabi-gcc", *STRICT, *plain, *CORES[core].split(), "-c", "m.c", "-o", "m.o"], cwd=tmp_path, check=True)
        names = subprocess.run(["arm-none-eabi-nm", "m.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split("\n")
        missing = {n.split()[-1] for n in names if " U " in n}
        assert not {n for n in missing if not n.startswith("__aeabi_")} - {"memcpy", "memset"}, missing
        assert {n.split()[-1] for n in names if n[9:10].isupper() and n[9:10] != "U"} == {"m_run", "m_run_in"}


def test_computes_what_the_library_does(tmp_path):
    x = np.random.default_rng(1).uniform(0, 16, (1, 1, 8, 8)).astype(np.float32)
    emit(tmp_path, DIGITS, "--dim", "batch=1")
    y = call(tmp_path, x, np.empty((1, 10), np.float32))
    assert np.allclose(y, reference(tmp_path, DIGITS, "image", x), atol=1e-6)


def one(op, x, **attributes):
    """A file of one operator on a vector."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], op, [value("x", TensorProto.FLOAT, x.shape)],
                              [value("y", TensorProto.FLOAT, x.shape)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("op", ["Sqrt", "Floor", "Ceil", "Round"])
def test_functions_without_a_library(tmp_path, op):
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.integers(0, 2 ** 32, 60000, dtype=np.uint32).view(np.float32),
                        rng.uniform(-9, 9, 4000).astype(np.float32),
                        np.array([0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2 ** 22 + 0.5, 2 ** 23 - 0.5, 2 ** 23, np.inf, -np.inf, np.nan], np.float32)])
    onnx.save(one(op, x), tmp_path / "one.onnx")
    emit(tmp_path, "one.onnx", "--keep-denormals")
    y = call(tmp_path, x, np.empty_like(x))
    with np.errstate(invalid="ignore"):
        wanted = {"Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint}[op](x)
    assert np.array_equal(np.isnan(y), np.isnan(wanted))
    assert np.array_equal(y[~np.isnan(y)].view(np.int32), wanted[~np.isnan(y)].view(np.int32))


def test_int8_has_the_interpreters_bits(tmp_path):
    """QuantizeLinear and DequantizeLinear around a convolution, a depthwise one, a pooling and a product."""
    rng = np.random.default_rng(0)
    node, constant = [], []

    def put(name, a):
        constant.append(numpy_helper.from_array(np.asarray(a), name))
        return name

    def add(op, inputs, **attributes):
        node.append(helper.make_node(op, inputs, [f"v{len(node)}"], **attributes))
        return node[-1].output[0]

    def rounded(x, scale, zero):
        n = len(constant)
        scale, zero = put(f"s{n}", np.float32(scale)), put(f"z{n}", np.int8(zero))
        return add("DequantizeLinear", [add("QuantizeLinear", [x, scale, zero]), scale, zero])

    def weights(*shape):
        n = len(constant)
        return add("DequantizeLinear", [put(f"w{n}", rng.integers(-127, 128, shape).astype(np.int8)), put(f"s{n}", np.float32(0.005)), put(f"z{n}", np.int8(0))])

    def conv(x, co, ci, k, group=1):
        y = add("Conv", [x, weights(co, ci, k, k), put(f"b{len(constant)}", rng.normal(0, 1, co).astype(np.float32))], pads=[k // 2] * 4, group=group)
        return rounded(add("Relu", [y]), 0.1, -128)

    x = rounded("x", 0.05, 3)
    x = conv(conv(conv(x, 16, 1, 3), 16, 1, 3, group=16), 32, 16, 1)
    x = rounded(add("GlobalAveragePool", [x]), 0.1, -128)
    y = rounded(add("Gemm", [add("Flatten", [x]), weights(10, 32)], transB=1), 0.2, 0)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(node, "q", [value("x", TensorProto.FLOAT, [1, 1, 12, 12])], [value(y, TensorProto.FLOAT, [1, 10])], constant)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "q.onnx")
    for core in "cortex-m0plus", "cortex-m4":
        done = tenon(tmp_path, "verify", "q.onnx", "--target", core)
        assert done.returncode == 0 and "agrees, largest error 0 " in done.stdout, done.stdout + done.stderr
    x = rng.normal(0, 2, (1, 1, 12, 12)).astype(np.float32)
    emit(tmp_path, "q.onnx")
    assert np.array_equal(call(tmp_path, x, np.empty((1, 10), np.float32)), reference(tmp_path, "q.onnx", "x", x))


def test_parts_of_one_value(tmp_path):
    """Two convolutions, of which one value is made, and an output that is an input."""
    rng = np.random.default_rng(3)
    w = [numpy_helper.from_array(rng.normal(0, 1, (4, 3, 3, 3)).astype(np.float32), name) for name in ("v", "w")]
    node = [helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4), helper.make_node("Conv", ["x", "w"], ["b"], pads=[1] * 4),
            helper.make_node("Concat", ["a", "b", "x"], ["c"], axis=1), helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(node, "joined", [value("x", TensorProto.FLOAT, [1, 3, 8, 8])], [value("y", TensorProto.FLOAT, [1, 11, 4, 4])], w)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "j.onnx")
    x = rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    for target in "cortex-m4", "native":
        emit(tmp_path, "j.onnx", "--target", target)
        y = call(tmp_path, x, np.empty((1, 11, 4, 4), np.float32))
        assert np.allclose(y, reference(tmp_path, "j.onnx", "x", x), atol=1e-5)


def test_index_out_of_range(tmp_path):
    value = helper.make_tensor_value_info
    table = numpy_helper.from_array(np.arange(5, dtype=np.float32), "table")
    graph = helper.make_graph([helper.make_node("Gather", ["table", "x"], ["y"])], "g", [value("x", TensorProto.INT64, [3])],
                              [value("y", TensorProto.FLOAT, [3])], [table])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "g.onnx")
    emit(tmp_path, "g.onnx")
    y = np.empty(3, np.float32)
    assert np.array_equal(call(tmp_path, np.array([4, -5, 1]), y), [4, 0, 1])
    library = ctypes.CDLL(str(tmp_path / "m.so"))
    for wrong in 5, -6, 2 ** 32:
        x = np.array([0, wrong, 0])
        assert library.m_run(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p)) == 3


# Instructions of a run of digits, by Debian 12's compiler; they change with kernels alone, as nothing is timed.
COMPILER, COUNT, RAM, CODE = "12.2.1", 679880, 18176, 8 * 1024


def test_instructions(tmp_path):
    flags = CORES["cortex-m4"].split()
    emit(tmp_path, DIGITS, "--dim", "batch=1", "--target", "cortex-m4")
    if subprocess.run(["arm-none-eabi-gcc", "-dumpversion"], capture_output=True, text=True).stdout.strip() != COMPILER:
        pytest.skip(f"the count is of GCC {COMPILER}")
    subprocess.run(["arm-none-eabi-gcc", "-std=gnu11", "-O2", "-fno-math-errno", *flags, "-I.", "m.c", ROOT / "tests/reach/board/count.c", "-o", "program",
                    "--specs=rdimon.specs", "-Wl,--section-start=.vectors=0", "-Wl,-Ttext=0x21000000"], cwd=tmp_path, check=True)
    said = subprocess.run(["qemu-system-arm", "-nographic", "-semihosting", "-icount", "shift=0", "-machine", "mps2-an386", "-kernel", "program"],
                          cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    x = ((np.arange(64) * 37 + 11) % 17).astype(np.float32).reshape(1, 1, 8, 8)
    assert np.allclose(np.array(said[1:], np.float32), reference(tmp_path, DIGITS, "image", x)[0], atol=1e-6)
    assert abs(int(said[0]) / COUNT - 1) <= 0.01, f"{said[0]} instructions, {COUNT} are stored: if that is wanted, store it"
    header = (tmp_path / "m.h").read_text()
    assert f"m_SCRATCH_BYTES {RAM - 12288}" in header and "m_ARENA_BYTES 12288" in header
    subprocess.run(["arm-none-eabi-gcc", *STRICT, "-fno-math-errno", *flags, "-c", "m.c", "-o", "m.o"], cwd=tmp_path, check=True)
    text = int(subprocess.run(["arm-none-eabi-size", "m.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()[6])
    assert text - 153152 <= CODE


def test_limits(tmp_path):
    fixed = ["compile", DIGITS, "--profile", "mcu", "--dim", "batch=1", "--target", "cortex-m4", "-o", "m.c"]
    done = tenon(tmp_path, *fixed, "--ram", "8K")
    assert done.returncode == 5 and "--ram allows 8192" in done.stderr and 'conv2' in done.stderr and "f32[1, 8, 8, 32] 8.0 KB" in done.stderr
    assert not (tmp_path / "m.c").exists()
    done = tenon(tmp_path, *fixed, "--flash", "100K")
    assert done.returncode == 5 and "weights alone take 153152 bytes" in done.stderr
    done = tenon(tmp_path, *fixed, "--ram", "64K", "--flash", "1M")
    assert done.returncode == 0, done.stderr
    build = ["gcc", "-std=c11", "-c", "m.c", "-o", "m.o"]
    assert subprocess.run(build, cwd=tmp_path).returncode == 0
    for standard in "c99", "c11":
        assert subprocess.run(["gcc", f"-std={standard}", *build[2:], "-Dm_RAM_LIMIT=1000"], cwd=tmp_path, capture_output=True).returncode != 0


def test_memory_over_time(tmp_path):
    done = tenon(tmp_path, "explain", DIGITS, "--memory", "--dim", "batch=1", "--target", "cortex-m4")
    assert done.returncode == 0, done.stderr
    peak = [line for line in done.stdout.split("\n") if "<- peak" in line]
    assert len(peak) == 1 and "conv2" in peak[0] and "the peak is at Conv \"conv2\"" in done.stdout


def test_what_it_cannot_do(tmp_path):
    done = tenon(tmp_path, "compile", DIGITS, "--profile", "mcu", "-o", "m.c")
    assert done.returncode != 0 and "image has an open size; fix it with --dim NAME=SIZE" in done.stderr
    done = tenon(tmp_path, "compile", DIGITS, "--ram", "8K", "-o", "m.so")
    assert done.returncode == 2 and "--ram is a limit of --profile mcu" in done.stderr
