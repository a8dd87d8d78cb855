"""`tenon explain`: every value that passes between two kernels has one reason, and the plan of the search is the cheapest."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build" / "tenon"))
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
REASONS = {"visible", "order", "pair", "capacity", "cost", "unproven", "rival"}


def explain(*args):
    return subprocess.run([TENON, "explain", *map(str, args)], capture_output=True, text=True)


def told(model, mode):
    done = explain(model, "--fuse", mode, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", ["none", "dp"])
def test_every_pair_has_a_reason(mode):
    plan = told(DIGITS, mode)
    assert plan["mode"] == mode and plan["kernels"] >= len(plan["groups"]) > plan["kernels"] - 3
    kernels = {group["kernel"] for group in plan["groups"]}
    assert len(kernels) == len(plan["groups"]) and all(group["seconds"] > 0 for group in plan["groups"])
    assert len(plan["apart"]) >= len(plan["groups"]) - 1
    for pair in plan["apart"]:
        assert {pair["from"], pair["to"]} <= kernels and pair["bytes"] > 0
        assert pair["reason"] in REASONS and pair["text"]
        assert (pair["together"] >= 0) == (pair["reason"] in ("cost", "rival"))


def test_the_search_is_exact_and_no_mode_is_cheaper():
    best = told(DIGITS, "dp")
    assert best["exact"] and best["bound"] == best["seconds"] and best["second_best"] >= best["seconds"]
    for pair in best["apart"]:
        assert pair["reason"] != "cost" or pair["together"] >= pair["separate"] * 0.999999
    assert told(DIGITS, "none")["seconds"] >= best["seconds"] * 0.999999
    assert told(DIGITS, "none")["kernels"] == told(DIGITS, "none")["nests"]
    joining = best["joining"]
    assert joining["exact"] and joining["bound"] == joining["gain"] and joining["candidates"] >= joining["pay"] >= joining["taken"] > 0
    assert told(DIGITS, "none")["joining"]["candidates"] == 0


def test_two_nodes():
    assert "are in kernel" in explain(DIGITS, "--fuse", "dp", "--why", "conv1,relu1").stdout
    assert "pair: " in explain(DIGITS, "--fuse", "dp", "--why", "conv1,conv2").stdout
    done = explain(DIGITS, "--why", "conv1,nowhere")
    assert done.returncode == 2 and "--why conv1,nowhere: give two nodes" in done.stderr


def test_text(tmp_path):
    text = explain(DIGITS, "--fuse", "dp").stdout
    made = subprocess.run([TENON, "compile", DIGITS, "--fuse", "dp", "--json", "-o", tmp_path / "m.so"], capture_output=True, text=True, check=True)
    fused, end = re.search(r"nests in (\d+) kernels? by", text), re.search(r"^compiled, these are (\d+) kernels?; the domains of Winograd convolutions add \d+$", text, re.M)
    assert json.loads(made.stdout)["kernels"] == int((end or fused)[1]), text
    assert "nests in 1 kernel by" in explain(ROOT / "examples/causal/causal.onnx").stdout
    assert "no partition takes less" in text and "no choice gains more" in text and "kernel 1: " in text and "neighbours apart: " in text


def test_a_plan_reads_back_and_can_be_edited(tmp_path):
    """A plan is text: what is printed is the same plan again; a line that goes elsewhere is another; what cannot be is refused with the reason."""
    file = tmp_path / "digits.plan"

    def given(text):
        file.write_text(text)
        return explain(DIGITS, "--fuse-plan", file, "--json")

    for mode in ["none", "dp"]:
        plan = explain(DIGITS, "--fuse", mode, "--plan").stdout
        file.write_text(plan)
        assert explain(DIGITS, "--fuse-plan", file, "--plan").stdout == plan
    told_of = json.loads(explain(DIGITS, "--fuse-plan", file, "--json").stdout)
    assert told_of["mode"] == "given" and told_of["kernels"] == told(DIGITS, "dp")["kernels"]
    assert json.loads(given(plan.replace("    %norm2_out inline\n", "")).stdout)["kernels"] == told_of["kernels"] + 1       # not named: by itself
    name = re.search(r"graph (\S+)", plan)[1]
    for text, message in [
        (f"graph {name} {{ kernel {{ %pooled %nothing }} }}", "no node of graph digits makes %nothing"),
        (f"graph {name} {{ kernel {{ %pooled }} kernel {{ %pooled }} }}", "%pooled is in two places"),
        (f"graph {name} {{ kernel {{ %scaled %probability }} }}", "cannot be carried out: "),
        (f"graph {name} {{ kernel {{ %pooled twice }} }}", "twice"),
        (f"graph {name} {{ group {{ %pooled }} kernel {{ %scaled }} }}", "`group` beside `kernel`"),
        ("graph other { }", f"expected `graph {name} {{`"),
        (plan + plan, "the plan goes on"),
        ("", f"expected `graph {name} {{`"),
    ]:
        done = given(text)
        assert done.returncode in (2, 3) and message in done.stderr and "digits.plan:" in done.stderr, (text, done.stderr)


def test_plans_of_groups(tmp_path):
    """A plan may say groups alone: what is inlined follows, and a group that no kernel computes is split. Rules of others are scripts."""
    name, file = told(DIGITS, "none")["graph"], tmp_path / "digits.plan"

    def kernels(text):
        file.write_text(text)
        done = explain(DIGITS, "--fuse-plan", file, "--json")
        assert done.returncode == 0, done.stderr
        return [group["operators"] for group in json.loads(done.stdout)["groups"]]

    apart = kernels(f"graph {name} {{ }}")
    assert len(kernels(f"graph {name} {{ group {{ %norm2_out %relu2_out }} }}")) == len(apart) - 1
    assert len(kernels(f"graph {name} {{ group {{ %norm1_out %norm2_out }} }}")) == len(apart)
    for rule, pair in (("tvm", ("Conv", 'Relu "relu2"')), ("dnnf", ('Relu "relu2"', "MaxPool"))):
        plan = subprocess.run([sys.executable, ROOT / "bench" / "rivals.py", rule, DIGITS], capture_output=True, text=True)
        assert plan.returncode == 0, plan.stderr
        grouped = kernels(plan.stdout)
        assert len(grouped) < len(apart) and any(all(any(one.startswith(name) for one in group) for name in pair) for group in grouped)
        assert subprocess.run([TENON, "verify", DIGITS, "--fuse-plan", file, "--dim", "batch=2"], capture_output=True).returncode == 0


def test_the_first_joins_alone(tmp_path):
    """--fuse-bisect goes from every node alone to the whole plan, a join at a time, and names the last of them."""
    kernels, named, plain = [], [], told(DIGITS, "dp")
    for n in range(1, 100):
        told_of = json.loads(explain(DIGITS, "--fuse-bisect", n, "--json").stdout)
        kernels.append(told_of["kernels"])
        words = explain(DIGITS, "--fuse-bisect", n).stdout
        if re.search(r"^all \d+ joins", words, re.M):
            break
        named.append(re.search(rf"^join {n}: %(\S+) of ", words, re.M)[1])
    assert len(named) == n - 1 == len(set(named)) == plain["joins"] and f"all {n - 1} joins" in words
    assert kernels[-1] == plain["kernels"] and kernels[0] == plain["nests"] - 1 and kernels == sorted(kernels, reverse=True)
    for some in (1, n // 2):
        done = subprocess.run([TENON, "verify", DIGITS, "--fuse-bisect", str(some), "--dim", "batch=2"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_wishes():
    """A kept value is an output of its kernel; two nodes are together whatever it costs, or it is said why not."""
    plain = told(DIGITS, "dp")
    kept = json.loads(explain(DIGITS, "--fuse", "dp", "--json", "--keep", "norm1_out").stdout)
    assert kept["kernels"] == plain["kernels"] + 1
    assert "--keep nothing: no node makes" in explain(DIGITS, "--keep", "nothing").stderr
    done = explain(DIGITS, "--fuse", "none", "--must-fuse", "conv2,relu2")
    assert done.returncode == 2 and "--fuse dp looks for" in done.stderr
    assert explain(DIGITS, "--fuse", "dp", "--must-fuse", "conv2,relu2").returncode == 0
    done = explain(DIGITS, "--fuse", "dp", "--must-fuse", "conv1,conv2")
    assert done.returncode == 2 and "--must-fuse conv1,conv2: " in done.stderr and "pair" in done.stderr
    together = json.loads(explain(DIGITS, "--fuse", "dp", "--json", "--must-fuse", "relu1,conv2").stdout)
    assert together["seconds"] >= plain["seconds"] and any("relu1" in g["name"] and "conv2" in g["name"] for g in together["groups"])
    dear = json.loads(explain(DIGITS, "--fuse", "dp", "--json", "--must-fuse", "pool,dense1").stdout)      # apart by price
    assert any("pool" in g["name"] and "dense1" in g["name"] for g in dear["groups"])
    assert subprocess.run([TENON, "verify", DIGITS, "--must-fuse", "pool,dense1", "--dim", "batch=2"], capture_output=True).returncode == 0
    assert "give two nodes" in explain(DIGITS, "--must-fuse", "a,b").stderr
