"""No recursion whose depth a model decides: what is nested deeper than --max-depth is refused with one message, what is
nested as deep as the limit is compiled, and what is only long needs next to no stack.
"""
import os
import resource

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from targets import SANITIZED
from test_cli import LIMIT, OK, TENON, Tenon, tenon    # noqa: F401  fixtures
from test_models import field

LEVELS, OPERATIONS = 200, 1000                   # the default of --max-depth, and what it allows in one value


def stack(kilobytes):
    """For a child process; a sanitizer's frames are many times as large."""
    limit = kilobytes * 1024 * (32 if SANITIZED else 1)
    return lambda: resource.setrlimit(resource.RLIMIT_STACK, (limit, limit))


SMALL, USUAL = stack(256), stack(8192)


def nest(body, pre=""):
    return (f"graph @g(%x: f32[n]) -> (%o) {{\n  %o: f32[n] = call(%x) nest a(x: f32[n]) -> (o: f32[n]) {{\n    {pre}o[i] = {body}\n  }}\n}}\n")


def size(text):
    return f"graph @g(%x: f32[n, m], %y: f32[{text}]) -> (%o) {{\n  %o: f32[{text}] = relu(%y)\n}}\n"


def lets(n):
    return nest("let t0 = exp(x[i]) in\n" + "".join(f"let t{i} = exp(t{i - 1}) in\n" for i in range(1, n)) + f"t{n - 1}")


def graphs(n):
    """If in If in If …"""
    head = "(%c: bool[], %x: f32[4]) -> (%o) {\n"
    text = ["graph @g" + head]
    text += [f"%o: f32[4] = if(%c, %c, %x) graph @a{i}{head}" for i in range(n)]
    text += ["%o: f32[4] = exp(%x)\n}\n"]
    text += [f"graph @b{i}{head}%o: f32[4] = relu(%x)\n}}\n}}\n" for i in range(n)]
    return "".join(text)


def chain(n):
    ops = "exp", "tanh"
    lines = [f"%v{i}: f32[batch, 64] = {ops[i % 2]}(%{f'v{i - 1}' if i else 'x'})\n" for i in range(n)]
    return f"graph @g(%x: f32[batch, 64]) -> (%v{n - 1}) {{\n{''.join(lines)}}}\n"


def functions(n):
    """Each calls the next."""
    text = [f"graph @f{i}(%x: f32[4]) -> (%o) {{\n  %o: f32[4] = {f'call @f{i + 1}(%x)' if i < n - 1 else 'exp(%x)'}\n}}\n" for i in range(n)]
    return "".join(text) + "graph @g(%x: f32[4]) -> (%o) {\n  %o: f32[4] = call @f0(%x)\n}\n"


def expression(text):
    return f"graph @g(%x: f32[4]) -> (%y) {{\n  %y = {text}\n}}\n"


