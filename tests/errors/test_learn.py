"""tenon learn and --policy as a user meets them: what each order of blocks takes, a table as a
file, and what is refused."""
import json

import pytest

from test_cli import OK, USAGE, Tenon

STEPS = """
graph @main(%x: f32[1, 4], %turns: i64[], %kind: i64[n]) -> (%y) {
  %y: f32[1, 4] = loop(%turns, _, %x, %kind) carried 1
    with [n_1 = n] graph @turn(%i: i64[], %go: bool[], %a: f32[1, 4],
                               %kind: i64[n_1]) -> (%go, %b) {
      %one: i64[] = const [1]
      %k: i64[] = gather(%kind, %i) {axis = 0}
      %is: bool[] = equal(%k, %one)
      %b: f32[1, 4] = if(%is, %a)
        graph @then(%a: f32[1, 4]) -> (%t) {
          %t: f32[1, 4] = tanh(%a)
        }
        graph @else(%a: f32[1, 4]) -> (%e) {
          %e: f32[1, 4] = sigmoid(%a)
        }
    }
}
"""
KINDS = [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]


@pytest.fixture
def tenon(tmp_path):
    t = Tenon(tmp_path)
    (t.folder / "work" / "steps.tn").write_text(STEPS)
    lines = [{"x": [[i, 1, 2, 3]], "turns": len(k), "kind": k} for i, k in enumerate(KINDS)]
    (t.folder / "work" / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return t


def run(tenon, *words):
    done = tenon(*words)
    assert done.returncode == OK, done.stderr
    return done.stdout


def batches(tenon, model, *words):
    told = run(tenon, "explain", model, "--batches", "--requests", "r.jsonl", "--json", *words)
    return sum(b["batches"] for b in json.loads(told)["blocks"] if not b["host"])


def test_a_table_is_learnt_and_used(tenon):
    run(tenon, "compile", "steps.tn", "--many", "-o", "steps.so")
    text = run(tenon, "learn", "steps.so", "--requests", "r.jsonl")
    learnt = json.loads(run(tenon, "learn", "steps.so", "--requests", "r.jsonl", "--json",
                            "-o", "my.policy"))
    assert learnt["requests"] == 4 and learnt["asked"] == 16 and learnt["depth"] == 8
    assert learnt["least"] <= learnt["fsm"] < learnt["depth"]
    for name in ("depth", "agenda", "greedy", "fsm", "least"):
        assert f"{name:8} {learnt[name]:9}" in text
    assert learnt["table"] == "my.policy"
    table = (tenon.folder / "work" / "my.policy").read_text()
    assert table.startswith("tenon policy 1\n")
    by_depth = run(tenon, "run", "steps.so", "--many", "r.jsonl")
    assert batches(tenon, "steps.so") == batches(tenon, "steps.so", "--policy", "depth") == 8
    for policy in ("agenda", "greedy", "fsm:my.policy"):
        assert run(tenon, "run", "steps.so", "--many", "r.jsonl", "--policy", policy) == by_depth
        assert batches(tenon, "steps.so", "--policy", policy) == learnt[policy[:6].split(":")[0]]
    run(tenon, "compile", "steps.tn", "--many", "--policy", "fsm:my.policy", "-o", "with.so")
    assert batches(tenon, "with.so") == learnt["fsm"]
    assert batches(tenon, "with.so", "--policy", "depth") == 8


def test_a_model_that_is_not_compiled(tenon):
    """It is compiled for many, and the table is good for what is compiled afterwards."""
    run(tenon, "learn", "steps.tn", "--requests", "r.jsonl", "--batch", "2", "-o", "two.policy")
    run(tenon, "compile", "steps.tn", "--many", "--policy", "fsm:two.policy", "-o", "steps.so")


def test_what_is_refused(tenon):
    run(tenon, "compile", "steps.tn", "--many", "-o", "steps.so")
    run(tenon, "compile", "steps.tn", "-o", "one.so")
    tenon.fails(USAGE, "learn", "steps.so", says=["--requests FILE"])
    tenon.fails(USAGE, "learn", "one.so", "--requests", "r.jsonl",
                says=["one by one", "without --many"])
    tenon.fails(USAGE, "learn", "steps.so", "--requests", "none.jsonl", says=["none.jsonl"])
    tenon.fails(USAGE, "compile", "steps.tn", "--policy", "agenda", says=["--many"])
    for policy, why in (("breadth", 'no policy "breadth"'), ("fsm:r.jsonl", "not a table")):
        tenon.fails(USAGE, "compile", "steps.tn", "--many", "--policy", policy, says=why)
    tenon.fails(USAGE, "run", "steps.so", "--policy", "agenda", says=["--many FILE"])
    tenon.fails(USAGE, "explain", "steps.so", "--policy", "agenda", says=["--requests"])
    (tenon.folder / "work" / "empty.jsonl").write_text("")
    tenon.fails(USAGE, "learn", "steps.so", "--requests", "empty.jsonl",
                says=["nothing to learn of: there are no requests in empty.jsonl"])


def test_requests_that_fail(tenon):
    """The others are learnt of, and counted; where all fail, the message says where and why."""
    run(tenon, "compile", "steps.tn", "--many", "-o", "steps.so")
    path = tenon.folder / "work" / "r.jsonl"
    bad = json.dumps({"x": [[0, 1, 2, 3]], "turns": 5, "kind": [0, 1, 0, 1]}) + "\n"
    path.write_text(path.read_text() + bad)
    done = tenon("learn", "steps.so", "--requests", "r.jsonl", "--json")
    assert done.returncode == OK and json.loads(done.stdout)["asked"] == 16
    assert "1 of 5 requests have no result; line 5: " in done.stderr
    told = run(tenon, "explain", "steps.so", "--batches", "--requests", "r.jsonl", "--json")
    assert sum(b["asked"] for b in json.loads(told)["blocks"] if not b["host"]) == 16
    path.write_text(bad + bad)
    tenon.fails(USAGE, "learn", "steps.so", "--requests", "r.jsonl",
                says=["nothing to learn of: none of 2 requests has a result; line 1: ",
                      "the index 4 is outside"])
