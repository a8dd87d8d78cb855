"""Limits are promises: on models made to break them they hold, within a tenth, and the message says the
limit, how much was needed as far as it is known, and the option that raises it. doc/limits.md lists them.
"""
import re
import resource
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from targets import SANITIZED
from test_cli import LIMIT, OK, TENON, USAGE, Tenon, model, tenon    # noqa: F401  fixtures
from test_models import field

ROOT = Path(__file__).resolve().parents[2]


def chain(nodes, extent=64):
    """Elementwise nodes one after the other: each little, all together much."""
    lines = [f"graph @t(%x: f32[batch, {extent}]) -> (%v{nodes - 1}) {{"]
    lines += [f"  %v{i}: f32[batch, {extent}] = {'tanh' if i % 2 else 'exp'}(%{f'v{i - 1}' if i else 'x'})" for i in range(nodes)]
    return "\n".join(lines) + "\n}\n"


def run(tenon, *args, env=None):
    """The exit code, the message, the seconds of processor time, and the peak memory [bytes] of it and of the largest of
    its children."""
    done = subprocess.run(["/usr/bin/env", "python3", "-c",
                           "import resource, subprocess, sys\n"
                           "s = subprocess.run(sys.argv[1:]).returncode\n"
                           "use = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
                           "print(use.ru_utime + use.ru_stime, use.ru_maxrss * 1024)\n"
                           "sys.exit(s)", TENON, *map(str, args)],
                          cwd=tenon.folder / "work", env=tenon.env | (env or {}), capture_output=True, text=True, timeout=120)
    seconds, peak = done.stdout.split()[-2:]
    return done.returncode, done.stderr, float(seconds), int(peak)


# ---- the arena -----------------------------------------------------------------------------------------


def test_max_arena_tells_both_numbers(tenon):
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Tanh", ["a"], ["b"]), helper.make_node("Add", ["a", "b"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4096]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "arena", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              tenon.folder / "work" / "two.onnx")
    compile = ["compile", "two.onnx", "-o", "m.so", "--fuse", "none"]
    assert "arena 512.0 KB" in tenon(*compile, "--dim", "n=16", "--max-arena", "512K").stdout
    (tenon.folder / "work" / "m.so").unlink()
    for dim, allowed, says in ((["--dim", "n=16"], "511K", "take 512.0 KB at once, the arena; it may take 511.0 KB (--max-arena, max_arena_bytes)"),
                               ([], "1G", "the arena, depends on n, and has no bound; it may take 1.0 GB (--max-arena, max_arena_bytes)"),
                               (["--dim", "n=1..64"], "1M", "take 2.0 MB at once, the arena; it may take 1.0 MB (--max-arena, max_arena_bytes)")):
        tenon.fails(LIMIT, *compile, *dim, "--max-arena", allowed, says=says)
        assert not (tenon.folder / "work" / "m.so").exists()
    assert tenon(*compile, "--dim", "n=1..16", "--max-arena", "512K").returncode == OK


# ---- time ------------------------------------------------------------------------------------------


def within(seconds, limit):
    """Processor time of what computes on one thread: on an idle machine it is the clock's, on a busy one it is less,
    so that what passes here is not a matter of the neighbours. The rest is the program's start and its end."""
    return seconds < limit * 1.1 + (1 if SANITIZED else 0.1)


@pytest.mark.parametrize("limit", [0.5, 0.02])
def test_max_time_holds_in_long_chains(tenon, limit):
    (tenon.folder / "work" / "long.tn").write_text(chain(40000))
    code, said, seconds, _ = run(tenon, "compile", "long.tn", "-o", "m.so", "--max-time", limit)
    assert code == LIMIT, said
    assert f"may take {limit} s (--max-time, max_seconds)" in said and "in stage" in said
    assert within(seconds, limit)
    tenon.leaves_nothing()


def test_max_time_holds_while_constants_are_computed(tenon):
    """A product of constants, just small enough beside the model's weights to be folded."""
    text = ("graph @t(%x: f32[640, 640], %z: f32[8000000]) -> (%y, %u) {\n  %a: f32[640, 640] = const file \"w.bin\" 0\n"
            "  %k: f32[8000000] = const file \"w.bin\" 0\n  %u: f32[8000000] = add(%z, %k)\n"
            "  %c: f32[640, 640] = matmul(%a, %a)\n  %y: f32[640, 640] = add(%x, %c)\n}\n")
    np.ones(8000000, np.float32).tofile(tenon.folder / "work" / "w.bin")
    (tenon.folder / "work" / "fold.tn").write_text(text)
    code, said, seconds, _ = run(tenon, "compile", "fold.tn", "-o", "m.so", "--max-time", 0.05)
    assert code == LIMIT and "in stage fold" in said and within(seconds, 0.05), (said, seconds)


def test_max_time_holds_while_the_c_compiler_works(tenon, model):
    slow = tenon.folder / "slow"
    slow.write_text("#!/bin/sh\ncase \" $* \" in *\" -dM \"*) exec cc \"$@\";; esac\nsleep 60\n")
    slow.chmod(0o755)
    start = time.time()
    code, said, _, _ = run(tenon, "compile", model, "-o", "m.so", "--cc", slow, "--max-time", 1)
    assert code == LIMIT and re.search(r"in stage build, 0 of \d+ kernels done", said), said
    assert time.time() - start < 30              # the compiler sleeps for 60, and a busy machine may sleep as well
    tenon.leaves_nothing()


def test_max_time_is_no_hindrance(tenon, model):
    assert tenon("compile", model, "-o", "m.so", "--max-time", 100).returncode == OK
    tenon.fails(USAGE, "compile", model, "--max-time", "-1", says="a number of 0 or more")