TEXTS = {                                        # a text nested n deep; an n near the largest allowed
    "parentheses": (lambda n: nest("(" * n + "x[i]" + ")" * n), LEVELS // 2 - 5),
    "calls":       (lambda n: nest("exp(" * n + "x[i]" + ")" * n), LEVELS // 2 - 5),
    "lets":        (lets, OPERATIONS - 10),
    "factors":     (lambda n: nest("x[i]" + " * exp(x[i])" * n), OPERATIONS - 10),
    "indices":     (lambda n: nest("x[" * n + "i" + "]" * n).replace("f32", "i64"), LEVELS // 2 - 5),
    "reductions":  (lambda n: nest("".join(f"sum k{i}<2>: " for i in range(n)) + "x[i]"), 20),
    "size":        (lambda n: size("(" * n + "n" + ")" * n), LEVELS - 5),
    "quotients":   (lambda n: size("n" + " // 2 * 3 % 1000001" * n), 400),
    "maxima":      (lambda n: size("max(m, 3 * " * n + "n" + ")" * n), LEVELS // 2 - 5),
    "graphs":      (graphs, LEVELS - 1),
    "values":      (lambda n: expression("abs(" * n + "%x" + ")" * n), LEVELS - 5),
    "signs":       (lambda n: expression("-" * n + "%x"), LEVELS - 5),
    "lists":       (lambda n: expression("reshape(%x, " + "[" * n + "4" + "]" * n + ")"), LEVELS - 5),
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_a_million_deep_is_refused(tenon, what):
    make, _ = TEXTS[what]
    (tenon.folder / "work" / "m.tn").write_text(make(10000 if what == "reductions" else 100000 if what == "graphs" else 1000000))
    done = tenon("compile", "m.tn", "-o", "m.so", limit=SMALL)
    if what == "reductions":
        assert "more than 64 axes" in done.stderr or "deep" in done.stderr, done.stderr
    else:
        assert done.returncode == LIMIT and " deep; raise the limit with --max-depth" in done.stderr, done.stderr
    assert done.stderr.count("error") == 1


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_as_deep_as_may_be_is_compiled(tenon, what):
    make, n = TEXTS[what]
    (tenon.folder / "work" / "m.tn").write_text(make(n))
    done = tenon("compile", "m.tn", "-o", "m.so", "--stop-after", "emit", limit=USUAL)
    assert done.returncode == OK, done.stderr


def test_the_limit_is_the_users(tenon):
    (tenon.folder / "work" / "m.tn").write_text(graphs(12))
    tenon.fails(LIMIT, "compile", "m.tn", "-o", "m.so", "--max-depth", "11", says="graphs are nested more than 11 deep; raise the limit with --max-depth")
    assert tenon("compile", "m.tn", "-o", "m.so", "--max-depth", "12", "--stop-after", "lower").returncode == OK
    (tenon.folder / "work" / "m.tn").write_text(lets(1200))
    tenon.fails(LIMIT, "compile", "m.tn", "-o", "m.so", says="a value's operations are more than 1000 deep")
    assert tenon("compile", "m.tn", "-o", "m.so", "--max-depth", "250", "--stop-after", "lower").returncode == OK


@pytest.mark.parametrize("make, n", [(chain, 100000 if os.environ.get("TENON_NIGHTLY") else 20000), (functions, 3000)], ids=["nodes", "functions"])
def test_what_is_only_long_needs_no_stack(tenon, make, n):
    (tenon.folder / "work" / "m.tn").write_text(make(n // 10 if SANITIZED else n))
    done = tenon("compile", "m.tn", "-o", "m.so", "--stop-after", "emit", limit=SMALL)
    assert done.returncode == OK, done.stderr


# ---- ONNX ------------------------------------------------------------------------------------------


def save(tenon, graph, functions=()):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8), tenon.folder / "work" / "m.onnx")


def value(name, dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def nested_ifs(n):
    """As bytes: Python's protobuf goes less deep."""
    def info(name, dtype, shape):
        return field(1, name) + field(2, field(1, bytes([8, dtype]) + field(2, shape)))

    def graph(nodes, output, inputs=b""):
        return field(1, nodes) + field(2, b"g") + inputs + field(12, info(output, 1, field(1, bytes([8, 4]))))
    inner = graph(field(1, b"x") + field(2, b"r") + field(4, b"Exp"), b"r")
    for i in range(n):
        leaf = graph(field(1, b"x") + field(2, b"e%d" % i) + field(4, b"Relu"), b"e%d" % i)
        branch = [field(5, field(1, name) + field(6, g) + b"\xa0\x01\x05") for name, g in ((b"then_branch", inner), (b"else_branch", leaf))]
        inputs = field(11, info(b"x", 1, field(1, bytes([8, 4])))) + field(11, info(b"c", 9, b"")) if i == n - 1 else b""
        inner = graph(field(1, b"c") + field(2, b"r%d" % i) + field(4, b"If") + b"".join(branch), b"r%d" % i, inputs)
    return bytes([8, 8]) + field(7, inner) + field(8, field(1, b"") + bytes([16, 17]))


@pytest.mark.parametrize("n, code", [(60, OK), (70, LIMIT), (3000, LIMIT)])
def test_ifs_in_ifs(tenon, n, code):
    (tenon.folder / "work" / "m.onnx").write_bytes(nested_ifs(n))
    done = tenon("compile", "m.onnx", "-o", "m.so", "--stop-after", "emit", limit=SMALL if code == LIMIT else USUAL)
    assert done.returncode == code, done.stderr
    assert code == OK or "raise it with --max-depth" in done.stderr


def calling(n, times):
    """Function i calls function i + 1, `times` times over; the last takes exponentials."""
    made = []
    for i in range(n):
        op, domain = ("Exp", "") if i == n - 1 else (f"f{i + 1}", "f")
        nodes = [helper.make_node(op, [f"v{k}"], [f"v{k + 1}"], domain=domain) for k in range(times)]
        made.append(helper.make_function("f", f"f{i}", ["v0"], [f"v{times}"], nodes, [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]))
    return helper.make_graph([helper.make_node("f0", ["x"], ["y"], domain="f")], "g", [value("x", [4])], [value("y", [4])]), made


def test_functions_in_functions(tenon):
    save(tenon, *calling(LEVELS - 1, 1))
    assert tenon("compile", "m.onnx", "-o", "m.so", "--stop-after", "emit", limit=USUAL).returncode == OK
    save(tenon, *calling(LEVELS, 1))
    tenon.fails(LIMIT, "compile", "m.onnx", "-o", "m.so", limit=USUAL, says="calls of functions are nested more than 200 deep; raise the limit with --max-depth")
    save(tenon, *calling(50, 1))
    tenon.fails(LIMIT, "compile", "m.onnx", "-o", "m.so", "--max-depth", "40", says="nested more than 40 deep")


def test_functions_that_double(tenon):
    """A few kilobytes that stand for 2^40 nodes."""
    save(tenon, *calling(40, 2))
    tenon.fails(LIMIT, "compile", "m.onnx", "-o", "m.so", "--max-nodes", "50000", limit=USUAL, says="more nodes than the limit; raise it with --max-nodes")


@pytest.mark.parametrize("n", [100, 500 if SANITIZED and not os.environ.get("TENON_NIGHTLY") else 2000])
def test_sizes_of_sizes(tenon, n):
    """Arithmetic on sizes in a chain that no identity shortens, then with each term twice."""
    number = lambda name, v: numpy_helper.from_array(np.array(v, "int64"), name)
    for twice in False, True:
        nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "zero"], ["d0"], axis=0)]
        for i in range(n):
            nodes += [helper.make_node("Div", [f"d{i}", "two"], [f"p{i}"]), helper.make_node("Mod", [f"d{i}" if twice else "three", "three"], [f"q{i}"]),
                      helper.make_node("Mul", [f"p{i}", "three"], [f"m{i}"]), helper.make_node("Add", [f"m{i}", f"q{i}"], [f"d{i + 1}"])]
        nodes += [helper.make_node("Unsqueeze", [f"d{n}", "list"], ["shape"]), helper.make_node("ConstantOfShape", ["shape"], ["y"])]
        save(tenon, helper.make_graph(nodes, "g", [value("x", ["n"])], [value("y", None)],
                                      [number("zero", 0), number("two", 2), number("three", 3), number("list", [0])]))
        done = tenon("compile", "m.onnx", "-o", "m.so", "--stop-after", "emit", limit=USUAL)
        assert done.returncode in (OK, LIMIT), done.stderr
        assert done.returncode == OK or "--max-depth" in done.stderr, done.stderr


def test_loops_of_sequences_in_loops(tenon):
    """A sequence that grows in a loop, in a loop, in a loop …"""
    number = lambda name, v, t="int64": helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(v, t)))
    info = helper.make_tensor_value_info

    def body(i, inner):
        ins = [info(f"t{i}", TensorProto.INT64, []), info(f"c{i}", TensorProto.BOOL, []), helper.make_tensor_sequence_value_info(f"s{i}", TensorProto.FLOAT, None)]
        out = f"s{i}_"
        if inner:
            nodes = [number(f"n{i}", 2), number(f"y{i}", True, "bool"), helper.make_node("Loop", [f"n{i}", f"y{i}", f"s{i}"], [out], body=inner)]
        else:
            nodes = [helper.make_node("SequenceInsert", [f"s{i}", "x"], [out])]
        nodes.append(helper.make_node("Identity", [f"c{i}"], [f"k{i}"]))
        return helper.make_graph(nodes, f"b{i}", ins, [info(f"k{i}", TensorProto.BOOL, []), helper.make_tensor_sequence_value_info(out, TensorProto.FLOAT, None)])
    graph = None
    for i in range(8):
        graph = body(i, graph)
    nodes = [number("n", 2), number("y", True, "bool"), helper.make_node("SequenceConstruct", ["x"], ["s"]),
             helper.make_node("Loop", ["n", "y", "s"], ["r"], body=graph), helper.make_node("ConcatFromSequence", ["r"], ["o"], axis=0)]
    save(tenon, helper.make_graph(nodes, "g", [value("x", [4])], [value("o", None)]))
    assert tenon("compile", "m.onnx", "-o", "m.so", "--stop-after", "emit", limit=USUAL).returncode == OK
    tenon.fails(LIMIT, "compile", "m.onnx", "-o", "m.so", "--max-depth", "8", says="--max-depth")


COUNTS_DOWN = """graph @f(%n: i64[], %x: f32[4]) -> (%y) {
  %zero: i64[] = const [0]
  %stop: bool[] = equal(%n, %zero)
  %y: f32[4] = if(%stop, %n, %x)
    graph @last(%n: i64[], %x: f32[4]) -> (%z) { %z: f32[4] = relu(%x) }
    graph @more(%n: i64[], %x: f32[4]) -> (%z) {
      %one: i64[] = const [1]
      %m: i64[] = sub(%n, %one)
      %r: f32[4] = call @f(%m, %x)
      %z: f32[4] = tanh(%r)
    }
}
graph @g(%n: i64[], %x: f32[4]) -> (%y) { %y: f32[4] = call @f(%n, %x) }
"""


def test_calls_end_before_the_stack_does(tenon):
    """A limit on calls that is larger than the stack: refused, not a crash; on a heap there is room."""
    (tenon.folder / "work" / "m.tn").write_text(COUNTS_DOWN)
    np.save(tenon.folder / "work" / "n.npy", np.int64(100_000))
    np.save(tenon.folder / "work" / "x.npy", np.ones(4, np.float32))
    given = ["--input", "n=@n.npy", "--input", "x=@x.npy"]
    assert tenon("compile", "m.tn", "-o", "m.so", "--max-calls", "200000").returncode == OK
    for most in (SMALL,) if SANITIZED else (SMALL, USUAL):         # a sanitizer's has room for all
        tenon.fails(LIMIT, "run", "m.so", *given, limit=most, says="the thread's stack has no room for more")
    assert tenon("compile", "m.tn", "--many", "-o", "many.so", "--max-calls", "200000").returncode == OK
    assert tenon("run", "many.so", *given, limit=SMALL).returncode == OK
