"""Small courtesies of the command, one test for each: what is given twice, what is ignored, what is not said."""
import json
import resource
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from targets import SANITIZED
from test_cli import LIMIT, MODEL, OK, TENON, UNSUPPORTED, USAGE, small_model
from test_cli import tenon as tenon_  # noqa: F401  the fixture


@pytest.fixture
def tenon(tenon_):  # noqa: F811
    return tenon_


def graph(path, nodes, inputs, outputs, initializers=(), opset=17):
    values = [[helper.make_tensor_value_info(*v) for v in side] for side in (inputs, outputs)]
    model = helper.make_model(helper.make_graph(nodes, "test", *values, list(initializers)), opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def unary(path, op="Neg", dtype=T.FLOAT, shape=("n",)):
    return graph(path, [helper.make_node(op, ["x"], ["y"])], [("x", dtype, list(shape))], [("y", dtype, list(shape))])


@pytest.fixture
def work(tenon):
    return tenon.folder / "work"


# ---- given twice, ignored --------------------------------------------------------------------------------


def test_what_is_given_twice(tenon, work):
    small_model(work / "m.onnx")
    tenon.fails(USAGE, "compile", "m.onnx", "--dim", "batch=1", "--dim", "batch=3", says=["--dim batch=3", "given before, as 1"])
    for verb in ("run", "bench"):
        tenon.fails(USAGE, verb, "m.onnx", "--input", "x=@a.npy", "--input", "x=@b.npy", says=["x was given before, as a.npy"])
    tenon.fails(USAGE, "run", "m.onnx", "--shape", "x=1x4", "--shape", "x=1x4", says="given before")


def test_a_dimension_against_an_inputs_size(tenon, work):
    small_model(work / "m.onnx")
    assert tenon("compile", "m.onnx", "-o", "m.so").returncode == OK
    np.save(work / "x.npy", np.zeros((5, 4), np.float32))
    tenon.fails(USAGE, "run", "m.so", "--input", "x=@x.npy", "--dim", "batch=2", says=["--dim batch=2", "has 5 there"])
    assert tenon("run", "m.so", "--input", "x=@x.npy", "--dim", "batch=5").returncode == OK


def test_max_int_of_floats(tenon, work):
    unary(work / "m.onnx")
    tenon.fails(USAGE, "run", "m.onnx", "--max-int", "x=5", says=["--max-int x", "f32"])


def test_an_input_without_the_at(tenon, work):
    unary(work / "m.onnx")
    np.save(work / "x.npy", np.float32([1, 2]))
    assert "= -1 -2" in tenon("run", "m.onnx", "--input", "x=x.npy").stdout


# ---- sizes that follow -------------------------------------------------------------------------------------


def test_sizes_follow_from_the_checks(tenon, work):
    """total = past + seq, as in a decoder with a cache: known only from the addition of a mask."""
    graph(work / "m.onnx", [helper.make_node("Concat", ["p", "s"], ["c"], axis=0), helper.make_node("Add", ["c", "mask"], ["y"])],
          [("p", T.FLOAT, ["past"]), ("s", T.FLOAT, ["seq"]), ("mask", T.FLOAT, ["total"])], [("y", T.FLOAT, ["total"])])
    done = tenon("run", "m.onnx", "--dim", "past=2", "--dim", "seq=4")
    assert done.returncode == OK and "f32[6]" in done.stdout and "taken as 1" not in done.stderr, done.stderr
    done = tenon("run", "m.onnx", "--dim", "total=6", "--dim", "seq=4")
    assert done.returncode == OK and "f32[6]" in done.stdout, done.stderr


@pytest.mark.parametrize("sizes, code", [("1..4611686018427387904", OK), ("3037000500..4611686018427387904", LIMIT), ("3037000500", LIMIT)])
def test_sizes_as_large_as_there_are(tenon, work, sizes, code):
    """What is shared among threads, and how much, is counted without overflow: a product of these is beyond 64 bits."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[3, 1, 0, 2]), helper.make_node("Softmax", ["t"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"]),
             helper.make_node("ReduceSum", ["y"], ["z"])]
    graph(work / "m.onnx", nodes, [("x", T.FLOAT, ["a", "b", "c", "d"]), ("w", T.FLOAT, ["c", "e"])], [("y", T.FLOAT, None), ("z", T.FLOAT, None)])
    done = tenon("compile", "m.onnx", "-o", "m.so", "--stop-after", "emit", *(a for name in "abcde" for a in ("--dim", f"{name}={sizes}")))
    assert done.returncode == code and (code == OK or "more than any memory holds" in done.stderr), done.stderr


@pytest.mark.parametrize("node", [helper.make_node("AveragePool", ["x"], ["t"], "win", kernel_shape=[5, 1]), helper.make_node("Conv", ["x", "w"], ["t"], "win")], ids=lambda n: n.op_type)
def test_an_input_smaller_than_a_window(tenon, work, node):
    """Nothing is computed of a tensor with less than no elements, which nobody made."""
    weights = [numpy_helper.from_array(np.ones((1, 1, 5, 1), np.float32), "w")]
    graph(work / "m.onnx", [node, helper.make_node("ReduceSum", ["t"], ["y"])], [("x", T.FLOAT, [1, 1, "h", 3])], [("y", T.FLOAT, None)], weights)
    assert tenon("compile", "m.onnx", "-o", "m.so").returncode == OK
    assert tenon("run", "m.so", "--dim", "h=5").returncode == OK
    tenon.fails(USAGE, "run", "m.so", "--dim", "h=3", says='"win"')
    tenon.fails(USAGE, "run", "m.so", "--dim", "h=3", says="the sides are -1 and 0")


def test_a_size_and_a_number_that_are_broadcast(tenon, work):
    """The size is the number or 1; else the run says so with both sizes and the node. Where none is given it is the number."""
    graph(work / "m.onnx", [helper.make_node("Add", ["x", "y"], ["z"], "plus")], [("x", T.FLOAT, [3, 4]), ("y", T.FLOAT, ["b", 4])], [("z", T.FLOAT, None)])
    assert tenon("compile", "m.onnx", "-o", "m.so").returncode == OK
    for given in ["--dim", "b=3"], ["--dim", "b=1"], []:
        done = tenon("run", "m.so", *given)
        assert done.returncode == OK and "f32[3, 4]" in done.stdout and "taken as 1" not in done.stderr, done.stderr
    tenon.fails(USAGE, "run", "m.so", "--dim", "b=2", says='Add "plus"')
    tenon.fails(USAGE, "run", "m.so", "--dim", "b=2", says="b == 3, or b == 1; here the sides are 2 and 3")
    done = tenon("run", "m.onnx", "--dim", "b=1")
    assert done.returncode == OK and "f32[3, 4]" in done.stdout, done.stderr


# ---- values and files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, values", [(T.FLOAT16, "-1 -2.5"), (T.BFLOAT16, "-1 -2.5"), (T.DOUBLE, "-1 -2.5"), (T.INT16, "-1 -2"), (T.INT64, "-1 -2")])
def test_every_type_is_printed(tenon, work, dtype, values):
    unary(work / "m.onnx", dtype=dtype)
    x = np.array([1, 2.5], helper.tensor_dtype_to_np_dtype(dtype))
    np.save(work / "x.npy", x)
    done = tenon("run", "m.onnx", "--input", "x=@x.npy")
    assert f"= {values}\n" in done.stdout, (done.stdout, done.stderr)


def test_bf16_is_written_as_ml_dtypes_does(tenon, work):
    unary(work / "m.onnx", dtype=T.BFLOAT16)
    np.save(work / "x.npy", np.array([1, 2.5], ml_dtypes.bfloat16))
    assert tenon("run", "m.onnx", "--input", "x=@x.npy", "--output-dir", "out").returncode == OK
    y = np.load(work / "out/y.npy").view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(y.astype(np.float32), [-1, -2.5])
    np.save(work / "same.npy", np.array([-1, -2.5], ml_dtypes.bfloat16))
    assert (work / "same.npy").read_bytes()[128:] == (work / "out/y.npy").read_bytes()[128:]


def test_data_without_outputs(tenon, work):
    unary(work / "m.onnx")
    (work / "data").mkdir()
    (work / "data/input_0.pb").write_bytes(numpy_helper.from_array(np.float32([1]), "x").SerializeToString())
    done = tenon("run", "m.onnx", "--data", "data")
    assert done.returncode == OK and "nothing was compared" in done.stderr
    (work / "data/output_0.pb").write_bytes(numpy_helper.from_array(np.float32([-1]), "y").SerializeToString())
    assert "nothing was compared" not in tenon("run", "m.onnx", "--data", "data").stderr


def test_which_member(tenon, work):
    unary(work / "m.onnx")
    np.savez(work / "two.npz", a=np.float32([1]), b=np.float32([2]))
    np.savez(work / "one.npz", a=np.float32([7]))
    tenon.fails(USAGE, "run", "m.onnx", "--input", "x=@two.npz", says=["which member?", "two.npz:NAME", "there are a, b"])
    assert "= -7" in tenon("run", "m.onnx", "--input", "x=@one.npz").stdout


# ---- compiling ---------------------------------------------------------------------------------------------------


def test_a_name_that_ends_in_c(tenon, work):
    small_model(work / "m.onnx")
    assert tenon("compile", "m.onnx", "-o", "lib.c").returncode == OK
    assert (work / "lib.c").read_bytes().startswith(b"/*")
    assert tenon("compile", "m.onnx", "--emit", "so", "-o", "lib.c").returncode == OK
    assert (work / "lib.c").read_bytes().startswith(b"\x7fELF")


def test_a_library_as_model(tenon, work):
    small_model(work / "m.onnx")
    assert tenon("compile", "m.onnx").returncode == OK
    said = tenon.fails(MODEL, "compile", "m.so", says="compiled already").stderr
    assert "replace" not in said


def test_a_dump_without_operators_runs(tenon, work):
    """All of the model is constant: what is left after folding is its outputs."""
    two = numpy_helper.from_array(np.float32([1, 2]), "two")
    graph(work / "m.onnx", [helper.make_node("Add", ["two", "two"], ["y"])], [], [("y", T.FLOAT, [2])], [two])
    assert tenon("compile", "m.onnx", "--dump=all", "--dump-dir", "d").returncode == OK
    for dump in sorted((work / "d").glob("*.tn")):
        done = tenon("run", dump)
        assert done.returncode == OK and "= 2 4" in done.stdout, (dump, done.stdout, done.stderr)


# ---- messages -------------------------------------------------------------------------------------------------------


def test_strings_are_called_strings(tenon, work):
    graph(work / "m.onnx", [helper.make_node("StringNormalizer", ["x"], ["y"])], [("x", T.STRING, [4])], [("y", T.STRING, [4])])
    assert " str[4]" in tenon("inspect", "m.onnx").stdout


def test_mistyped_and_missing_operators(tenon, work):
    small_model(work / "typo.onnx", op="Reluu")
    tenon.fails(UNSUPPORTED, "compile", "typo.onnx", says=["there is no operator Reluu", "did you mean Relu?"])
    small_model(work / "far.onnx", op="Frobnicate")
    said = tenon.fails(UNSUPPORTED, "compile", "far.onnx", says="there is no operator Frobnicate").stderr
    assert "did you mean" not in said


def test_one_node_is_singular(tenon, work):
    unary(work / "m.onnx")
    assert "1 node\n" in tenon("inspect", "m.onnx").stdout


def test_what_a_memory_limit_wanted(tenon, work):
    small_model(work / "m.onnx")
    for limit, bound in ("20K", "may use 0.0 MB"), ("1MB", "may use 1.0 MB"):
        said = tenon.fails(LIMIT, "compile", "m.onnx", "--max-memory", limit, says=[bound, "it had", "needed"]).stderr
        assert "--max-memory" in said


@pytest.mark.skipif(SANITIZED, reason="a sanitizer takes memory of its own")
def test_out_of_memory_says_how_much_and_for_what(tenon, work):
    graph(work / "m.onnx", [helper.make_node("Expand", ["x", "s"], ["big"]), helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0)],
          [("x", T.FLOAT, ["n"])], [("y", T.FLOAT, [])], [numpy_helper.from_array(np.array([1 << 17, 1 << 14], np.int64), "s")])
    bound = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # noqa: E731
    done = tenon("verify", "m.onnx", limit=bound)
    assert done.returncode == LIMIT and "8589934592 bytes were wanted for big" in done.stderr, done.stderr


# ---- help ------------------------------------------------------------------------------------------------------------


def test_help_of_a_verb_and_the_version(tenon):
    assert tenon("help", "run").stdout == tenon("run", "--help").stdout
    assert tenon("-v").stdout == tenon("--version").stdout
    tenon.fails(USAGE, "help", "dance", says="no such verb")
    tenon.fails(USAGE, "help", "--completion", "fish", says="bash or zsh")


# ---- run, compare, JSON --------------------------------------------------------------------------------------------------


def test_stats_and_the_largest(tenon, work):
    unary(work / "m.onnx")
    np.save(work / "x.npy", np.float32([3, -1, 2]))
    said = tenon("run", "m.onnx", "--input", "x=@x.npy", "--stats", "--top", "2").stdout
    assert "min -3, max 1, mean -1.33333" in said and "row 0: 1 (1), 2 (-2)" in said and " ms\n" in said
    np.save(work / "x.npy", np.float32([np.nan, -1, 2]))
    said = tenon("run", "m.onnx", "--input", "x=@x.npy", "--top", "3").stdout
    assert "row 0: 1 (1), 2 (-2), 0 (" in said, said


def test_strings_have_no_stats(tenon, work):
    (work / "m.tn").write_text("graph @g(%x: str[2]) -> (%y) {\n  %y: str[2] = identity(%x)\n}\n")
    np.save(work / "x.npy", np.array(["a", "b"]))
    said = tenon("run", "m.tn", "--input", "x=@x.npy", "--stats", "--top", "1").stdout
    assert '"a" "b"' in said and "NaN" not in said and "row" not in said, said


def test_tolerances_are_those_of_the_type(tenon, work):
    for dtype, off, agrees in ((T.FLOAT, 1e-3, False), (T.FLOAT16, 1e-3, True), (T.INT32, 1, False), (T.DOUBLE, 1e-7, False)):
        unary(work / "m.onnx", dtype=dtype)
        x = np.array([1, 2], helper.tensor_dtype_to_np_dtype(dtype))
        np.save(work / "x.npy", x)
        np.save(work / "y.npy", (-x + off).astype(x.dtype))
        done = tenon("run", "m.onnx", "--input", "x=@x.npy", "--expect", "y=@y.npy")
        assert done.returncode == (OK if agrees else 1), (dtype, done.stdout, done.stderr)


def test_failures_under_json_are_json(tenon, work):
    small_model(work / "typo.onnx", op="Reluu")
    for args, status, part in ((("compile", "typo.onnx", "--json"), UNSUPPORTED, "Reluu"), (("inspect", "no.onnx", "--json"), USAGE, "no.onnx"),
                               (("run", "typo.onnx", "--json", "--dim", "x=y"), USAGE, "--dim"), (("bench", "no.so", "--json", "-"), USAGE, "no.so")):
        done = tenon(*args)
        said = json.loads(done.stdout)["error"]
        assert done.returncode == status == said["status"] and part in said["message"], said


def test_compressed_npz(tenon, work):
    unary(work / "m.onnx", shape=("n", "k"))
    x = np.arange(5000, dtype=np.float32).reshape(100, 50)
    np.savez_compressed(work / "x.npz", x=x)
    assert tenon("run", "m.onnx", "--input", "x=@x.npz:x", "--output-dir", "out").returncode == OK
    np.testing.assert_array_equal(np.load(work / "out/y.npy"), -x)
    damaged = bytearray((work / "x.npz").read_bytes())
    damaged[200:260] = bytes(60)
    (work / "bad.npz").write_bytes(damaged)
    tenon.fails(USAGE, "run", "m.onnx", "--input", "x=@bad.npz:x", says="damaged")


# ---- verify --against ---------------------------------------------------------------------------------------------------


def test_verify_against_onnxruntime(tenon, work):
    small_model(work / "m.onnx", op="Tanh")
    against = ("--against", "onnxruntime", "--python", sys.executable, "--dim", "batch=3")
    done = tenon("verify", "m.onnx", *against)
    assert done.returncode == OK and done.stdout.count("agrees") == 1, done.stderr
    done = tenon("verify", "m.onnx", *against, "--intermediate", "--json")
    assert [v["output"] for v in json.loads(done.stdout)] == ["h", "y/out:0"] and done.returncode == OK, done.stderr
    done = tenon("verify", "m.onnx", *against, "--intermediate", "--rtol", "0", "--atol", "0", "--max-int", "x=1")
    assert done.returncode == USAGE and "--max-int" in done.stderr
    tenon.leaves_nothing()


def test_the_first_value_that_differs_is_named(tenon, work):
    """Without any tolerance tanh differs in its last bits, and Relu after it does; the sum before does not."""
    graph(work / "m.onnx", [helper.make_node("Add", ["x", "x"], ["twice"], name="double"), helper.make_node("Tanh", ["twice"], ["t"], name="bend"),
                            helper.make_node("Relu", ["t"], ["y"], name="cut")], [("x", T.FLOAT, [999])], [("y", T.FLOAT, [999])])
    done = tenon("verify", "m.onnx", "--against", "onnxruntime", "--python", sys.executable, "--intermediate", "--atol", "0", "--rtol", "0")
    assert done.returncode == 1 and "twice: agrees" in done.stdout and "t: differs" in done.stdout, (done.stdout, done.stderr)
    assert 'the first value that differs is t, which Tanh "bend" makes' in done.stderr
    tenon.leaves_nothing()


def test_intermediate_values_with_weights_beside(tenon, work):
    w = numpy_helper.from_array(np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32), "w")
    graph(work / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
          [("x", T.FLOAT, ["n", 64])], [("y", T.FLOAT, ["n", 64])], [w])
    onnx.save(onnx.load(work / "m.onnx"), work / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    done = tenon("verify", "m.onnx", "--against", "onnxruntime", "--python", sys.executable, "--intermediate")
    assert done.returncode == OK and "h: agrees" in done.stdout, done.stderr


def test_what_cannot_be_compared_with(tenon, work):
    small_model(work / "m.onnx")
    tenon.fails(USAGE, "verify", "m.onnx", "--against", "tensorrt", says="onnxruntime is")
    tenon.fails(USAGE, "verify", "m.onnx", "--intermediate", says="--against onnxruntime too")
    tenon.fails(USAGE, "verify", "m.onnx", "--against", "onnxruntime", "--python", "/no/python", says=["/no/python", "--python"])
    (work / "onnxruntime.py").write_text("raise ImportError('No module named onnxruntime')")
    tenon.fails(USAGE, "verify", "m.onnx", "--against", "onnxruntime", "--python", sys.executable, env={"PYTHONPATH": str(work)},
                says="pip install onnx onnxruntime")
