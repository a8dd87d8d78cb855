"""States: what a session keeps between runs. Sessions over many steps are in tests/unit/test_state.c; here are exporters'
decoders, every stage's text against the interpreter, and what users declare wrongly."""
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "zoo")]
from decode import ALLOWED, TENON, decode  # noqa: E402
from session import Refused, Session  # noqa: E402

CACHE = """graph @step(%x: f32[b, n, 8], %past: f32[b, 2, p, 4]) -> (%y, %present) {
  state %past = %present
  %shape: i64[4] = const [0, 0, 2, 4]
  %heads: f32[b, n, 2, 4] = reshape(%x, %shape)
  %rows: f32[b, 2, n, 4] = transpose(%heads) {perm = [0, 2, 1, 3]}
  %present: f32[b, 2, p + n, 4] = concat(%past, %rows) {axis = 2}
  %scores: f32[b, 2, n, n + p] = einsum(%rows, %present) {equation = "bhid,bhjd->bhij"}
  %seen: f32[b, 2, n, n + p] = softmax(%scores)
  %y: f32[b, 2, n, 4] = matmul(%seen, %present)
}
"""


LAYERS = """graph @step(%x: f32[b, n, 8], %seen: bool[b, 1, n, n + p], %past: f32[b, 2, p, 4], %past_2: f32[b, 2, p, 4]) -> (%y_2, %present, %present_2) {
  state %past = %present
  state %past_2 = %present_2
  %shape: i64[4] = const [0, 0, 2, 4]
  %shown: f32[] = const [0]
  %hidden: f32[] = const [-9]
  %hidden_2: f32[] = const [-8]
  %mask: f32[b, 1, n, n + p] = where(%seen, %shown, %hidden)
  %mask_2: f32[b, 1, n, n + p] = where(%seen, %shown, %hidden_2)
  %heads: f32[b, n, 2, 4] = reshape(%x, %shape)
  %rows: f32[b, 2, n, 4] = transpose(%heads) {perm = [0, 2, 1, 3]}
  %present: f32[b, 2, p + n, 4] = concat(%past, %rows) {axis = 2}
  %scores: f32[b, 2, n, n + p] = einsum(%rows, %present) {equation = "bhid,bhjd->bhij"}
  %masked: f32[b, 2, n, n + p] = add(%scores, %mask)
  %part: f32[b, 2, n, n + p] = softmax(%masked)
  %y: f32[b, 2, n, 4] = matmul(%part, %present)
  %present_2: f32[b, 2, p + n, 4] = concat(%past_2, %y) {axis = 2}
  %scores_2: f32[b, 2, n, n + p] = einsum(%y, %present_2) {equation = "bhid,bhjd->bhij"}
  %masked_2: f32[b, 2, n, n + p] = add(%scores_2, %mask_2)
  %part_2: f32[b, 2, n, n + p] = softmax(%masked_2)
  %y_2: f32[b, 2, n, 4] = matmul(%part_2, %present_2)
}
"""


def tenon(*words, fails=False):
    done = subprocess.run([TENON, *map(str, words)], capture_output=True, text=True, timeout=300)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def test_masks_are_made_where_a_layer_reads_them(tmp_path):
    """Caches part the graph into runs of nests: what later runs alone read is fused there."""
    (tmp_path / "m.tn").write_text(LAYERS)
    tenon("compile", tmp_path / "m.tn", "--target", "x86-64-v4", "--stop-after=fuse", "--dump=fuse", "--dump-dir", tmp_path)
    text = next(tmp_path.glob("*fuse.tn")).read_text()
    made = re.findall(r"^  %(\w+)\S*: .* = call\((.*?)\)", text, re.MULTILINE)
    assert not [v for v, _ in made if v.startswith("mask")]
    assert ["%seen" in reads for v, reads in made if v in ("y", "y_2")] == [True, True]
    (tmp_path / "plain.tn").write_text(re.sub(r"  state .*\n", "", text))
    for sizes in ((1, 1, 0), (2, 3, 5), (1, 1, 70)):
        tenon("verify", tmp_path / "plain.tn", *(w for d, size in zip("bnp", sizes) for w in ("--dim", f"{d}={size}")))


