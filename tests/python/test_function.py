"""Structured values: data types as classes, functions on them, cells of ONNX; in Tenon's text and
in Python's."""

import dataclasses
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import tenon
from conftest import model_of
from tenon import ops

WIDE, WORDS = 8, 30
RNG = np.random.default_rng(3)
TABLE = RNG.normal(size=(WORDS, WIDE)).astype("f4")
CELL = (0.3 * RNG.normal(size=(2 * WIDE, WIDE))).astype("f4")
ONE = np.array([1])


@tenon.data
class Leaf:
    word: int


@tenon.data
class Node:
    left: "Tree"
    right: "Tree"


Tree = Leaf | Node


@tenon.function
def encode(t: Tree) -> "f32[1, 8]":
    match t:
        case Leaf(word):
            return ops.tanh(ops.gather(TABLE, ops.reshape(word, ONE), axis=0))
        case Node(left, right):
            both = ops.concat(encode(left), encode(right), axis=1)
            return ops.tanh(both @ CELL)


def numpy_encode(t):
    if isinstance(t, Leaf):
        return np.tanh(TABLE[t.word : t.word + 1].astype("f8"))
    return np.tanh(
        np.concatenate([numpy_encode(t.left), numpy_encode(t.right)], 1) @ CELL.astype("f8")
    )


def random_tree(rng, leaves):
    if leaves == 1:
        return Leaf(int(rng.integers(WORDS)))
    cut = int(rng.integers(1, leaves))
    return Node(random_tree(rng, cut), random_tree(rng, leaves - cut))


@pytest.fixture(scope="module")
def model():
    return tenon.compile(encode, many=True)


