"""Sizes of a kind that have a plan of their own: one artefact, a choice between two graphs, and the same numbers."""
import json
import pathlib
import re
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "differential")]
from session import Session  # noqa: E402
from test_state import CACHE, tenon  # noqa: E402

HERE = ["--target", "x86-64-v3", "--cores", 1]       # prices of one machine, whichever runs the tests

# For one row or two exp is best computed where it is read; for many it is computed once.
SCALE = """graph @scale(%x: f32[rows, 65536], %v: f32[65536]) -> (%y) {
  %e: f32[65536] = exp(%v)
  %y: f32[rows, 65536] = mul(%x, %e)
}
"""
# The same beside rows from the second or the third on: of one row two are taken away, which is no size.
LATER = """graph @later(%x: f32[rows, 65536], %v: f32[65536]) -> (%y, %z) {
  %e: f32[65536] = exp(%v)
  %y: f32[rows, 65536] = mul(%x, %e)
  %z: f32[rows - FROM, 1] = call(%x)
    nest later(x: f32[rows, 65536]) -> (z: f32[rows - FROM, 1]) { z[i, j] = x[i + FROM, j] }
}
"""
# Outputs that need no case: an input, a constant, one of them twice.
PORTS = """graph @ports(%x: f32[rows, 4]) -> (%y, %x, %c, %y, %z) {
  %c: f32[2] = const [1, 2]
  %y: f32[rows, 4] = exp(%x)
  %z: f32[rows, 4] = mul(%y, %x)
}
"""
PORTS_PLAN = """case ports when 2 <= rows
graph ports_small { kernel { %y %z } }
graph ports_rest { kernel { %y } kernel { %z } }
graph ports { kernel { %small } }
"""


def written(path, text):
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def scale(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    model = written(folder / "scale.tn", SCALE)
    tenon("compile", model, *HERE, "-o", folder / "scale.so")
    return folder


def test_the_cheaper_plan_at_each_size_is_one_of_two(scale):
    plan = tenon("explain", scale / "scale.tn", *HERE, "--plan")
    most = int(re.match(r"case scale when rows (?:==|<=) (\d+)\n", plan)[1])
    assert 1 <= most <= 64
    small, rest = re.search(r"graph scale_small \{(.*?)\n\}\ngraph scale_rest \{(.*?)\n\}\n", plan, re.S).groups()
    assert (small.count("kernel"), rest.count("kernel")) == (1, 2)
    said = tenon("compile", scale / "scale.tn", *HERE, "--dump=fuse", "--stop-after=fuse")
    assert re.search(r"; where rows (==|<=) \d+ other nests are one kernel: predicted to take 0\.\d\d of the time at rows 1\n", said)
    s = Session(scale / "scale.so")
    r = np.random.default_rng(1)
    for rows in sorted({0, 1, 2, 3, most, most + 1, 67}):
        x, v = r.standard_normal((rows, 65536)).astype(np.float32), r.standard_normal(65536).astype(np.float32)
        np.testing.assert_allclose(s.run({"x": x, "v": v})["y"], x * np.exp(v), rtol=1e-5)
    s.close()


def test_no_case_of_sizes_that_a_model_does_not_run_at(tmp_path):
    for first, has in ((1, True), (2, False)):
        model = written(tmp_path / "later.tn", LATER.replace("FROM", str(first)))
        assert ("case later when" in tenon("explain", model, *HERE, "--plan")) == has, first


def test_one_size_alone_needs_no_case(scale):
    for words in (["--dim", "rows=1..1"], ["--dim", "rows=900..1000"], ["--fuse", "none"], ["--weights-growth", "99"], ["--plain"]):
        assert "case" not in tenon("explain", scale / "scale.tn", *HERE, *words, "--plan"), words


def test_a_plan_says_its_cases(scale):
    plan = written(scale / "plan", tenon("explain", scale / "scale.tn", *HERE, "--plan"))
    tenon("compile", scale / "scale.tn", *HERE, "--fuse-plan", plan, "-o", scale / "planned.so")
    assert (scale / "planned.so").read_bytes() == (scale / "scale.so").read_bytes()


def test_memory_is_one_formula(scale):
    formula = json.loads(tenon("inspect", scale / "scale.so", "--json"))["arena_bytes"]
    for rows in (1, 2, 3, 67):
        took = json.loads(tenon("bench", scale / "scale.so", "--iterations", 1, "--warmup", 0, "--dim", f"rows={rows}", "--json", "-"))["arena_bytes"]
        assert took == eval(str(formula), {"rows": rows, "max": max, "min": min})


def test_outputs_that_need_no_case(tmp_path):
    model, plan = written(tmp_path / "ports.tn", PORTS), written(tmp_path / "plan", PORTS_PLAN)
    tenon("compile", model, "--fuse-plan", plan, "-o", tmp_path / "ports.so")
    s = Session(tmp_path / "ports.so")
    for rows in (0, 1, 2, 5):
        x = np.random.default_rng(2).standard_normal((rows, 4)).astype(np.float32)
        y = s.run({"x": x})
        np.testing.assert_allclose(y["y"], np.exp(x), rtol=1e-5)
        np.testing.assert_allclose(y["z"], np.exp(x) * x, rtol=1e-5)
        np.testing.assert_array_equal(y["x"], x)
        np.testing.assert_array_equal(y["c"], [1, 2])
    s.close()


def test_a_state_grows_in_place_in_both_cases(tmp_path):
    model = written(tmp_path / "step.tn", CACHE)
    graphs = tenon("explain", model, "--plan")
    assert graphs.count("graph step {") == 2
    plan = written(tmp_path / "plan", "case step when n <= 2\n" + graphs.replace("graph step {", "graph step_small {") + graphs.replace("graph step {", "graph step_rest {")
                   + "graph step { kernel { %small } }\n")
    tenon("compile", model, "--fuse-plan", plan, "-o", tmp_path / "cases.so")
    tenon("compile", model, "-o", tmp_path / "one.so")
    cases, one = Session(tmp_path / "cases.so"), Session(tmp_path / "one.so")
    assert cases.states == one.states and cases.states[0][3]
    r = np.random.default_rng(3)
    for n in (5, 1, 2, 3, 1, 1):
        x = r.standard_normal((1, n, 8)).astype(np.float32)
        np.testing.assert_allclose(cases.run({"x": x})["y"], one.run({"x": x})["y"], rtol=1e-5, atol=1e-6)
        assert cases.length == one.length
    cases.close(), one.close()


@pytest.mark.parametrize("line, says", [
    ("case other when rows <= 2", "graph other has no cases; the model is graph scale"),
    ("case scale when columns <= 2", "columns is no size of graph scale's inputs that is open"),
    ("case scale when rows # 2", "rows has no bound: say rows == N, rows <= N or N <= rows"),
    ("case scale rows <= 2", "when"),
])
def test_a_case_that_cannot_be(scale, tmp_path, line, says):
    error = tenon("compile", scale / "scale.tn", "--fuse-plan", written(tmp_path / "plan", line + "\n"), "-o", tmp_path / "m.so", fails=True)
    assert says in error and "plan:1:" in error
