"""One function as Tenon's text: statements become lines, branches and loops graphs that nodes run.

A variable is the value that it has at that place. A graph for a branch, an arm or a turn gets every
variable that it reads as an argument; what it assigns and what is read behind it is a result.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._data import Type, is_data
from ._function import Cell, Function, ops
from ._native import UsageError

if TYPE_CHECKING:
    from ._program import Program

BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "matmul"}
COMPARE = {
    ast.Lt: "less",
    ast.LtE: "less_or_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_or_equal",
    ast.Eq: "equal",
}
SIZE = r"(?!(?:min|max|broadcast)\b)[A-Za-z_]\w*"  # a symbol among the dimensions of a type
# Values of this name ask that what a function divides is floats, or whole numbers.
DIVISION, FLOOR_DIVISION = "division_of_floats", "division_of_whole_numbers"
UNARY = {ast.USub: "neg", ast.Not: "not"}

# What a function may not have: what it is called, and what to write instead.
INSTEAD = "write assignments, match, if, for i in range(n), return, + - * / // @ and tenon.ops"
UNSUPPORTED = {
    ast.While: ("while", "write a function that calls itself, or for i in range(n)"),
    ast.With: ("with", INSTEAD),
    ast.Try: ("try", INSTEAD),
    ast.FunctionDef: (
        "a function inside of another",
        "define it beside this one, with @tenon.function",
    ),
    ast.ListComp: ("a comprehension", "write a function that calls itself"),
    ast.Lambda: ("lambda", "write a function with @tenon.function"),
    ast.Subscript: ("an index", "write tenon.ops.gather(x, i, axis=0) or tenon.ops.slice"),
    ast.IfExp: ("if inside of an expression", "write if and else as statements"),
    ast.Raise: ("raise", INSTEAD),
    ast.Assert: ("assert", INSTEAD),
    ast.Expr: ("an expression whose value is not used", "assign it to a variable"),
    ast.ClassDef: ("a class", INSTEAD),
    ast.Import: ("import", INSTEAD),
    ast.ImportFrom: ("import", INSTEAD),
}


def _unsupported(node: ast.AST) -> tuple[str, str]:
    return UNSUPPORTED.get(type(node), (f"a {type(node).__name__}", INSTEAD))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def other(name: str, taken: Mapping[str, Any]) -> str:
    return next(
        n
        for n in itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        if n not in taken
    )


def _reads(nodes: Sequence[ast.AST]) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def _assigned(nodes: Sequence[ast.AST]) -> list[str]:
    """Names that statements assign, in order."""
    found = {}
    for node in nodes:
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                found[n.id] = True
    return list(found)


def _captured(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that cases give to fields, and loops to turns."""
    found = set()
    for n in (n for node in nodes for n in ast.walk(node)):
        if isinstance(n, ast.MatchAs) and n.name:
            found.add(n.name)
        elif isinstance(n, ast.For) and isinstance(n.target, ast.Name):
            found.add(n.target.id)
    return found


def _returns(body: Sequence[ast.stmt]) -> bool:
    """Is there a return in it?"""
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))


