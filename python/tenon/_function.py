"""Functions on structured values: what ``@tenon.function`` reads becomes a graph of Tenon's text.

The function's syntax tree is read, never run. `match`, `if` and `for` over `range` become nodes that run
graphs, which get every variable that they read as an argument; what is assigned inside and read behind is
a result. Everything else that Python has is refused with its line and what to write instead.
"""
from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from ._data import SCALARS, Type, Types, is_data, request
from ._native import UsageError

BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul"}
COMPARE = {ast.Lt: "less", ast.LtE: "less_or_equal", ast.Gt: "greater", ast.GtE: "greater_or_equal", ast.Eq: "equal"}
UNARY = {ast.USub: "neg", ast.Not: "not"}
INLINE = 64                       # numbers of a constant that stand in the text


class Ops:
    """Operators by name, for functions: ``ops.concat(a, b, axis=1)``, ``ops.tanh(x)``. A name is one of Tenon's
    operators (src/op/ops.def), keyword arguments are its attributes."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"tenon.ops.{name} stands for an operator in a @tenon.function, which is read and not run")


ops = Ops()


class Cell:
    """An ONNX model that functions call."""

    def __init__(self, path: str, keep: Any = None):
        self.path, self._keep = os.path.abspath(path), keep

    def __call__(self, *args: Any) -> Any:
        raise UsageError("a cell is called by functions that Tenon compiles; tenon.compile(cell.path) runs it alone")


def cell(model: Any, example: Sequence[Any] | None = None) -> Cell:
    """A model that functions can call: the path of an ONNX file, or a ``torch.nn.Module`` with example inputs, which is exported."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if not os.path.exists(path):
            raise UsageError(f"{path}: there is no such file; a cell is an ONNX model")
        return Cell(path)
    if not hasattr(model, "state_dict") or example is None:
        raise UsageError("a cell is the path of an ONNX file, or a torch.nn.Module with example inputs: cell(module, (a, b))")
    import tempfile
    import warnings

    import torch
    folder = tempfile.TemporaryDirectory(prefix="tenon-cell-")
    path = os.path.join(folder.name, "cell.onnx")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")          # of the exporter's own affairs
        torch.onnx.export(model.eval(), tuple(example), dynamo=True, verbose=False).save(path)
    return Cell(path, folder)


class Function:
    """A function that Tenon compiles: ``tenon.compile(f, many=True)``."""

    def __init__(self, of: Callable):
        self.__wrapped__ = of
        self.name = of.__name__
        self.file = inspect.getsourcefile(of) or "?"
        try:
            lines, first = inspect.getsourcelines(of)
        except OSError:
            raise UsageError(f"{self.name}: its source cannot be read; define it in a file, or in a notebook's cell") from None
        self.tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        ast.increment_lineno(self.tree, first - 1)
        if not isinstance(self.tree, ast.FunctionDef):
            raise UsageError(f"{self.file}:{first}: {self.name} is no plain function; write def")

    def find(self, name: str) -> Any:
        """What a name means where the function was defined; None: nothing is known."""
        of = self.__wrapped__
        inside = dict(zip(of.__code__.co_freevars, of.__closure__ or ()))
        if name in inside:
            try:
                return inside[name].cell_contents
            except ValueError:               # of a function that is defined below
                return None
        return of.__globals__.get(name, vars(builtins).get(name))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise UsageError(f"{self.name} is read and not run; tenon.compile({self.name}) makes a model of it")

    def program(self) -> Program:
        return Program(self)

    def text(self) -> str:
        """Tenon's text of it, with all that it calls."""
        return self.program().text

    def write(self, folder: str | os.PathLike) -> str:
        """Write its text, and its large constants beside it, for ``tenon compile``; the path of the text."""
        return self.program().write(os.fspath(folder))

    def arrays(self, **inputs: Any) -> dict[str, Any]:
        """The inputs of a request as the compiled model has them: rows and columns for values of data types.

        A model that was loaded takes these; it does not know the classes."""
        return self.program().request(inputs)


function = Function