def test_every_run_of_a_bench_begins_anew(tmp_path):
    """The mask is as long as what is kept, nothing, and what comes: with the rows of a run before, it would not fit."""
    (tmp_path / "m.tn").write_text(LAYERS)
    tenon("compile", tmp_path / "m.tn", "-o", tmp_path / "m.so", "--quick")
    tenon("bench", tmp_path / "m.so", "--dim", "n=3", "-n", 3, "--json", tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["iterations"] == 3


@pytest.mark.parametrize("name", ["llama_small_dynamo", "llama_small_int4_qdq"])
def test_a_decoder_with_its_cache_as_state_agrees(name, tmp_path):
    assert decode(name, tmp_path, 64) <= ALLOWED
    assert decode(name, tmp_path, 6, batch=2, prompt=3) <= ALLOWED


def test_every_stage_means_the_same(tmp_path):
    (tmp_path / "m.tn").write_text(CACHE)
    tenon("compile", tmp_path / "m.tn", "-o", tmp_path / "m.so", "--dump=all", "--dump-dir", tmp_path / "d")
    joined = 0
    for dump in sorted((tmp_path / "d").glob("*.tn")):
        text = dump.read_text()
        if text.startswith("; unchanged") or "13-schedule" in dump.name:     # a tree has no parts for the interpreter to run
            continue
        assert "state %past = %present" in text
        joined += "%present: f32[n + p, b, 2, 4] = join(%past" in text
        stateless = dump.with_suffix(".plain.tn")
        stateless.write_text(text.replace("  state %past = %present\n", ""))     # an ordinary graph: its cache is the caller's
        for sizes in ((1, 1, 0), (2, 3, 5), (1, 1, 70)):
            tenon("verify", stateless, *(w for d, size in zip("bnp", sizes) for w in ("--dim", f"{d}={size}")))
        tenon("verify", dump, "--dim", "b=2", "--dim", "n=4")
    assert joined >= 3
    plan = (tmp_path / "d" / "m.14-plan.txt").read_text()
    assert re.search(r"%present.rows .* output 1 \+ 32\*b\*p\n", plan), plan


def group_query(path):
    """A layer as onnxruntime-genai writes it: how long sequences are comes from the attention mask."""
    r, value, node = np.random.default_rng(3), helper.make_tensor_value_info, helper.make_node
    kept = {"w": r.standard_normal((32, 64)) * 0.2, "cos": r.standard_normal((60, 8)), "sin": r.standard_normal((60, 8))}
    kept = {k: v.astype(np.float32) for k, v in kept.items()} | {"axis": np.array([1]), "ones": np.array([1]), "second": np.array(1)}
    nodes = [node("MatMul", ["x", "w"], ["qkv"]), node("ReduceSum", ["attention_mask", "axis"], ["sum"], keepdims=0), node("Sub", ["sum", "ones"], ["last"]),
             node("Cast", ["last"], ["lengths"], to=TensorProto.INT32), node("Shape", ["attention_mask"], ["sizes"]),
             node("Gather", ["sizes", "second"], ["size"]), node("Cast", ["size"], ["total"], to=TensorProto.INT32),
             node("GroupQueryAttention", ["qkv", "", "", "past.key", "past.value", "lengths", "total", "cos", "sin"], ["y", "present.key", "present.value"],
                  domain="com.microsoft", num_heads=2, kv_num_heads=1, do_rotary=1)]
    cache = [value(f"past.{k}", TensorProto.FLOAT, ["b", 1, "p", 16]) for k in ("key", "value")]
    graph = helper.make_graph(nodes, "m", [value("x", TensorProto.FLOAT, ["b", "s", 32]), value("attention_mask", TensorProto.INT64, ["b", "total"]), *cache],
                              [value("y", TensorProto.FLOAT, ["b", "s", 32])] + [value(f"present.{k}", TensorProto.FLOAT, ["b", 1, "total", 16]) for k in ("key", "value")],
                              [numpy_helper.from_array(v, k) for k, v in kept.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8), path)


def test_a_cache_of_groups_grows_in_place(tmp_path):
    group_query(tmp_path / "m.onnx")
    tenon("compile", tmp_path / "m.onnx", "--state", "past.*=present.*", "-o", tmp_path / "m.so")
    peer = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    s, r = Session(tmp_path / "m.so"), np.random.default_rng(4)
    assert [(axis, in_place) for *_, axis, in_place in s.states] == [(0, True), (0, True)]
    for batch in (1, 2):
        kept, rows = {f"past.{k}": np.zeros((batch, 1, 0, 16), np.float32) for k in ("key", "value")}, 0
        for new in (5, 1, 1, 1, 1, 1):
            rows += new
            given = {"x": r.standard_normal((batch, new, 32)).astype(np.float32), "attention_mask": np.ones((batch, rows), np.int64)}
            y, *present = peer.run(None, given | kept)
            kept = dict(zip(kept, present))
            np.testing.assert_allclose(s.run(given)["y"], y, rtol=1e-4, atol=1e-5)
            assert s.length == rows
        given["attention_mask"] = np.ones((batch, rows + 2), np.int64)           # of more than there is
        with pytest.raises(Refused, match=f"the total length, and rows of a cache that is a state.*{rows + 2} and {rows + 1}"):
            s.run(given)
        given["attention_mask"] = np.ones((batch, rows + 1), np.int64)
        given["attention_mask"][-1, 0] = 0                                        # one is shorter than the others
        with pytest.raises(Refused, match=f"the shortest sequence, and rows of a cache that is a state.*{rows} and {rows + 1}"):
            s.run(given)
        assert s.length == rows
        s.reset()
    s.close()


def model(path, past=("b", 2, "p", 4), present=("b", 2, "p + n", 4), kept=TensorProto.FLOAT):
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Concat", ["past_0", "x"], ["present_0"], axis=2), helper.make_node("Relu", ["present_0"], ["y"])]
    graph = helper.make_graph(nodes, "m", [value("x", kept, ["b", 2, "n", 4]), value("past_0", kept, past)],
                              [value("y", kept, None), value("present_0", kept, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("words, says", [
    (["--state", "past_*"], "write --state X=Y"),
    (["--state", "passed_*=present_*"], ["--state passed_*=present_*", "no input of the model is named so", "x, past_0"]),
    (["--state", "past_*=presents_*"], ["input past_0 would be presents_0 afterwards", "no output of the model", "y, present_0"]),
    (["--state", "past_*=present_0_*_*"], "1 * on the left and 2 on the right"),
    (["--state", "past_*=present_*", "--state", "past_0=y"], "past_0 is a state already"),
    (["--state-capacity", "5"], ["--state-capacity: the model has no state", "--state"]),
])
def test_wrong_declarations(words, says, tmp_path):
    said = tenon("compile", model(tmp_path / "m.onnx"), "-o", tmp_path / "m.so", *words, fails=True)
    for part in [says] if isinstance(says, str) else says:
        assert part in said


def test_types_that_are_no_state(tmp_path):
    nodes = [helper.make_node("Transpose", ["past"], ["present"], perm=[1, 0])]
    graph = helper.make_graph(nodes, "m", [helper.make_tensor_value_info("past", TensorProto.FLOAT, ["a", "b"])],
                              [helper.make_tensor_value_info("present", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    said = tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--state", "past=present", fails=True)
    assert "input past is f32[a, b] and output present is f32[b, a]" in said and "one dimension" in said


def test_a_state_that_is_made_anew_is_told(tmp_path):
    nodes = [helper.make_node("Concat", ["x", "past"], ["present"], axis=0)]
    graph = helper.make_graph(nodes, "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3]), helper.make_tensor_value_info("past", TensorProto.FLOAT, ["p", 3])],
                              [helper.make_tensor_value_info("present", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    done = subprocess.run([TENON, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--state", "past=present"], capture_output=True, text=True)
    assert done.returncode == 0 and "1 of 1 state is made anew in every run" in done.stderr and "past" in done.stderr


@pytest.mark.parametrize("state_first", [True, False])
def test_a_state_whose_batch_has_another_name(state_first, tmp_path):
    """A GRU runs only where its input and its state have one batch: the state is no longer after a run, and the input tells its size."""
    r, value = np.random.default_rng(1), helper.make_tensor_value_info
    w, again = (r.standard_normal(s).astype(np.float32) / 4 for s in ((1, 12, 3), (1, 12, 4)))
    nodes = [helper.make_node("Mul", ["state", "half"], ["less"]), helper.make_node("GRU", ["x", "w", "again", "", "", "less"], ["y", "next"], hidden_size=4)]
    inputs = [value("x", TensorProto.FLOAT, [1, "texts", 3]), value("state", TensorProto.FLOAT, [1, "others", 4])]
    graph = helper.make_graph(nodes, "m", inputs[::-1] if state_first else inputs, [value("y", TensorProto.FLOAT, None), value("next", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(v, k) for k, v in (("w", w), ("again", again), ("half", np.float32(0.5)))])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    tenon("compile", tmp_path / "m.onnx", "--state", "state=next", "-o", tmp_path / "m.so")
    theirs = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    s = Session(tmp_path / "m.so")
    for batch in (1, 3):
        kept = np.zeros((1, batch, 4), np.float32)
        for _ in range(3):
            x = r.standard_normal((1, batch, 3)).astype(np.float32)
            y, kept = theirs.run(None, {"x": x, "state": kept})
            np.testing.assert_allclose(s.run({"x": x})["y"], y, rtol=1e-5, atol=1e-6)
        s.reset()
    tenon("compile", tmp_path / "m.onnx", "-o", tmp_path / "apart.so")
    with pytest.raises(Refused, match="here the sides are"):
        Session(tmp_path / "apart.so").run({"x": x, "state": np.zeros((1, 2, 4), np.float32)})


MERGED = """<ir_version: 8, opset_import: ["": 18]>
m (bool[1] c, float[b, n, 4] x, float[b, p, 4] past) => (float[b, n, 4] y, float[b, q, 4] present) {
    y, present = If (c) <then_branch = g1 () => (float[b, n, 4] y1, float[b, r, 4] present1) {
                             present1 = Concat <axis = 1> (past, x)
                             all1 = ReduceSum <keepdims = 1> (present1)
                             y1 = Add (x, all1) },
                         else_branch = g2 () => (float[b, n, 4] y2, float[b, n, 4] present2) {
                             present2 = Identity (x)
                             y2 = Neg (x) }>
}"""


def test_a_state_of_one_branch(tmp_path):
    """Exporters join the decoder of the first step, which reads no cache, and that of the others."""
    onnx.save(onnx.parser.parse_model(MERGED), tmp_path / "m.onnx")
    tenon("compile", tmp_path / "m.onnx", "--state", "past=present", "-o", tmp_path / "m.so")
    s, r = Session(tmp_path / "m.so"), np.random.default_rng(5)
    for batch in (2, 1):
        rows = np.zeros((batch, 0, 4), np.float32)
        for new in (3, 1, 1):
            x, first = r.standard_normal((batch, new, 4)).astype(np.float32), not rows.size
            y, rows = s.run({"c": np.array([not first]), "x": x})["y"], np.concatenate([rows, x], 1)
            np.testing.assert_allclose(y, -x if first else x + rows.sum(dtype=np.float64), rtol=1e-5, atol=1e-5)
            assert s.length == rows.shape[1]
        s.reset()


@pytest.mark.parametrize("change, says", [
    ("state %past = %present|state %x = %past", "a state is an input and an output of the graph"),
    ("state %past = %present|state %x = %y", "state x is f32[b, n, 8] and y is f32[b, 2, n, 4]: they may differ in one dimension alone"),
    ("state %past = %present|state %past = %present\n  state %past = %present", "are of one input or one output"),
    ("concat(%past, %rows) {axis = 2}|join(%past, %rows)", "input 0 of a join is f32[b, 2, p, 4], its result is f32[b, 2, n + p, 4]"),
])
def test_wrong_texts(change, says, tmp_path):
    old, new = change.split("|")
    assert old in CACHE
    text = CACHE.replace(old, new)
    (tmp_path / "m.tn").write_text(text)
    said = tenon("compile", tmp_path / "m.tn", "-o", tmp_path / "m.so", fails=True)
    assert says in said, said


def test_decoding_is_timed(tmp_path):
    (tmp_path / "m.tn").write_text(CACHE)
    tenon("compile", tmp_path / "m.tn", "-o", tmp_path / "m.so")
    found = json.loads(tenon("bench", tmp_path / "m.so", "--decode", 9, "--context", 20, "--dim", "b=2", "--threads", 1, "--json", "-"))
    assert found["steps"] == 9 and found["context"] == 20 and found["threads"] == 1
    assert found["state_bytes"] == 29 * 2 * 8 * 4                  # the one more that bytes are counted in is taken back
    assert found["bytes_per_step"] > found["state_bytes"] and found["tokens_per_s"] > 0 and 0 < found["bandwidth_share"] < 3
    text = tenon("bench", tmp_path / "m.so", "--decode", 4, "--context", 5, "--dim", "b=1", "--profile")
    assert "context 5, 4 steps of" in text
    assert "tokens/s of the prompt" in text and "of the GB/s at which memory is read" in text.replace(re.search(r"the (\S+) GB/s", text)[1] + " ", "")
    assert "12 runs of" in text


@pytest.mark.parametrize("words, says", [
    (["--decode", "4", "--context", "0"], "--context 0: the prompt has one token or more"),
    (["--decode", "4", "--threads", "1,2"], "leave out all but one of --threads"),
    (["--decode", "4", "--compare", "other.so"], "leave out --compare"),
])
def test_decoding_is_asked_for_wrongly(words, says, tmp_path):
    (tmp_path / "m.tn").write_text(CACHE)
    assert says in tenon("bench", tmp_path / "m.tn", *words, fails=True)
    (tmp_path / "m.tn").write_text(CACHE.replace("  state %past = %present\n", ""))
    assert "keeps nothing between runs that grows" in tenon("bench", tmp_path / "m.tn", "--decode", 4, fails=True)
