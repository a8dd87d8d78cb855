"""What becomes one kernel behind the cheapest partition is chosen as a whole: the first candidate that pays may stand in the way of others that gain more."""
import json
import re

import pytest
from onnx import helper

from planned import saved, tenon

WORDS = ["--dim", "n=1", "--target", "x86-64-v3"]


def chain(folder):
    """Product, softmax, product, softmax: the first three may be one kernel, and either product one with the softmax of what it makes."""
    nodes = [helper.make_node("MatMul", ["x", "k"], ["s"]), helper.make_node("Softmax", ["s"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"]),
             helper.make_node("Softmax", ["y"], ["z"])]
    return saved(folder, nodes, ["n", 256, 16], {"k": (16, 16), "v": (16, 64)}, "")


def microseconds(text):
    value, unit = re.fullmatch(r"([\d.]+) (us|ms|s)", text).groups()
    return float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


@pytest.mark.parametrize("jobs", [1, 2])
def test_two_gain_more_than_the_one_between_them(tmp_path, jobs):
    model = chain(tmp_path)
    told = json.loads(tenon("explain", model, "--json", "--no-cache", "--jobs", jobs, *WORDS).stdout)
    joining = told["joining"]
    assert told["kernels"] == 2 and joining == {**joining, "candidates": 3, "pay": 3, "rivals": 3, "circles": 0, "taken": 2, "exact": True}
    assert joining["gain"] == joining["bound"]
    (pair,) = told["apart"]
    assert pair["reason"] == "rival" and 0 < pair["separate"] - pair["together"] < joining["gain"]
    assert "no choice gains more" in tenon("explain", model, *WORDS).stdout


def test_the_reason_has_both_gains(tmp_path):
    model = chain(tmp_path)
    assert all("are in kernel" in tenon("explain", model, "--why", pair, *WORDS).stdout for pair in ("s,p", "y,z"))
    said = tenon("explain", model, "--why", "p,y", *WORDS).stdout
    found = re.search(r"rival: together (.+?), apart (.+?), by their best schedules: gains (.+?), given up for 2 kernels, one with .+?, that gain (.+)\n", said)
    together, apart, gain, rivals = map(microseconds, found.groups())
    assert abs(apart - together - gain) < 0.02 * apart and rivals > gain > 0, said


def test_it_computes_what_the_interpreter_does(tmp_path):
    done = tenon("verify", chain(tmp_path), *WORDS)
    assert done.returncode == 0 and "agrees" in done.stdout, done.stderr