class Program:
    """The text of a function and of all that it calls."""

    def __init__(self, main: Function):
        self.main = main
        self.functions: dict[str, Function] = {}
        self.cells: dict[str, Cell] = {}
        self.weights = bytearray()
        self.offset: dict[int, int] = {}
        self.kept: list[Any] = []
        self.head: dict[str, tuple[list, list]] = {}
        self.hints: dict[str, Any] = {}                   # data types by the names that annotations have for them
        self.types = Types(self._find)
        self.lines: list[tuple[str, str, int]] = []       # of the text, and where in Python it comes from
        self._call(main)
        bodies: list[list[tuple[str, str, int]]] = []
        while len(bodies) < len(self.functions):          # which grow as calls are met
            bodies.append(_Writer(self, list(self.functions.values())[len(bodies)]).function())
        params, results = self.head[main.name]
        by_name = {t.name: t for t in self.types.all}
        self.params = {name: by_name[t[:-2]] for name, t, kind in params if kind}
        top = (main.file, main.tree.lineno)
        given = ", ".join(f"%{name}: {t}" for name, t, _ in params)
        made = ", ".join(f"%{name}" for name, _ in results)
        for line in [t.declaration() for t in self.types.all] + [f'graph @{name} = file "{_escaped(c.path)}"' for name, c in self.cells.items()]:
            self.lines.append((line, *top))
        for body in bodies:
            self.lines += body
        self.lines += [(line, *top) for line in (f"graph @{_other('main', self.functions)}({given}) -> ({made}) {{", f"  {made} = call @{main.name}({', '.join(f'%{p[0]}' for p in params)})", "}")]

    def _find(self, name: str) -> Any:
        found = (f.find(name) for f in self.functions.values())
        return self.hints.get(name) or next((x for x in found if x is not None), None)

    @property
    def inputs(self) -> list[str]:
        return [name for name, _, _ in self.head[self.main.name][0]]

    @property
    def text(self) -> str:
        return "\n".join(line for line, _, _ in self.lines) + "\n"

    def write(self, folder: str) -> str:
        path = os.path.join(folder, f"{self.main.name}.tn")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.text)
        if self.weights:
            with open(os.path.join(folder, "weights"), "wb") as b:
                b.write(self.weights)
        return path

    def said(self, path: str, message: str) -> str:
        """A message about the text as one about the lines of Python that it was made of."""
        def place(m: re.Match) -> str:
            _, file, line = self.lines[min(int(m[1]), len(self.lines)) - 1]
            return f"{file}:{line}:"
        return re.sub(re.escape(path) + r":(\d+):\d+:", place, message)

    def request(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return request(inputs, self.params, self.types.all)

    def _call(self, f: Function) -> tuple[list, list]:
        """The function's parameters (name, type, whether it is of a data type) and results (name, type)."""
        if f.name in self.functions:
            if self.functions[f.name] is not f:
                raise UsageError(f"{f.file}:{f.tree.lineno}: two functions are named {f.name}; name one of them otherwise")
            return self.head[f.name]
        self.functions[f.name] = f
        if f.tree.args.posonlyargs or f.tree.args.kwonlyargs or f.tree.args.vararg or f.tree.args.kwarg or f.tree.args.defaults:
            raise UsageError(f"{f.file}:{f.tree.lineno}: {f.name} takes plain parameters only, without defaults and stars")
        params = []
        for a in f.tree.args.args:
            if a.annotation is None:
                raise UsageError(f"{f.file}:{a.lineno}: parameter {a.arg} needs a type: {a.arg}: Tree, {a.arg}: \"f32[1, 4]\", {a.arg}: int")
            params.append((a.arg, *self._type(f, a.annotation, f.__wrapped__.__annotations__.get(a.arg))))
        hint = f.tree.returns
        if hint is None:
            raise UsageError(f"{f.file}:{f.tree.lineno}: {f.name} needs the type of its result: -> \"f32[1, 4]\", or of several, -> tuple[\"f32[1, 4]\", \"f32[1, 4]\"]")
        several = isinstance(hint, ast.Subscript) and isinstance(hint.value, ast.Name) and hint.value.id == "tuple"
        hints = (hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]) if several else [hint]
        values = getattr(f.__wrapped__.__annotations__.get("return"), "__args__", ()) if several else (f.__wrapped__.__annotations__.get("return"),)
        results = []
        for i, h in enumerate(hints):
            text, _ = self._type(f, h, values[i] if i < len(values) else None)
            results.append((f"result{i}" if several else "result", text))
        self.head[f.name] = params, results
        return self.head[f.name]

    def _type(self, f: Function, hint: ast.expr, value: Any) -> tuple[str, bool]:
        if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
            text = hint.value
        elif isinstance(hint, (ast.Name, ast.Attribute)):
            text = ast.unparse(hint)
        else:
            raise UsageError(f"{f.file}:{hint.lineno}: {ast.unparse(hint)} is no type here; write int, float, bool, an array \"f32[1, 4]\" or the name of a data type")
        if text in SCALARS:
            return SCALARS[text], False
        if "[" in text:
            return text, False
        kind = value if is_data(value) else f.find(text)
        name = text.rpartition(".")[2]
        if not is_data(kind):
            raise UsageError(f"{f.file}:{hint.lineno}: {text} is no data type; make its classes with @tenon.data: {text} = Leaf | Node")
        self.hints[name] = kind
        return f"{self.types.of(name, kind).name}[]", True

    def _cell(self, name: str, c: Cell) -> str:
        for known, other in self.cells.items():
            if other is c:
                return known
        name = _other(name, {**self.cells, **self.functions})
        self.cells[name] = c
        return name

    def _constant(self, x: Any) -> tuple[str, str]:
        """The type of an array, and its contents in the text."""
        import numpy as np
        name = {"float64": "f32", "float32": "f32", "float16": "f16", "bool": "bool"}.get(x.dtype.name) or re.sub("^(u?)int", lambda m: m[1] or "i", x.dtype.name)
        if not re.fullmatch(r"(f16|f32|bool|[iu](8|16|32|64))", name):
            raise UsageError(f"an array of type {x.dtype} is no constant; numbers and booleans are")
        text = f"{name}[{', '.join(map(str, x.shape))}]"
        plain = np.ascontiguousarray(x, "float32" if x.dtype == np.float64 else x.dtype)
        if plain.size <= INLINE:
            return text, "const [" + ", ".join(repr(float(v)) if name[0] == "f" else str(int(v)) for v in plain.ravel().tolist()) + "]"
        if id(x) not in self.offset:
            self.weights += bytes(-len(self.weights) % 64)
            self.offset[id(x)] = len(self.weights)
            self.kept.append(x)
            self.weights += plain.astype(plain.dtype.newbyteorder("<"), copy=False).tobytes()
        return text, f'const file "weights" {self.offset[id(x)]}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _other(name: str, taken: Mapping[str, Any]) -> str:
    return next(n for n in itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1))) if n not in taken)


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