def test_against_numpy(model):
    """Together as alone, bit for bit, and as NumPy has it."""
    assert model.single is None
    rng = np.random.default_rng(1)
    trees = [random_tree(rng, int(n)) for n in rng.integers(1, 30, 40)]
    session, alone = model.session(threads=2), model.session(threads=1)
    together = session.run_many([{"t": t} for t in trees])
    for t, got in zip(trees, together):
        np.testing.assert_allclose(got["result"], numpy_encode(t), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(alone.run({"t": t})["result"], got["result"])
    np.testing.assert_array_equal(model(trees[0]), together[0]["result"])


def test_forms_of_values(model):
    """Objects, tuples, dicts as JSON has them, and rows with their columns are one value."""
    t = Node(Node(Leaf(1), Leaf(2)), Leaf(3))
    want = model(t)
    forms = [
        ("Node", ("Node", ("Leaf", 1), ("Leaf", 2)), ("Leaf", 3)),
        json.loads(
            '{"node": {"left": {"node": [{"leaf": 1}, {"leaf": [2]}]}, "right": {"leaf": {"word": '
            "3}}}}"
        ),
    ]
    for form in forms:
        np.testing.assert_array_equal(model(form), want)
    arrays = encode.arrays(t=t)
    assert sorted(arrays) == ["Tree.left", "Tree.right", "Tree.tag", "Tree.word", "t"]
    np.testing.assert_array_equal(model.run(arrays)["result"], want)
    loaded = tenon.load(model.path)
    np.testing.assert_array_equal(loaded.run(arrays)["result"], want)


def test_what_is_shared_is_one_row(model):
    leaf = Leaf(4)
    t = leaf
    for _ in range(6):
        t = Node(t, t)
    arrays = encode.arrays(t=t)
    assert len(arrays["Tree.tag"]) == 7 and arrays["t"] == 6
    np.testing.assert_allclose(model(t), numpy_encode(t), rtol=1e-4, atol=1e-5)
    assert len(encode.arrays(t=Node(Leaf(4), Leaf(4)))["Tree.tag"]) == 3


def test_circles_and_other_mistakes(model):
    good = {"t": Leaf(1)}
    circle = Node(Leaf(1), Leaf(2))
    object.__setattr__(circle, "right", Node(Leaf(3), circle))
    wrong = [
        (circle, "contains itself"),
        (5.5, "none of its values"),
        (("Twig", 1), "Tree has no constructor 'Twig'; it has Leaf, Node"),
        ({"node": {"left": 1}}, "fields left are given, left, right are wanted"),
        (("Node", ("Leaf", 1)), "for its 2 fields"),
        (Leaf(1.5), "Tree.word: 1.5 is given; i64 holds whole numbers from -9223372036854775808"),
        (Leaf([1, 2]), "a value has shape"),
    ]
    answers = model.session().run_many([good] + [{"t": t} for t, _ in wrong] + [good])
    for (_, says), answer in zip(wrong, answers[1:]):
        assert isinstance(answer, tenon.UsageError) and says in str(answer), answer
    np.testing.assert_array_equal(answers[0]["result"], answers[-1]["result"])


def test_an_index_names_the_line_of_python(model):
    """Of the operator that reads outside, though it is fused with others."""
    line = line_of(encode, "gather")
    for made in (model, tenon.compile(encode)):
        with pytest.raises(tenon.UsageError) as e:
            made(Node(Leaf(3), Leaf(99)))
        said = str(e.value)
        assert f"{__file__}: error: " in said and f"gather test_function.py:{line}" in said, said
        assert "index 99 is outside" in said and ".tn" not in said, said


def test_bad_rows(model):
    """Each is refused with the column and both numbers, and takes no other request with it."""

    def rows(**changed):
        tree = {
            "t": 2,
            "Tree.tag": [0, 0, 1],
            "Tree.word": [1, 2, 0],
            "Tree.left": [0, 0, 0],
            "Tree.right": [0, 0, 1],
        }
        return {
            k: np.array(v)
            for k, v in (
                tree | {f"Tree.{k}" if k != "t" else k: v for k, v in changed.items()}
            ).items()
        }

    wrong = [
        (
            rows(left=[0, 0, 2]),
            'child "Tree.left"',
            "index 2 is outside of 0 <= i < 2",
        ),  # of itself
        (rows(right=[0, 0, 7]), 'child "Tree.right"', "index 7 is outside of 0 <= i < 2"),
        (rows(left=[0, 0, -1]), 'child "Tree.left"', "index -1 is outside of 0 <= i < 2"),
        (rows(tag=[0, 0, 2]), '"Tree.tag", of 2 constructors', "index 2 is outside of 0 <= i < 2"),
        (
            rows(tag=[0, -1, 1]),
            '"Tree.tag", of 2 constructors',
            "index -1 is outside of 0 <= i < 2",
        ),
        (rows(t=3), '"Tree.tag"', "index 3 is outside of 0 <= i < 3"),
        (rows(t=-1), '"Tree.tag"', "index -1 is outside of 0 <= i < 3"),
    ]
    answers = model.session().run_many([rows()] + [r for r, _, _ in wrong])
    np.testing.assert_array_equal(answers[0]["result"], model(Node(Leaf(1), Leaf(2))))
    for (_, column, numbers), answer in zip(wrong, answers[1:]):
        assert (
            isinstance(answer, tenon.UsageError)
            and column in str(answer)
            and numbers in str(answer)
        ), answer


def test_deep():
    """A chain 100,000 deep, as rows without recursion, and in the model by calls that Tenon
    counts."""
    deep = 100_000
    t = Leaf(0)
    for i in range(deep):
        t = Node(t, Leaf(i % WORDS))
    model = tenon.compile(encode, many=True, max_calls=2 * deep)
    h = TABLE[:1].astype("f8")
    h = np.tanh(h)
    leaves = np.tanh(TABLE.astype("f8"))
    for i in range(deep):
        h = np.tanh(np.concatenate([h, leaves[i % WORDS : i % WORDS + 1]], 1) @ CELL.astype("f8"))
    np.testing.assert_allclose(model(t), h, rtol=1e-3, atol=1e-4)
    few = tenon.compile(encode, many=True, max_calls=1000)
    with pytest.raises(tenon.LimitError, match="--max-calls"):
        few(t)


# ---- cells, several types, loops -----------------------------------------------------------------


@tenon.data
class Nil:
    pass


@tenon.data
class Cons:
    head: "f32[2]"
    tail: "List"


List = Nil | Cons


@tenon.data
class Pair:
    tree: Tree
    list: List
    weight: float


@tenon.function
def total(list: List, sum: "f32[2]") -> "f32[2]":
    match list:
        case Cons(head, tail):
            sum = total(tail, sum + head)
        case _:
            pass
    return sum


@tenon.function
def last(list: List) -> List:
    match list:
        case Nil():
            return list
        case Cons(_, tail):
            match tail:
                case Nil():
                    return list
                case Cons():
                    return last(tail)


@tenon.function
def pair(p: Pair, turns: int, big: bool) -> tuple["f32[2]", "f32[2]", "f32[1, 8]"]:
    zero = np_zero
    match p:
        case Pair(list=l, weight=w, tree=t):
            sum = total(l, zero) * w
            end = total(last(l), zero)
            for i in range(turns):
                if big:
                    sum = sum + sum
                else:
                    sum = -sum
            if turns > 2 and not big:
                return end, sum, encode(t)
            h = encode(t)
    return sum, end, h * 2.0


np_zero = np.zeros(2, "f4")


def test_several_types_loops_and_branches():
    model = tenon.compile(pair, many=True)
    l = Cons(np.array([1, 2], "f4"), Cons([3, 4], Cons((5, 6), Nil())))
    p = Pair(Node(Leaf(1), Leaf(2)), l, 0.5)
    tree, sum, end = numpy_encode(p.tree), np.array([4.5, 6]), np.array([5, 6])
    wanted = [
        ((2, True), (4 * sum, end, 2 * tree)),
        ((1, False), (-sum, end, 2 * tree)),
        ((4, False), (end, sum, tree)),
        ((0, True), (sum, end, 2 * tree)),
    ]
    answers = model.session().run_many(
        [{"p": p, "turns": np.array(n), "big": np.array(b)} for (n, b), _ in wanted]
    )
    for (given, want), got in zip(wanted, answers):
        assert not isinstance(got, Exception), (given, got)
        for x, y in zip(want, got.values(), strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-5)


@tenon.data
class Num:
    value: float


@tenon.data
class Neg:
    of: "Expr"


@tenon.data
class Add:
    a: "Expr"
    b: "Expr"


@tenon.data
class Mul:
    a: "Expr"
    b: "Expr"


@tenon.data
class Sum:
    list: List


Expr = Num | Neg | Add | Mul | Sum


@tenon.function
def evaluate(e: Expr) -> float:
    match e:
        case Mul(a, b):
            return evaluate(a) * evaluate(b)
        case Add(a, b):
            return evaluate(a) + evaluate(b)
        case Sum(list):
            return ops.reduce_sum(total(list, np_zero), AXIS, keepdims=0)
        case Num(value):
            return value
        case Neg(of):
            return -evaluate(of)


AXIS = np.array([0])


def random_expression(rng, depth):
    kind = int(rng.integers(5)) if depth else 0
    if kind == 0:
        value = float(rng.integers(-3, 4))
        return Num(value), value
    if kind == 1:
        of, value = random_expression(rng, depth - 1)
        return Neg(of), -value
    if kind == 4:
        numbers = rng.integers(0, 5, (int(rng.integers(4)), 2))
        chain = Nil()
        for row in numbers:
            chain = Cons(row.astype("f4"), chain)
        return Sum(chain), float(numbers.sum())
    (a, x), (b, y) = random_expression(rng, depth - 1), random_expression(rng, depth - 1)
    return (Add(a, b), x + y) if kind == 2 else (Mul(a, b), x * y)


@tenon.function
def weigh(t: Tree, rows: "f32[n, 8]") -> "f32[n, 8]":
    """Of the leaves' words; a leaf of word 0 wants four rows, which only it may learn."""
    match t:
        case Leaf(word):
            if word == 0:
                rows = four(rows)
            else:
                rows = rows * 2.0
        case Node(left, right):
            rows = weigh(left, rows) + weigh(right, rows)
    return rows


@tenon.function
def four(rows: "f32[n, 8]") -> "f32[n, 8]":
    return rows + FOUR


FOUR = np.ones((4, 8), "f4")


def test_open_sizes():
    """Rows are any number; what one function learns of its own size is no other's."""
    model = tenon.compile(weigh, many=True)
    assert "weigh_n" in weigh.text() and "four_n" in weigh.text()
    rng = np.random.default_rng(4)
    t = Node(Leaf(1), Node(Leaf(2), Leaf(3)))
    for n in (1, 4, 7):
        rows = rng.normal(size=(n, 8)).astype("f4")
        np.testing.assert_allclose(model(t, rows), 6 * rows, rtol=1e-6)
    rows = rng.normal(size=(4, 8)).astype("f4")
    np.testing.assert_allclose(model(Node(Leaf(0), Leaf(1)), rows), 3 * rows + 1, rtol=1e-6)


def test_five_constructors():
    """A tree of choices between arms in another order than the constructors'."""
    model = tenon.compile(evaluate, many=True)
    assert model.single is None
    rng = np.random.default_rng(9)
    made = [random_expression(rng, 5) for _ in range(100)]
    answers = model.session().run_many([{"e": e} for e, _ in made])
    assert [float(a["result"]) for a in answers] == [value for _, value in made]
    assert [float(model(e)) for e, _ in made[:20]] == [value for _, value in made[:20]]


def cell_model(path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Concat", ["a", "b"], ["ab"], axis=1),
        helper.make_node("MatMul", ["ab", "w"], ["s"]),
        helper.make_node("Tanh", ["s"], ["o"]),
    ]
    io = [(name, TensorProto.FLOAT, ["batch", WIDE]) for name in "abo"]
    onnx.save(model_of(nodes, io[:2], io[2:], [numpy_helper.from_array(CELL, "w")]), path)
    return path


def test_a_cell_from_a_file(tmp_path, model):
    """What is written in ONNX is called like any function, from Python and from the text; its open
    batch is 1 here."""
    inner = tenon.cell(cell_model(tmp_path / "inner.onnx"))

    @tenon.function
    def with_cell(t: Tree) -> "f32[1, 8]":
        match t:
            case Leaf(word):
                return ops.tanh(ops.gather(TABLE, ops.reshape(word, ONE), axis=0))
            case Node(left, right):
                return inner(with_cell(left), with_cell(right))

    rng = np.random.default_rng(5)
    trees = [random_tree(rng, n) for n in (1, 2, 9, 20)]
    made = tenon.compile(with_cell, many=True)
    assert made.single is None
    for t in trees:
        np.testing.assert_allclose(made(t), numpy_encode(t), rtol=1e-4, atol=1e-5)
    path = pathlib.Path(with_cell.write(tmp_path))
    path.write_text(path.read_text().replace(str(tmp_path) + "/", ""))
    assert 'file "inner.onnx"' in path.read_text()
    beside = tenon.compile(path, many=True)
    for t in trees:
        np.testing.assert_array_equal(beside.run(with_cell.arrays(t=t))["result"], made(t))
    (tmp_path / "inner.onnx").unlink()
    with pytest.raises(tenon.Error, match="inner.onnx"):
        tenon.compile(path)


def test_the_interpreter_agrees(tmp_path):
    """`tenon verify` runs the text in the interpreter, with the columns of its own making."""
    path = tmp_path / "m.tn"
    path.write_text(total.text())
    l = Cons([1, 2], Cons([3, 4], Nil()))
    given = total.arrays(list=l, sum=np.zeros(2, "f4"))
    inputs = []
    for i, (name, x) in enumerate(given.items()):
        np.save(tmp_path / f"{i}.npy", x)
        inputs += ["--input", f"{name}=@{tmp_path / f'{i}.npy'}"]
    command = os.environ.get(
        "TENON", pathlib.Path(__file__).resolve().parents[2] / "build" / "tenon"
    )
    done = subprocess.run([command, "verify", path, *inputs], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(tenon.compile(total)(l, np.zeros(2, "f4")), [4, 6])


@tenon.data
class Named:
    a: int


@tenon.data
class Both(Named):
    b: int


@tenon.function
def fields(p: Both, n: int) -> "i64[]":
    match p:
        case Both(a, b):
            return a + ops.mul(b, n)


def test_inherited_fields_and_names_of_inputs(tmp_path):
    """Inputs that are not the function's are told by its parameters, not by columns."""
    session = tenon.compile(fields).session(threads=1)
    p = Both(1, 2)
    assert session(p, 3) == session(p, n=3) == session.run([p, 3])["result"] == 7
    for wrong in ({"p": p}, {"p": p, "m": 3}, {"p": p, "n": 3, "m": 3}, {}):
        said = f"inputs {', '.join(wrong) or 'none'} are given, fields takes p, n"
        for by in (session.run, session.sizes):
            with pytest.raises(tenon.UsageError, match=said):
                by(wrong)
    with pytest.raises(tenon.UsageError, match="3 inputs are given, fields takes 2: p, n"):
        session.run([p, 3, 4])
    with pytest.raises(tenon.UsageError, match="Both: int 5 is none of its values"):
        session.run({"p": 5, "n": 3})
    path = fields.write(tmp_path / "new" / "folder")
    assert tenon.compile(path).run(fields.arrays(p=p, n=3))["result"] == 7


FIRST, SECOND = np.arange(100, dtype="f4"), -np.arange(100, dtype="f4")


@tenon.function
def plus_first(x: "f32[100]") -> "f32[100]":
    return x + FIRST


@tenon.function
def plus_second(x: "f32[100]") -> "f32[100]":
    return x + SECOND


def test_functions_in_one_folder_keep_their_constants(tmp_path):
    paths = [f.write(tmp_path) for f in (plus_first, plus_second)]
    for path, constant in zip(paths, (FIRST, SECOND), strict=True):
        np.testing.assert_array_equal(tenon.compile(path)(np.ones(100, "f4")), 1 + constant)


# ---- numbers ----


@tenon.data
class Numbers:
    a: "i32[]"
    b: "f32[]"
    c: "u8[]"
    d: bool
    e: "i64[2]"


@tenon.function
def numbers(p: Numbers, n: int, x: "f32[2]") -> tuple["i32[]", "f32[]", "u8[]", "bool[]", "i64[2]"]:
    match p:
        case Numbers(a, b, c, d, e):
            return a + a, b + b, c + c, not d, e + ops.reshape(n, ONE)


def test_numbers_that_types_hold():
    session = tenon.compile(numbers, many=True).session(threads=1)
    most = 2**63 - 1
    good = {"a": -3, "b": 2**70, "c": 5, "d": True, "e": [most - 1, 2.0]}
    rest = {"n": 1.0, "x": (1, float("inf"))}
    names = [f"result{i}" for i in range(5)]

    def request(n=1.0, x=(1, 2), **fields):
        return {"p": Numbers(**{**good, **fields}), "n": n, "x": x}

    for r in (session.run(request()), session.run_many([{**request(), **rest}])[0]):
        assert [r[name].tolist() for name in names] == [-6, 2.0**71, 10, False, [most, 3]]
    i64 = "i64 holds whole numbers from -9223372036854775808 to 9223372036854775807"
    wrong = [
        ({"a": 7.9}, "Numbers.a: 7.9 is given; i32 holds whole numbers from -2147483648 to"),
        ({"a": 2**40}, "Numbers.a: 1099511627776 is given; i32 holds"),
        ({"a": None}, "Numbers.a: None is given; i32 holds"),
        ({"b": 1e300}, "Numbers.b: 1e+300 is given; f32 holds numbers up to 3.4e+38"),
        ({"b": 2**200}, "Numbers.b: 16069"),
        ({"c": 256}, "Numbers.c: 256 is given; u8 holds whole numbers from 0 to 255"),
        ({"c": -1}, "Numbers.c: -1 is given; u8 holds"),
        ({"d": 2}, "Numbers.d: 2 is given; bool is True or False"),
        ({"e": [1, [2]]}, "Numbers.e: lists of different lengths are given"),
        ({"e": [1, 2**63]}, f"Numbers.e: 9223372036854775808 is given; {i64}"),
        ({"n": 7.9}, f"input n: 7.9 is given; {i64}"),
        ({"n": 2**70}, f"input n: 1180591620717411303424 is given; {i64}"),
        ({"n": float("nan")}, f"input n: nan is given; {i64}"),
        ({"n": "3"}, f"input n: '3' is given; {i64}"),
        ({"n": None}, f"input n: None is given; {i64}"),
        ({"x": [1, 1e300]}, "input x: 1e+300 is given; f32 holds numbers up to 3.4e+38"),
        ({"x": [[1], [2, 3]]}, "input x: lists of different lengths are given"),
    ]
    answers = session.run_many([request(**changed) for changed, _ in wrong])
    for (_, says), answer in zip(wrong, answers):
        assert isinstance(answer, tenon.UsageError) and says in str(answer), answer


def test_division():
    """As Python has it: floats by /, whole numbers by //, towards minus infinity."""

    @tenon.function
    def halves(x: "f32[]", n: int, k: int) -> tuple["f32[]", "i64[]"]:
        x /= 2.0
        return x, n // k

    session = tenon.compile(halves, many=True).session(threads=1)
    pairs = [(n, k) for n in (-7, -6, -1, 0, 5, 7, -(2**63)) for k in (-3, -2, 1, 2, 3)]
    for (n, k), got in zip(pairs, session.run_many([{"x": 7, "n": n, "k": k} for n, k in pairs])):
        assert (float(got["result0"]), int(got["result1"])) == (3.5, n // k)

    def whole(n: int) -> "i64[]":
        n += 1
        return n / 2  # of ints

    def floats(x: "f32[]") -> "f32[]":
        y = x // x  # of floats
        return y

    for f, where, says in [
        (whole, "of ints", "x / y of whole numbers is a float in Python; write x // y, or"),
        (floats, "of floats", "x // y is for whole numbers; of floats write ops.floor(x / y)"),
    ]:
        said = refused(f)
        assert f"{__file__}:{line_of(f, where)}: error: {says}" in said, said


# ---- what is refused -----------------------------------------------------------------------------


def refused(f):
    with pytest.raises(tenon.Error) as e:
        tenon.compile(tenon.function(f))
    return str(e.value)


def line_of(f, text):
    import inspect

    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, l in enumerate(lines) if text in l)


def test_refused_statements():
    def loops(t: Tree) -> "f32[1]":
        while True:
            pass

    def lacks(t: Tree) -> "f32[1]":
        match t:
            case Leaf(w):
                return CELL

    def twice(t: Tree) -> "f32[1]":
        match t:
            case Leaf(w):
                return CELL
            case Leaf(v):
                return CELL

    def other(t: Tree) -> "f32[1]":
        match t:
            case Cons(a, b):
                return CELL

    def many_fields(t: Tree) -> "f32[1]":
        match t:
            case Leaf(a, b):
                return CELL
            case _:
                return CELL

    def nested(t: Tree) -> "f32[1]":
        match t:
            case Node(Leaf(a), _):
                return CELL
            case _:
                return CELL

    def guarded(t: Tree) -> "f32[1]":
        match t:
            case Leaf(a) if a > 1:
                return CELL
            case _:
                return CELL

    def attribute(t: Tree) -> "f32[1]":
        return t.left

    def made(t: Tree) -> Tree:
        return Node(t, t)

    def unknown(t: Tree) -> "f32[1]":
        return nothing_at_all

    def called(t: Tree) -> "f32[1]":
        return len(t)

    def index(x: "f32[4]") -> "f32[1]":
        return x[0]

    def text(x: "f32[]") -> "f32[]":
        return x + -"a"

    def untyped(x) -> "f32[1]":
        return x

    def no_result(x: int):
        return x

    def no_type(x: list[int]) -> "f32[1]":
        return x

    def ends(x: int, c: bool) -> "i64[]":
        if c:
            return x

    def nothing(x: int, c: bool) -> "i64[]":
        if c:
            y = x
        return x

    def breaks(x: int) -> "i64[]":
        for i in range(x):
            break
        return x

    rows = [
        (
            loops,
            "while",
            "while is not supported in a function that Tenon compiles; write a function that calls "
            "itself",
        ),
        (lacks, "match", "the match of Tree has no case for Node"),
        (twice, "Leaf(v)", "a second case for Leaf"),
        (other, "Cons", "Cons is a constructor of no data type that a parameter has"),
        (many_fields, "Leaf", "Leaf has 1 fields, 2 are named"),
        (nested, "Node", "Leaf(a) is no name; give field left a name and match that inside"),
        (guarded, "Leaf", "a guard is not supported; write an if inside of the case"),
        (attribute, "t.left", "fields are read by match"),
        (made, "Node(t", "makes a value of a data type"),
        (unknown, "nothing", "nothing_at_all is not defined here"),
        (called, "len", "len cannot be called here; tenon.function, tenon.cell and tenon.ops can"),
        (index, "x[0]", "x[0] is not supported here: an index; write tenon.ops.gather"),
        (text, "return", "'a' is not supported here: a Constant"),
        (untyped, "def", "parameter x needs a type"),
        (no_result, "def", "no_result needs the type of its result"),
        (no_type, "def", "list[int] is no type here"),
        (ends, "if c", "a way through it ends without a return"),
        (nothing, "if c", "it returns nothing and assigns no variable on all of its ways"),
        (breaks, "for", "break, continue, return and else are not supported in a loop"),
    ]
    for f, where, says in rows:
        said = refused(f)
        assert f"{__file__}:{line_of(f, where)}:" in said and says in said, (f.__name__, said)


k = np.float32(5)  # of the module, beside variables of that name


def test_a_variable_is_never_a_name_of_the_module():
    def one_way(x: "f32[]", c: bool) -> "f32[]":
        y = x
        if c:
            y = x + x
            k = x
        return y + k  # not always

    def after(x: "f32[]") -> "f32[]":
        y = x + k  # too early
        k = x
        return y

    def of_a_case(t: Tree) -> "i64[]":
        match t:
            case Leaf(k):
                y = 1
            case _:
                y = 2
        return k  # of one case

    def of_a_loop(x: "f32[]") -> "f32[]":
        for k in range(3):
            x = x + x
        return x + k  # of the loop

    def of_a_parameter(t: Tree, k: int) -> "i64[]":
        y = k
        match t:
            case Leaf(k):
                y = k + y
            case _:
                pass
        return k + y  # either of two

    def in_a_turn(t: Tree, n: int, k: int) -> "i64[]":
        y = k
        for i in range(n):
            y = y + k  # of the turn before
            match t:
                case Leaf(k):
                    y = y + k
                case _:
                    pass
        return y

    def turns(k: int) -> "i64[]":
        x = k
        for k in range(3):
            x = x + k
        return x + k  # the last turn

    for f, where in [
        (of_a_parameter, "either of two"),
        (in_a_turn, "of the turn before"),
        (turns, "the last turn"),
        (one_way, "not always"),
        (after, "too early"),
        (of_a_case, "of one case"),
        (of_a_loop, "of the loop"),
    ]:
        said = refused(f)
        assert f"{__file__}:{line_of(f, where)}: k is a variable of {f.__name__}" in said, said

    @tenon.function
    def outer(x: "f32[]") -> "f32[]":
        return x + k

    assert tenon.compile(outer)(np.float32(1)) == 6

    @tenon.function
    def again(t: Tree, n: int, k: int) -> "i64[]":
        y = k
        for k in range(k):
            y = y + k
        match t:
            case Leaf(k):
                y = y + k
            case Node(_, k):
                k = n
                y = y + k
        k = y
        match t:
            case Leaf(n):
                return k + n
            case _:
                pass
        return k + n

    session = tenon.compile(again).session(threads=1)
    assert session(Leaf(5), 2, 3) == 3 + (0 + 1 + 2) + 5 + 5
    assert session(Node(Leaf(5), Leaf(6)), 2, 3) == 3 + (0 + 1 + 2) + 2 + 2
    with pytest.raises(tenon.UsageError, match="again is a function of Python; @tenon.function"):
        tenon.compile(again.__wrapped__)


def test_what_the_compiler_refuses_names_the_line_of_python():
    def wrong(x: "f32[2, 3]") -> "f32[2, 3]":
        y = x + x
        return y @ x  # inner sizes differ

    def other_shape(x: "f32[2]") -> "f32[3]":
        return x + x

    said = refused(wrong)
    assert f"{__file__}:{line_of(wrong, 'inner sizes')}:" in said and "matmul" in said, said
    said = refused(other_shape)
    assert f"{__file__}:" in said and "its head says f32[3]" in said, said


def test_refused_types():
    @tenon.data
    class Loose:
        x: list

    @tenon.data
    class Odd:
        x: "str[]"

    def loose(p: Loose) -> "f32[1]":
        return CELL

    def odd(p: Odd) -> "f32[1]":
        return CELL

    def plain(p: np.ndarray) -> "f32[1]":
        return CELL

    @dataclasses.dataclass
    class Thawed:
        x: int

    assert "field x is <class 'list'>; write int, float, bool" in refused(loose)
    assert "a field is numbers" in refused(odd)
    assert "np.ndarray is no data type" in refused(plain)
    with pytest.raises(tenon.UsageError, match="is read and not run"):
        encode(Leaf(1))
    with pytest.raises(AttributeError, match="stands for an operator"):
        ops.tanh(1)
    with pytest.raises(tenon.UsageError, match="cannot inherit frozen dataclass"):

        @tenon.data
        class Frozen(Thawed):
            y: int

    for wrong in (loose, 5):
        with pytest.raises(tenon.UsageError, match="tenon.data makes constructors of classes"):
            tenon.data(wrong)
    for wrong in (len, 5, Leaf, lambda x: x):
        with pytest.raises(tenon.UsageError, match="reads functions written with def"):
            tenon.function(wrong)
    with pytest.raises(tenon.UsageError, match="encode is a tenon.function already"):
        tenon.function(encode)
    with pytest.raises(tenon.UsageError, match="no such file"):
        tenon.cell("nowhere.onnx")