# ---- memory ----------------------------------------------------------------------------------------

ITSELF = 12 << 20            # the program and its libraries


@pytest.mark.skipif(SANITIZED, reason="a sanitizer takes memory of its own")
@pytest.mark.parametrize("limit", [50, 200])
def test_max_memory_holds(tenon, limit):
    (tenon.folder / "work" / "long.tn").write_text(chain(60000))
    code, said, _, peak = run(tenon, "compile", "long.tn", "-o", "m.so", "--max-memory", f"{limit}M")
    assert code == LIMIT, said
    assert re.search(rf"may use {limit}\.0 MB \(--max-memory, max_memory_bytes\); it had [\d.]+ MB and needed [\d.]+ MB more in stage", said)
    assert peak < (limit << 20) * 1.1 + ITSELF + (8 << 20 if limit > 100 else 0)
    tenon.leaves_nothing()


@pytest.mark.skipif(SANITIZED, reason="a sanitizer takes memory of its own")
def test_max_memory_counts_what_an_onnx_file_unpacks_to(tenon):
    """Nodes of two bytes on disk become hundreds in memory."""
    (tenon.folder / "work" / "many.onnx").write_bytes(field(7, field(1, b"") * 900000) + bytes([8, 8]) + field(8, bytes([16, 17])))
    code, said, _, peak = run(tenon, "compile", "many.onnx", "-o", "m.so", "--max-memory", "60M")
    assert code == LIMIT and "may use 60.0 MB" in said, said
    assert peak < (60 << 20) * 1.1 + ITSELF


@pytest.mark.skipif(SANITIZED, reason="a sanitizer takes memory of its own")
def test_max_memory_holds_for_the_c_compiler(tenon, model):
    hungry = tenon.folder / "hungry"
    hungry.write_text("#!/bin/sh\ncase \" $* \" in *\" -dM \"*) exec cc \"$@\";; esac\n"
                      "exec python3 -c 'x = bytearray(400 << 20)' || echo 'virtual memory exhausted: Cannot allocate memory'\n")
    hungry.write_text(hungry.read_text().replace("exec python3", "python3"))
    hungry.chmod(0o755)
    code, said, _, peak = run(tenon, "compile", model, "-o", "m.so", "--cc", hungry, "--max-memory", "200M")
    assert code == LIMIT and "--max-memory" in said and "--jobs" in said, said
    assert peak < (200 << 20) * 1.1


def test_enough_memory_is_no_hindrance(tenon, model):
    assert tenon("compile", model, "-o", "m.so", "--max-memory", "300M", "--no-cache").returncode == OK


# ---- sizes of the model ------------------------------------------------------------------------------


def test_max_nodes(tenon):
    (tenon.folder / "work" / "c.tn").write_text(chain(50))
    tenon.fails(LIMIT, "compile", "c.tn", "--max-nodes", "49", "-o", "m.so", says="the model has 50 nodes, the limit is 49; raise it with --max-nodes")
    assert tenon("compile", "c.tn", "--max-nodes", "50", "-o", "m.so", "--stop-after", "lower").returncode == OK
    relu = helper.make_graph([helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(50)], "g",
                             [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [4])], [helper.make_tensor_value_info("v50", TensorProto.FLOAT, [4])])
    onnx.save(helper.make_model(relu, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tenon.folder / "work" / "c.onnx")
    tenon.fails(LIMIT, "compile", "c.onnx", "--max-nodes", "49", "-o", "m.so", says="the model has 50 nodes, the limit is 49; raise it with --max-nodes")


def test_max_model(tenon, model):
    (tenon.folder / "work" / "c.tn").write_text(chain(50))
    for path in model, tenon.folder / "work" / "c.tn":
        size = path.stat().st_size
        tenon.fails(LIMIT, "compile", path, "--max-model", size - 1, "-o", "m.so",
                    says=f"the model has {size} bytes, the limit is {size - 1}; raise it with --max-model")
        assert tenon("compile", path, "--max-model", size, "-o", "m.so", "--stop-after", "lower").returncode == OK


def test_max_depth(tenon):
    def nested(depth):
        graph = b""
        for _ in range(depth):
            graph = field(1, field(5, field(6, graph)))
        (tenon.folder / "work" / "deep.onnx").write_bytes(field(7, graph))
    nested(70)
    says = "nested 212 levels deep, the limit is 200; raise it with --max-depth"
    tenon.fails(LIMIT, "compile", "deep.onnx", "-o", "m.so", says=says)
    done = tenon("compile", "deep.onnx", "-o", "m.so", "--max-depth", "212")
    assert done.returncode not in (OK, LIMIT) and "levels deep" not in done.stderr
    tenon.fails(LIMIT, "compile", "deep.onnx", "-o", "m.so", "--max-depth", "211", says="the limit is 211")
    nested(50000)
    tenon.fails(LIMIT, "compile", "deep.onnx", "-o", "m.so", "--max-depth", "1000000", says="nested 150002 levels deep, the limit is 1000")


# ---- the page ------------------------------------------------------------------------------------------


def test_the_manual_lists_every_limit(tenon):
    page = (ROOT / "doc" / "manual" / "docs" / "limits.md").read_text()
    assert "- limits.md" in (ROOT / "doc" / "manual" / "mkdocs.yml").read_text()
    for option in re.findall(r"--max-(?!int)[a-z]+", tenon("compile", "--help").stdout):
        assert f"`{option}`" in page
    for field_name in "max_model_bytes", "max_nodes", "max_memory_bytes", "max_seconds", "max_depth":
        assert f"`{field_name}`" in page and field_name in (ROOT / "include" / "tenon.h").read_text()