def _returns(body: Sequence[ast.stmt]) -> bool:
    """Is there a return in it?"""
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))


class _Writer:
    """One function as lines of text. A variable is the value it has at that place."""

    def __init__(self, program: Program, f: Function):
        self.program, self.f = program, f
        self.lines: list[tuple[str, str, int]] = []
        self.depth = 0
        self.at = f.tree.lineno
        self.used: set[str] = set()

    # ---- text ----

    def refuse(self, node: ast.AST, what: str) -> UsageError:
        return UsageError(f"{self.f.file}:{getattr(node, 'lineno', self.at)}: {what}")

    def line(self, text: str) -> None:
        self.lines.append(("  " * self.depth + text, self.f.file, self.at))

    def fresh(self, name: str) -> str:
        name = _other(name if name.isascii() and name.isidentifier() else "v", dict.fromkeys(self.used))
        self.used.add(name)
        return name

    def function(self) -> list[tuple[str, str, int]]:
        params, results = self.program.head[self.f.name]
        scope = {}
        for name, _, _ in params:
            scope[name] = self.fresh(name)
        given = [f"%{scope[name]}: {t}" for name, t, _ in params]
        self.opened(f"graph @{self.f.name}", given, lambda: self.returned(scope, results),
                    [f": {t}" for _, t in results])
        return self.lines

    def returned(self, scope: dict[str, str], results: list[tuple[str, str]]) -> list[str]:
        made = self.block(self.f.tree.body, scope, [name for name, _ in results])
        if made is None:
            raise self.refuse(self.f.tree, f"{self.f.name} ends without a return")
        return made

    def opened(self, head: str, given: Sequence[str], body: Callable[[], list[str]], types: Sequence[str] = ()) -> None:
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
        self.lines[at] = (f"{'  ' * self.depth}{head}({', '.join(given)}) -> ({results}) {{", *self.lines[at][1:])

    # ---- statements ----

    def block(self, body: Sequence[ast.stmt], scope: dict[str, str], results: list[str]) -> list[str] | None:
        """The values that it returns; None: it goes on behind, with what is in scope."""
        for i, s in enumerate(body):
            self.at = s.lineno
            rest = body[i + 1:]
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
            elif not (isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))):
                raise self.refuse(s, f"{_what(s)} is not supported in a function that Tenon compiles; {_instead(s)}")
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

    def graph(self, head: str, names: list[str], body: Sequence[ast.stmt], made: Callable[[dict[str, str]], list[str]], fields: Sequence[str] = ()) -> None:
        """A graph with fields and variables for inputs. ``made`` writes its body and gives its outputs."""
        used, self.used = self.used, set()
        scope = {}
        given = []
        for i, name in enumerate([*fields, *names]):
            given.append(self.fresh("unused" if name == "_" else name))
            if name != "_" and (i < len(fields) or name not in fields):
                scope[name] = given[-1]
        self.opened(head, [f"%{g}" for g in given], lambda: made(scope))
        self.used = used

    def branch(self, s: ast.If | ast.Match, rest: Sequence[ast.stmt], scope: dict[str, str], results: list[str]) -> list[str] | None:
        """An if or a match. Where a way of it returns, what stands behind belongs to the ways that do not."""
        arms = self.arms(s)
        returns = any(_returns(body) for _, _, body, _ in arms)
        tails = rest if returns else []
        if returns:
            out = list(results)
        else:
            behind = [name for name in dict.fromkeys(n for _, _, body, _ in arms for n in _assigned(body)) if name != "_"]
            out = [name for name in behind if all(name in scope or name in _assigned(body) for _, _, body, _ in arms)]
            if not out:
                raise self.refuse(s, "it returns nothing and assigns no variable on all of its ways, so it does nothing")
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
        return None

    def arms(self, s: ast.If | ast.Match) -> list[tuple[str, list[str], list[ast.stmt], int]]:
        """Of each way: what stands before its graph, the names of fields, its statements, its line."""
        if isinstance(s, ast.If):
            return [("", [], s.body, s.lineno), ("", [], s.orelse, s.lineno)]
        arms: dict[str, tuple[str, list[str], list[ast.stmt], int]] = {}
        rest: tuple[list[ast.stmt], int] | None = None
        kind: Type | None = None
        for c in s.cases:
            if c.guard is not None:
                raise self.refuse(c.guard, "a guard is not supported; write an if inside of the case")
            if isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None and c.pattern.name is None:
                rest = c.body, c.pattern.lineno
                break
            if not isinstance(c.pattern, ast.MatchClass):
                raise self.refuse(c.pattern, f"{ast.unparse(c.pattern)} is no pattern for a value of a data type; write case Node(left, right)")
            cls, named = self.class_of(c.pattern.cls)
            kind = kind or self.type_with(cls, named, c.pattern)
            if named not in kind.made or kind.made[named][0] is not cls:
                raise self.refuse(c.pattern, f"{named} is no constructor of {kind.name}; it has {', '.join(kind.made)}")
            if named in arms:
                raise self.refuse(c.pattern, f"a second case for {named}")
            arms[named] = f"{named} ", self.fields_of(c.pattern, kind, named), c.body, c.pattern.lineno
        if kind is None:
            raise self.refuse(s, "a match of a value of a data type has a case for at least one of its constructors")
        for named, (_, fields) in kind.made.items():
            if named not in arms and rest is None:
                raise self.refuse(s, f"the match of {kind.name} has no case for {named}; its constructors are {', '.join(kind.made)}")
            if named not in arms:
                arms[named] = f"{named} ", ["_"] * len(fields), *rest
        return list(arms.values())

    def class_of(self, node: ast.expr) -> tuple[type, str]:
        value = self.meaning(node)
        if not (isinstance(value, type) and is_data(value)):
            raise self.refuse(node, f"{ast.unparse(node)} is no constructor; make it with @tenon.data")
        return value, value.__name__

    def type_with(self, cls: type, named: str, node: ast.AST) -> Type:
        for kind in self.program.types.all:
            if named in kind.made and kind.made[named][0] is cls:
                return kind
        raise self.refuse(node, f"{named} is a constructor of no data type that a parameter has")

    def fields_of(self, pattern: ast.MatchClass, kind: Type, named: str) -> list[str]:
        fields = [f.name for f in kind.made[named][1]]
        if len(pattern.patterns) > len(fields):
            raise self.refuse(pattern, f"{named} has {len(fields)} fields, {len(pattern.patterns)} are named")
        given = dict(zip(fields, pattern.patterns)) | dict(zip(pattern.kwd_attrs, pattern.kwd_patterns))
        for name in pattern.kwd_attrs:
            if name not in fields:
                raise self.refuse(pattern, f"{named} has no field {name}; it has {', '.join(fields)}")
        names = []
        for f in fields:
            p = given.get(f)
            if p is not None and not (isinstance(p, ast.MatchAs) and p.pattern is None):
                raise self.refuse(p, f"{ast.unparse(p)} is no name; give field {f} a name and match that inside of the case")
            names.append((p.name if p is not None else None) or "_")
        return names

    def loop(self, s: ast.For, scope: dict[str, str], results: list[str]) -> None:
        """for i in range(n): variables that there are before and that a turn assigns are carried."""
        it = s.iter
        if not (isinstance(it, ast.Call) and isinstance(it.func, ast.Name) and it.func.id == "range" and len(it.args) == 1 and not it.keywords):
            raise self.refuse(s, "a loop goes over range(n); over children, write a function that calls itself")
        if s.orelse or _returns(s.body) or any(isinstance(n, (ast.Break, ast.Continue)) for b in s.body for n in ast.walk(b)):
            raise self.refuse(s, "break, continue, return and else are not supported in a loop; write a function that calls itself")
        if not isinstance(s.target, ast.Name):
            raise self.refuse(s, "the number of a turn is one variable")
        carried = [n for n in _assigned(s.body) if n in scope and n != s.target.id]
        if not carried:
            raise self.refuse(s, "a loop that changes no variable from before it does nothing")
        kept = [n for n in self.inner(scope, s.body) if n not in carried and n != s.target.id]
        turns = self.values(it.args[0], 1, scope, it)[0]
        made = [self.fresh(n) for n in carried]
        given = ", ".join(["%" + turns, "_", *(f"%{scope[n]}" for n in carried + kept)])
        self.line(f"{', '.join(f'%{m}' for m in made)} = loop({given}) carried {len(carried)}")
        self.depth += 1

        def write(inside: dict[str, str]) -> list[str]:
            going = inside.pop("going of the loop")
            self.block(s.body, inside, results)
            return [going, *(inside[n] for n in carried)]
        self.graph(f"graph @{self.fresh('turn')}", carried + kept, s.body, write, [s.target.id, "going of the loop"])
        self.depth -= 1
        scope.update(zip(carried, made))

    # ---- expressions ----

    def values(self, node: ast.expr | None, n: int, scope: dict[str, str], at: ast.AST, names: Sequence[str] = ()) -> list[str]:
        """The n values of an expression."""
        if isinstance(node, ast.Tuple):
            if len(node.elts) != n:
                raise self.refuse(at, f"{len(node.elts)} values stand where {n} are wanted")
            return [self.values(e, 1, scope, e, names[i:i + 1])[0] for i, e in enumerate(node.elts)]
        if isinstance(node, ast.Call):
            return self.call(node, n, scope, names)
        if n != 1 or node is None:
            raise self.refuse(at, f"{ast.unparse(node) if node else 'nothing'} stands where {n} values are wanted")
        return [self.value(node, scope, names[0] if names else "v")]

    def op(self, name: str, args: Sequence[str], want: str, attrs: str = "") -> str:
        made = self.fresh(want)
        self.line(f"%{made} = {name}({', '.join(f'%{a}' for a in args)}){attrs}")
        return made

    def value(self, node: ast.expr, scope: dict[str, str], want: str = "v") -> str:
        def one(e: ast.expr) -> str:
            return self.values(e, 1, scope, e)[0]

        if isinstance(node, ast.Name) and node.id in scope:
            return scope[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            return self.constant(node.value, node, want)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self.constant(-node.operand.value, node, want)
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return self.op(BINARY[type(node.op)], [one(node.left), one(node.right)], want)
        if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            return self.op(UNARY[type(node.op)], [one(node.operand)], want)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
            return self.op(COMPARE[type(node.ops[0])], [one(node.left), one(node.comparators[0])], want)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.NotEq):
            return self.op("not", [self.op("equal", [one(node.left), one(node.comparators[0])], want)], want)
        if isinstance(node, ast.BoolOp):
            made = one(node.values[0])
            for e in node.values[1:]:
                made = self.op("and" if isinstance(node.op, ast.And) else "or", [made, one(e)], want)
            return made
        if isinstance(node, ast.Attribute) and _reads([node]) & scope.keys():
            raise self.refuse(node, f"{ast.unparse(node)}: fields are read by match; write match {ast.unparse(node.value)}: case …")
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.constant(self.meaning(node), node, want)
        raise self.refuse(node, f"{ast.unparse(node)} is not supported here: {_what(node)}; {_instead(node)}")

    def meaning(self, node: ast.expr) -> Any:
        """What a name from around the function stands for."""
        if isinstance(node, ast.Name):
            found = self.f.find(node.id)
            if found is None:
                raise self.refuse(node, f"{node.id} is not defined here")
            return found
        if isinstance(node, ast.Attribute):
            try:
                return getattr(self.meaning(node.value), node.attr)
            except AttributeError:
                raise self.refuse(node, f"{ast.unparse(node)} is not known where the function was defined") from None
        raise self.refuse(node, f"{ast.unparse(node)} is no name")

    def constant(self, x: Any, node: ast.AST, want: str) -> str:
        import numpy as np
        if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
            x = np.array(x, bool if isinstance(x, bool) else np.int64 if isinstance(x, int) else np.float32)
        if not isinstance(x, (np.ndarray, np.generic)):
            raise self.refuse(node, f"{ast.unparse(node)} is {type(x).__name__}; numbers and NumPy arrays from outside of the function are constants")
        try:
            text, contents = self.program._constant(np.asarray(x) if isinstance(x, np.generic) else x)
        except UsageError as e:
            raise self.refuse(node, str(e)) from None
        made = self.fresh(want)
        self.line(f"%{made}: {text} = {contents}")
        return made

    def call(self, node: ast.Call, n: int, scope: dict[str, str], names: Sequence[str]) -> list[str]:
        of, made = node.func, [self.fresh(name if name != "_" else "unused") for name in (names or ["v"] * n)]
        if isinstance(of, ast.Attribute) and not (isinstance(of.value, ast.Name) and of.value.id in scope) and self.meaning(of.value) is ops:
            name, attrs = of.attr, self.attributes(node.keywords)
        else:
            known = self.meaning(of)
            if node.keywords:
                raise self.refuse(node, f"{ast.unparse(of)} takes its arguments by position")
            attrs = ""
            if isinstance(known, Function):
                params, results = self.program._call(known)
                if len(node.args) != len(params) or n != len(results):
                    raise self.refuse(node, f"{known.name} takes {len(params)} values and gives {len(results)}; here are {len(node.args)} and {n}")
                name = f"call @{known.name}"
            elif isinstance(known, Cell):
                name = f"call @{self.program._cell(ast.unparse(of).rpartition('.')[2], known)}"
            elif is_data(known):
                raise self.refuse(node, f"{ast.unparse(node)} makes a value of a data type; functions take them apart, and give arrays")
            else:
                raise self.refuse(node, f"{ast.unparse(of)} cannot be called here; tenon.function, tenon.cell and tenon.ops can")
        args = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                raise self.refuse(a, f"{ast.unparse(a)}: arguments are written one by one")
            args.append(self.values(a, 1, scope, a)[0])
        self.line(f"{', '.join(f'%{m}' for m in made)} = {name}({', '.join(f'%{a}' for a in args)}){attrs}")
        return made

    def attributes(self, keywords: Sequence[ast.keyword]) -> str:
        """axis=1, perm=[1, 0]: numbers, texts, and lists of numbers."""
        given = []
        for k in keywords:
            try:
                value = ast.literal_eval(k.value)
            except ValueError:
                raise self.refuse(k.value, f"{ast.unparse(k.value)}: an attribute is a number, a text or a list of numbers") from None
            text = f'"{_escaped(value)}"' if isinstance(value, str) else str(list(value)) if isinstance(value, (list, tuple)) else str(int(value) if isinstance(value, bool) else value)
            given.append(f"{k.arg} = {text}")
        return f" {{{', '.join(given)}}}" if given else ""


def _what(node: ast.AST) -> str:
    names = {ast.While: "while", ast.With: "with", ast.Try: "try", ast.FunctionDef: "a function inside of another", ast.ListComp: "a comprehension",
             ast.Lambda: "lambda", ast.Subscript: "an index", ast.IfExp: "if inside of an expression", ast.Raise: "raise", ast.Assert: "assert",
             ast.Expr: "an expression whose value is not used", ast.ClassDef: "a class", ast.Import: "import", ast.ImportFrom: "import"}
    return names.get(type(node), f"a {type(node).__name__}")


def _instead(node: ast.AST) -> str:
    instead = {ast.While: "write a function that calls itself, or for i in range(n)", ast.FunctionDef: "define it beside this one, with @tenon.function",
               ast.ListComp: "write a function that calls itself", ast.Lambda: "write a function with @tenon.function",
               ast.Subscript: "write tenon.ops.gather(x, i, axis=0) or tenon.ops.slice", ast.IfExp: "write if and else as statements",
               ast.Expr: "assign it to a variable"}
    return instead.get(type(node), "write assignments, match, if, for i in range(n), return, + - * / @ and tenon.ops")