class Writer:
    """One function as lines of text. A variable is the value it has at that place."""

    def __init__(self, program: Program, f: Function):
        self.program, self.f = program, f
        self.lines: list[tuple[str, str, int]] = []
        self.depth = 0
        self.at = f.tree.lineno
        self.used: set[str] = set()
        # As in Python, what is assigned anywhere in it is never a name from around it.
        self.own_names = {a.arg for a in f.tree.args.args}.union(
            _assigned(f.tree.body), _captured(f.tree.body)
        )

    # ---- text ----

    def refuse(self, node: ast.AST, what: str) -> UsageError:
        return UsageError(f"{self.f.file}:{getattr(node, 'lineno', self.at)}: {what}")

    def line(self, text: str) -> None:
        self.lines.append(("  " * self.depth + text, self.f.file, self.at))

    def fresh(self, name: str) -> str:
        name = other(
            name if name.isascii() and name.isidentifier() else "v", dict.fromkeys(self.used)
        )
        self.used.add(name)
        return name

    def function(self) -> list[tuple[str, str, int]]:
        params, results = self.program.head[self.f.name]
        scope = {}
        for name, _, _ in params:
            scope[name] = self.fresh(name)
        given = [f"%{scope[name]}: {self.own(t)}" for name, t, _ in params]
        self.opened(
            f"graph @{self.f.name}",
            given,
            lambda: self.returned(scope, results),
            [f": {self.own(t)}" for _, t in results],
        )
        return self.lines

    def own(self, text: str) -> str:
        """A type with sizes of this function's own: what it learns of n tells nothing of others."""
        name, _, dims = text.partition("[")
        return f"{name}[{re.sub(SIZE, lambda m: f'{self.f.name}_{m[0]}', dims)}"

    def returned(self, scope: dict[str, str], results: list[tuple[str, str]]) -> list[str]:
        made = self.block(self.f.tree.body, scope, [name for name, _ in results])
        if made is None:
            raise self.refuse(self.f.tree, f"{self.f.name} ends without a return")
        return made

    def opened(
        self,
        head: str,
        given: Sequence[str],
        body: Callable[[], list[str]],
        types: Sequence[str] = (),
    ) -> None:
        """A graph whose body gives the names of its outputs, each of which is named once."""
        at = len(self.lines)
        self.line("")
        self.depth += 1
        out, taken = body(), set()
        for i, value in enumerate(out):
            if value in taken:
                out[i] = self.op("identity", [value], value)
            taken.add(out[i])
        self.depth -= 1
        self.line("}")
        results = ", ".join(f"%{v}{types[i] if types else ''}" for i, v in enumerate(out))
        self.lines[at] = (
            f"{'  ' * self.depth}{head}({', '.join(given)}) -> ({results}) {{",
            *self.lines[at][1:],
        )

    # ---- statements ----

    def block(
        self, body: Sequence[ast.stmt], scope: dict[str, str], results: list[str]
    ) -> list[str] | None:
        """The values that it returns; None: it goes on behind, with what is in scope."""
        for i, s in enumerate(body):
            self.at = s.lineno
            rest = body[i + 1 :]
            if isinstance(s, ast.Return):
                return self.values(s.value, len(results), scope, s)
            if isinstance(s, ast.Assign) and len(s.targets) == 1:
                self.assign(s.targets[0], s.value, scope)
            elif isinstance(s, ast.AnnAssign) and s.value is not None:
                self.assign(s.target, s.value, scope)
            elif isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
                load = ast.copy_location(ast.Name(s.target.id, ast.Load()), s)
                self.assign(s.target, ast.copy_location(ast.BinOp(load, s.op, s.value), s), scope)
            elif isinstance(s, (ast.If, ast.Match)):
                made = self.branch(s, rest, scope, results)
                if made is not None:
                    return made
            elif isinstance(s, ast.For):
                self.loop(s, scope, results)
            elif not (
                isinstance(s, ast.Pass)
                or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
            ):
                what, instead = _unsupported(s)
                raise self.refuse(
                    s, f"{what} is not supported in a function that Tenon compiles; {instead}"
                )
        return None

    def assign(self, target: ast.expr, value: ast.expr, scope: dict[str, str]) -> None:
        targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        for t in targets:
            if not isinstance(t, ast.Name):
                raise self.refuse(t, f"{ast.unparse(t)} cannot be assigned; variables can")
        made = self.values(value, len(targets), scope, value, [t.id for t in targets])
        for t, v in zip(targets, made):
            if t.id != "_":
                scope[t.id] = v

    def inner(self, scope: Mapping[str, str], nodes: Sequence[ast.AST]) -> list[str]:
        """The variables of a scope that statements read: what a graph for them is given."""
        read = _reads(nodes)
        return [name for name in scope if name in read]

    def graph(
        self,
        head: str,
        names: list[str],
        body: Sequence[ast.stmt],
        made: Callable[[dict[str, str]], list[str]],
        fields: Sequence[str] = (),
    ) -> None:
        """A graph with fields and variables for inputs. ``made`` writes its body and gives its
        outputs."""
        used, self.used = self.used, set()
        scope = {}
        given = []
        for i, name in enumerate([*fields, *names]):
            given.append(self.fresh("unused" if name == "_" else name))
            if name != "_" and (i < len(fields) or name not in fields):
                scope[name] = given[-1]
        self.opened(head, [f"%{g}" for g in given], lambda: made(scope))
        self.used = used

    def branch(
        self,
        s: ast.If | ast.Match,
        rest: Sequence[ast.stmt],
        scope: dict[str, str],
        results: list[str],
    ) -> list[str] | None:
        """An if or a match. Where a way of it returns, what stands behind belongs to the ways that
        do not."""
        arms = self.arms(s)
        returns = any(_returns(body) for _, _, body, _ in arms)
        tails = rest if returns else []
        if returns:
            out = list(results)
        else:
            behind = [
                name
                for name in dict.fromkeys(n for _, _, body, _ in arms for n in _assigned(body))
                if name != "_"
            ]
            out = [
                name
                for name in behind
                if all(name in scope or name in _assigned(body) for _, _, body, _ in arms)
            ]
            if not out:
                raise self.refuse(
                    s,
                    "it returns nothing and assigns no variable on all of its ways, so it does "
                    "nothing",
                )
        names = self.inner(scope, [b for _, _, body, _ in arms for b in body] + list(tails))
        if not returns:
            names = [n for n in scope if n in names or n in out]
        subject = self.values(s.test if isinstance(s, ast.If) else s.subject, 1, scope, s)[0]
        made = [self.fresh(name) for name in out]
        given = ", ".join(f"%{v}" for v in [subject, *(scope[n] for n in names)])
        keyword = "if" if isinstance(s, ast.If) else "case"
        self.line(f"{', '.join(f'%{m}' for m in made)} = {keyword}({given})")
        self.depth += 1
        for head, fields, body, at in arms:

            def write(inside: dict[str, str], body: Sequence[ast.stmt] = body) -> list[str]:
                got = self.block([*body, *tails], inside, results)
                if returns and got is None:
                    raise self.refuse(s, "a way through it ends without a return")
                if returns:
                    return list(got)
                for n in out:
                    if n not in inside:
                        raise self.refuse(s, f"{n} is not assigned on all ways through it")
                return [inside[n] for n in out]

            self.at = at
            self.graph(f"{head}graph @{self.fresh('way')}", names, body, write, fields)
        self.depth -= 1
        if returns:
            return made
        scope.update(zip(out, made))
        self.forget(scope, _captured([s]) - set(out))
        return None

    def forget(self, scope: dict[str, str], names: set[str]) -> None:
        """What cases and loops named is, behind them, another value on each way: no name finds it,
        nor what it was before."""
        for name in names & scope.keys():
            del scope[name]

    def arms(self, s: ast.If | ast.Match) -> list[tuple[str, list[str], list[ast.stmt], int]]:
        """Of each way: what stands before its graph, the names of fields, its statements, its
        line."""
        if isinstance(s, ast.If):
            return [("", [], s.body, s.lineno), ("", [], s.orelse, s.lineno)]
        arms: dict[str, tuple[str, list[str], list[ast.stmt], int]] = {}
        rest: tuple[list[ast.stmt], int] | None = None
        kind: Type | None = None
        for c in s.cases:
            if c.guard is not None:
                raise self.refuse(
                    c.guard, "a guard is not supported; write an if inside of the case"
                )
            if (
                isinstance(c.pattern, ast.MatchAs)
                and c.pattern.pattern is None
                and c.pattern.name is None
            ):
                rest = c.body, c.pattern.lineno
                break
            if not isinstance(c.pattern, ast.MatchClass):
                raise self.refuse(
                    c.pattern,
                    f"{ast.unparse(c.pattern)} is no pattern for a value of a data type; write "
                    "case Node(left, right)",
                )
            cls, named = self.class_of(c.pattern.cls)
            kind = kind or self.type_with(cls, named, c.pattern)
            if named not in kind.made or kind.made[named][0] is not cls:
                raise self.refuse(
                    c.pattern,
                    f"{named} is no constructor of {kind.name}; it has {', '.join(kind.made)}",
                )
            if named in arms:
                raise self.refuse(c.pattern, f"a second case for {named}")
            arms[named] = (
                f"{named} ",
                self.fields_of(c.pattern, kind, named),
                c.body,
                c.pattern.lineno,
            )
        if kind is None:
            raise self.refuse(
                s,
                "a match of a value of a data type has a case for at least one of its constructors",
            )
        for named, (_, fields) in kind.made.items():
            if named not in arms and rest is None:
                raise self.refuse(
                    s,
                    f"the match of {kind.name} has no case for {named}; its constructors are "
                    f"{', '.join(kind.made)}",
                )
            if named not in arms:
                arms[named] = f"{named} ", ["_"] * len(fields), *rest
        return list(arms.values())

    def class_of(self, node: ast.expr) -> tuple[type, str]:
        value = self.meaning(node)
        if not (isinstance(value, type) and is_data(value)):
            raise self.refuse(
                node, f"{ast.unparse(node)} is no constructor; make it with @tenon.data"
            )
        return value, value.__name__

    def type_with(self, cls: type, named: str, node: ast.AST) -> Type:
        for kind in self.program.types.all:
            if named in kind.made and kind.made[named][0] is cls:
                return kind
        raise self.refuse(node, f"{named} is a constructor of no data type that a parameter has")

    def fields_of(self, pattern: ast.MatchClass, kind: Type, named: str) -> list[str]:
        fields = [f.name for f in kind.made[named][1]]
        if len(pattern.patterns) > len(fields):
            raise self.refuse(
                pattern, f"{named} has {len(fields)} fields, {len(pattern.patterns)} are named"
            )
        given = dict(zip(fields, pattern.patterns)) | dict(
            zip(pattern.kwd_attrs, pattern.kwd_patterns)
        )
        for name in pattern.kwd_attrs:
            if name not in fields:
                raise self.refuse(
                    pattern, f"{named} has no field {name}; it has {', '.join(fields)}"
                )
        names = []
        for f in fields:
            p = given.get(f)
            if p is not None and not (isinstance(p, ast.MatchAs) and p.pattern is None):
                raise self.refuse(
                    p,
                    f"{ast.unparse(p)} is no name; give field {f} a name and match that inside of "
                    "the case",
                )
            names.append((p.name if p is not None else None) or "_")
        return names

    def loop(self, s: ast.For, scope: dict[str, str], results: list[str]) -> None:
        """for i in range(n): variables that there are before and that a turn assigns are
        carried."""
        it = s.iter
        if not (
            isinstance(it, ast.Call)
            and isinstance(it.func, ast.Name)
            and it.func.id == "range"
            and len(it.args) == 1
            and not it.keywords
        ):
            raise self.refuse(
                s, "a loop goes over range(n); over children, write a function that calls itself"
            )
        if (
            s.orelse
            or _returns(s.body)
            or any(isinstance(n, (ast.Break, ast.Continue)) for b in s.body for n in ast.walk(b))
        ):
            raise self.refuse(
                s,
                "break, continue, return and else are not supported in a loop; write a function "
                "that calls itself",
            )
        if not isinstance(s.target, ast.Name):
            raise self.refuse(s, "the number of a turn is one variable")
        turns = self.values(it.args[0], 1, scope, it)[0]
        self.forget(scope, _captured([s]))
        carried = [n for n in _assigned(s.body) if n in scope]
        if not carried:
            raise self.refuse(s, "a loop that changes no variable from before it does nothing")
        kept = [n for n in self.inner(scope, s.body) if n not in carried]
        made = [self.fresh(n) for n in carried]
        given = ", ".join(["%" + turns, "_", *(f"%{scope[n]}" for n in carried + kept)])
        self.line(f"{', '.join(f'%{m}' for m in made)} = loop({given}) carried {len(carried)}")
        self.depth += 1

        def write(inside: dict[str, str]) -> list[str]:
            going = inside.pop("going of the loop")
            self.block(s.body, inside, results)
            return [going, *(inside[n] for n in carried)]

        self.graph(
            f"graph @{self.fresh('turn')}",
            carried + kept,
            s.body,
            write,
            [s.target.id, "going of the loop"],
        )
        self.depth -= 1
        scope.update(zip(carried, made))

    # ---- expressions ----

    def values(
        self,
        node: ast.expr | None,
        n: int,
        scope: dict[str, str],
        at: ast.AST,
        names: Sequence[str] = (),
    ) -> list[str]:
        """The n values of an expression."""
        if isinstance(node, ast.Tuple):
            if len(node.elts) != n:
                raise self.refuse(at, f"{len(node.elts)} values stand where {n} are wanted")
            return [
                self.values(e, 1, scope, e, names[i : i + 1])[0] for i, e in enumerate(node.elts)
            ]
        if isinstance(node, ast.Call):
            return self.call(node, n, scope, names)
        if n != 1 or node is None:
            raise self.refuse(
                at, f"{ast.unparse(node) if node else 'nothing'} stands where {n} values are wanted"
            )
        return [self.value(node, scope, names[0] if names else "v")]

    def op(self, name: str, args: Sequence[str], want: str, attrs: str = "") -> str:
        made = self.fresh(want)
        self.line(f"%{made} = {name}({', '.join(f'%{a}' for a in args)}){attrs}{self.origin(name)}")
        return made

    def origin(self, op: str) -> str:
        """Where an operator comes from, as messages about a run, profiles and blocks name it."""
        return f' from "{escaped(f"{op} {os.path.basename(self.f.file)}:{self.at}")}"'

    def value(self, node: ast.expr, scope: dict[str, str], want: str = "v") -> str:
        def one(e: ast.expr) -> str:
            return self.values(e, 1, scope, e)[0]

        if isinstance(node, ast.Name) and node.id in scope:
            return scope[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            return self.constant(node.value, node, want)
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and isinstance(node.operand, ast.Constant)
            and isinstance(node.operand.value, (int, float))
        ):
            return self.constant(-node.operand.value, node, want)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
            return self.division(node.op, one(node.left), one(node.right), want)
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return self.op(BINARY[type(node.op)], [one(node.left), one(node.right)], want)
        if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            return self.op(UNARY[type(node.op)], [one(node.operand)], want)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
            return self.op(
                COMPARE[type(node.ops[0])], [one(node.left), one(node.comparators[0])], want
            )
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], ast.NotEq)
        ):
            return self.op(
                "not", [self.op("equal", [one(node.left), one(node.comparators[0])], want)], want
            )
        if isinstance(node, ast.BoolOp):
            made = one(node.values[0])
            for e in node.values[1:]:
                made = self.op(
                    "and" if isinstance(node.op, ast.And) else "or", [made, one(e)], want
                )
            return made
        if isinstance(node, ast.Attribute) and _reads([node]) & scope.keys():
            raise self.refuse(
                node,
                f"{ast.unparse(node)}: fields are read by match; write match "
                f"{ast.unparse(node.value)}: case …",
            )
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.constant(self.meaning(node), node, want)
        what, instead = _unsupported(node)
        raise self.refuse(node, f"{ast.unparse(node)} is not supported here: {what}; {instead}")

    def division(self, op: ast.operator, x: str, y: str, want: str) -> str:
        """x / y of floats, x // y of whole numbers: what Tenon divides otherwise than Python is
        refused. Types are known where the text is compiled: an operator that takes only the one
        kind, and whose result nobody reads, asks for it there."""
        quotient = self.op("div", [x, y], want)  # of whole numbers, towards 0
        if isinstance(op, ast.Div):
            self.op("floor", [quotient], DIVISION)
            return quotient
        self.op("bitwise_not", [quotient], FLOOR_DIVISION)
        # mod has the sign of y, fmod that of x: they differ by y where x / y is below 0 and no
        # whole number.
        over = self.op("sub", [self.op("mod", [x, y], "v"), self.op("fmod", [x, y], "v")], "v")
        return self.op("sub", [quotient, self.op("div", [over, y], "v")], want)

    def meaning(self, node: ast.expr) -> Any:
        """What a name from around the function stands for."""
        if isinstance(node, ast.Name):
            if node.id in self.own_names:
                raise self.refuse(
                    node,
                    f"{node.id} is a variable of {self.f.name}, read where not every way that "
                    "leads here assigns it, or behind a case or a loop that takes its name; assign "
                    "it before, or name it otherwise there",
                )
            found = self.f.find(node.id)
            if found is None:
                raise self.refuse(node, f"{node.id} is not defined here")
            return found
        if isinstance(node, ast.Attribute):
            try:
                return getattr(self.meaning(node.value), node.attr)
            except AttributeError:
                raise self.refuse(
                    node, f"{ast.unparse(node)} is not known where the function was defined"
                ) from None
        raise self.refuse(node, f"{ast.unparse(node)} is no name")

    def constant(self, x: Any, node: ast.AST, want: str) -> str:
        import numpy as np

        if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
            x = np.array(
                x, bool if isinstance(x, bool) else np.int64 if isinstance(x, int) else np.float32
            )
        if not isinstance(x, (np.ndarray, np.generic)):
            raise self.refuse(
                node,
                f"{ast.unparse(node)} is {type(x).__name__}; numbers and NumPy arrays from outside "
                "of the function are constants",
            )
        try:
            text, contents = self.program.constant(
                np.asarray(x) if isinstance(x, np.generic) else x
            )
        except UsageError as e:
            raise self.refuse(node, str(e)) from None
        made = self.fresh(want)
        self.line(f"%{made}: {text} = {contents}")
        return made

    def call(
        self, node: ast.Call, n: int, scope: dict[str, str], names: Sequence[str]
    ) -> list[str]:
        of, made = (
            node.func,
            [self.fresh(name if name != "_" else "unused") for name in (names or ["v"] * n)],
        )
        if (
            isinstance(of, ast.Attribute)
            and not (isinstance(of.value, ast.Name) and of.value.id in scope)
            and self.meaning(of.value) is ops
        ):
            name, attrs = of.attr, self.attributes(node.keywords) + self.origin(of.attr)
        else:
            known = self.meaning(of)
            if node.keywords:
                raise self.refuse(node, f"{ast.unparse(of)} takes its arguments by position")
            attrs = ""
            if isinstance(known, Function):
                params, results = self.program.call(known)
                if len(node.args) != len(params) or n != len(results):
                    raise self.refuse(
                        node,
                        f"{known.name} takes {len(params)} values and gives {len(results)}; here "
                        f"are {len(node.args)} and {n}",
                    )
                name = f"call @{known.name}"
            elif isinstance(known, Cell):
                name = f"call @{self.program.cell(ast.unparse(of).rpartition('.')[2], known)}"
            elif is_data(known):
                raise self.refuse(
                    node,
                    f"{ast.unparse(node)} makes a value of a data type; functions take them apart, "
                    "and give arrays",
                )
            else:
                raise self.refuse(
                    node,
                    f"{ast.unparse(of)} cannot be called here; tenon.function, tenon.cell and "
                    "tenon.ops can",
                )
        args = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                raise self.refuse(a, f"{ast.unparse(a)}: arguments are written one by one")
            args.append(self.values(a, 1, scope, a)[0])
        self.line(
            f"{', '.join(f'%{m}' for m in made)} = "
            f"{name}({', '.join(f'%{a}' for a in args)}){attrs}"
        )
        return made

    def attributes(self, keywords: Sequence[ast.keyword]) -> str:
        """axis=1, perm=[1, 0]: numbers, texts, and lists of numbers."""
        given = []
        for k in keywords:
            try:
                value = ast.literal_eval(k.value)
            except ValueError:
                raise self.refuse(
                    k.value,
                    f"{ast.unparse(k.value)}: an attribute is a number, a text or a list of "
                    "numbers",
                ) from None
            text = (
                f'"{escaped(value)}"'
                if isinstance(value, str)
                else str(list(value))
                if isinstance(value, (list, tuple))
                else str(int(value) if isinstance(value, bool) else value)
            )
            given.append(f"{k.arg} = {text}")
        return f" {{{', '.join(given)}}}" if given else ""
