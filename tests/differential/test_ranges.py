"""Sizes that stay open within a range, and the memory that a run takes, as a formula of them."""
import json
import os
import pathlib
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))


def tenon(*words, fails=False):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Softmax over n, so that its values are in memory, and a product: sizes n and k."""
    path = tmp_path_factory.mktemp("ranges") / "m.onnx"
    nodes = [helper.make_node("Softmax", ["x"], ["a"], axis=0), helper.make_node("MatMul", ["a", "w"], ["b"]), helper.make_node("Softmax", ["b"], ["c"], axis=0),
             helper.make_node("Sub", ["c", "b"], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "m", [value("x", TensorProto.FLOAT, ["n", 8]), value("w", TensorProto.FLOAT, [8, "k"])], [value("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("words", [[], ["--dim", "n=1..300"], ["--dim", "n=1..300", "--dim", "k=1..64"], ["--dim", "n=1..300", "--dim", "k=5"]])
def test_the_memory_formula_is_what_a_run_takes(model, words, tmp_path):
    tenon("compile", model, *words, "-o", tmp_path / "m.so")
    formula = json.loads(tenon("inspect", tmp_path / "m.so", "--json"))["arena_bytes"]
    assert f"memory       {formula} bytes between kernels" in tenon("inspect", tmp_path / "m.so")
    assert "n" in formula
    for n, k in ((1, 1), (7, 5), (300, 64), (64, 3)):
        if "k=5" in words:
            k = 5
        sizes = ["--dim", f"n={n}"] + ([] if "k=5" in words else ["--dim", f"k={k}"])
        took = json.loads(tenon("bench", tmp_path / "m.so", "--iterations", 1, "--warmup", 0, *sizes, "--json", "-"))["arena_bytes"]
        assert took == eval(formula, {"n": n, "k": k, "max": max, "min": min}), (formula, n, k)


def test_runs_are_held_to_a_range(model, tmp_path):
    tenon("compile", model, "--dim", "n=2..64", "-o", tmp_path / "m.so")
    for n in (2, 64):
        assert f"f32[{n}, 3]" in tenon("run", tmp_path / "m.so", "--dim", f"n={n}", "--dim", "k=3")
    assert "dimension 0 (n) is 65, at most 64 is possible" in tenon("run", tmp_path / "m.so", "--dim", "n=65", "--dim", "k=3", fails=True)
    assert "dimension 0 (n) is 1, at least 2 is possible" in tenon("run", tmp_path / "m.so", "--dim", "n=1", "--dim", "k=3", fails=True)
    tenon("verify", model, "--dim", "n=2..64", "--dim", "k=3")


@pytest.mark.parametrize("words, says", [
    (["--dim", "q=1..4"], "--dim q=1..4: no input has a dimension of that name"),
    (["--dim", "n=5..4"], "--dim n=5..4: the range ends before it begins"),
    (["--dim", "n=1..4..5"], "one number is needed, or a range such as 1..2048"),
    (["--dim", "n=1.."], "does not begin with a size"),
    (["--dim", "n=..4"], "does not begin with a size"),
    (["--dim-hint", "q=1"], "--dim-hint q: no input has a dimension of that name"),
    (["--dim-hint", "n=1,x"], "does not begin with a size"),
    (["--dim-hint", "n=1;2"], "--dim-hint n=1;2: sizes with commas between them are wanted"),
    (["--dim", "n=1..64", "--dim-hint", "n=1,65"], "--dim-hint n=65: it is from 1 to 64"),
    (["--dim", "n=4", "--dim-hint", "n=4"], "--dim n gives it one size"),
])
def test_wrong_ranges(model, words, says, tmp_path):
    assert says in tenon("compile", model, *words, "-o", tmp_path / "m.so", fails=True)


@pytest.mark.parametrize("inputs, counts", [
    ({"x": ("f32", "n, 784")}, []),                                   # rows are what there is most of
    ({"x": ("f32", "n, 3, 8, 8")}, ["n"]),
    ({"x": ("f32", "n, 8, t")}, ["n"]),
    ({"x": ("f32", "n, t")}, ["n"]),
    ({"x": ("i64", "n, 16")}, ["n"]),
    ({"x": ("f32", "n, 8, 8"), "y": ("f32", "n, 4")}, ["n"]),
    ({"x": ("f32", "n, 8, 8"), "y": ("f32", "4, n")}, []),
    ({"x": ("f32", "n, 8, 8"), "y": ("f32", "n + 1, 4")}, []),
    ({"x": ("f32", "n, 8, 8"), "y": ("f32", "m, 8, 8")}, ["n", "m"]),
])
def test_a_first_dimension_counts_samples(inputs, counts, tmp_path):
    arguments = ", ".join(f"%{name}: {dtype}[{dims}]" for name, (dtype, dims) in inputs.items())
    results = "".join(f"  %o{name}: {dtype}[{dims}] = neg(%{name})\n" for name, (dtype, dims) in inputs.items())
    (tmp_path / "m.tn").write_text(f"graph @m({arguments}) -> ({', '.join(f'%o{name}' for name in inputs)}) {{\n{results}}}\n")
    tenon("compile", tmp_path / "m.tn", "--stop-after=import", "--dump=import", "--dump-dir", tmp_path)
    dump = next(tmp_path.glob("*import*.tn"))
    assert [line.split()[1] for line in dump.read_text().splitlines() if line.endswith(" counts 1")] == counts
    tenon("compile", dump, "--dim-hint", "n=4", "-o", tmp_path / "m.so")


@pytest.mark.parametrize("step, counts", [(1, None), (2, None), (10, "512"), (160, "8192")])
def test_a_signal_counts_as_frames(step, counts, tmp_path):
    """A symbol that windows divide counts as so many points that there are 32 frames or more: else prices would be asked for at none."""
    (tmp_path / "m.tn").write_text(f"graph @m(%x: f32[1, 1, n]) -> (%y) {{\n  %y: f32[1, 1, (n - {step}) // {step} + 1] = max_pool(%x) {{kernel_shape = [{step}], strides = [{step}]}}\n}}\n")
    tenon("compile", tmp_path / "m.tn", "--stop-after=import", "--dump=import", "--dump-dir", tmp_path)
    said = [line.split()[3] for line in next(tmp_path.glob("*import*.tn")).read_text().splitlines() if "symbol n counts" in line]
    assert said == ([counts] if counts else [])


def test_a_product_whose_rows_are_samples_is_made_for_many(tmp_path):
    """What comes as rows, or as images that are flattened, gets one program; of one sample it is told what that takes."""
    chosen, seconds = [], []
    for shape, flat in (("n, 64", ""), ("n, 64, 1", "  %f: f32[n, 64] = flatten(%x) {axis = 1}\n")):
        text = f"graph @m(%x: f32[{shape}]) -> (%y) {{\n{flat}  %w: f32[64, 96] = const file \"w.bin\" 0\n  %y: f32[n, 96] = matmul(%{'f' if flat else 'x'}, %w)\n}}\n"
        (tmp_path / "m.tn").write_text(text)
        (tmp_path / "w.bin").write_bytes(bytes(64 * 96 * 4))
        tenon("compile", tmp_path / "m.tn", "--target", "x86-64-v3", "--alternatives", 1, "--stop-after=choose", "--dump=choose", "--dump-dir", tmp_path)
        listed = next(tmp_path.glob("*choose*.tn")).read_text().splitlines()
        [at] = [i for i, line in enumerate(listed) if " s, alone " in line]
        seconds.append(float(listed[at].split()[1]))
        chosen.append([line for line in listed[at + 1:] if line.startswith(";     ")])
    assert chosen[0] == chosen[1] and chosen[0]
    assert seconds[1] < seconds[0] / 2
