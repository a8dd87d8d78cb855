"""A function and all that it calls as Tenon's text, and requests as that text's inputs."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ._data import SCALARS, Types, is_data, request
from ._function import Cell, Function
from ._native import UsageError
from ._writer import DIVISION, FLOOR_DIVISION, Writer, escaped, other

DIVIDED = {
    DIVISION: "x / y of whole numbers is a float in Python; write x // y, or make floats of them: "
    'ops.cast(x, to="f32")',
    FLOOR_DIVISION: "x // y is for whole numbers; of floats write ops.floor(x / y)",
}
INLINE = 64  # numbers of a constant that stand in the text


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
        self.hints: dict[str, Any] = {}  # data types by the names that annotations have for them
        self.types = Types(self._find)
        self.lines: list[
            tuple[str, str, int]
        ] = []  # of the text, and where in Python it comes from
        self.call(main)
        bodies: list[list[tuple[str, str, int]]] = []
        while len(bodies) < len(self.functions):  # which grow as calls are met
            bodies.append(Writer(self, list(self.functions.values())[len(bodies)]).function())
        params, results = self.head[main.name]
        by_name = {t.name: t for t in self.types.all}
        self.params = {name: by_name[t[:-2]] for name, t, kind in params if kind}
        top = (main.file, main.tree.lineno)
        given = ", ".join(f"%{name}: {t}" for name, t, _ in params)
        made = ", ".join(f"%{name}" for name, _ in results)
        for line in [t.declaration() for t in self.types.all] + [
            f'graph @{name} = file "{escaped(c.path)}"' for name, c in self.cells.items()
        ]:
            self.lines.append((line, *top))
        for body in bodies:
            self.lines += body
        self.lines += [
            (line, *top)
            for line in (
                f"graph @{other('main', self.functions)}({given}) -> ({made}) {{",
                f"  {made} = call @{main.name}({', '.join(f'%{p[0]}' for p in params)})",
                "}",
            )
        ]

    def _find(self, name: str) -> Any:
        found = (f.find(name) for f in self.functions.values())
        return self.hints.get(name) or next((x for x in found if x is not None), None)

    @property
    def inputs(self) -> list[str]:
        return [name for name, _, _ in self.head[self.main.name][0]]

    @property
    def text(self) -> str:
        return "\n".join(line for line, _, _ in self.lines) + "\n"

    @property
    def weights_name(self) -> str:
        """Functions that are written to one folder have one each."""
        return f"{self.main.name}.weights"

    def write(self, folder: str) -> str:
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{self.main.name}.tn")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.text)
        if self.weights:
            with open(os.path.join(folder, self.weights_name), "wb") as b:
                b.write(self.weights)
        return path

    def said(self, path: str, message: str) -> str:
        """A message about the text as one about the lines of Python that it was made of."""
        for m in re.finditer(re.escape(path) + r":(\d+):\d+: error: .*", message):
            text = self.lines[min(int(m[1]), len(self.lines)) - 1][0].strip()
            for name, says in DIVIDED.items():
                if text.startswith(f"%{name}"):
                    start = m[0].partition(": error: ")[0]
                    message = message.replace(m[0], f"{start}: error: {says}")

        def place(m: re.Match) -> str:
            _, file, line = self.lines[min(int(m[1]), len(self.lines)) - 1]
            return f"{file}:{line}:"

        return re.sub(re.escape(path) + r":(\d+):\d+:", place, message)

    def named(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Inputs in the order of the function's parameters, by name."""
        if len(inputs) != len(self.inputs):
            raise UsageError(
                f"{len(inputs)} inputs are given, {self.main.name} takes {len(self.inputs)}: "
                f"{', '.join(self.inputs)}"
            )
        return dict(zip(self.inputs, inputs))

    def request(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs by the function's parameters as those of the text. Rows with their columns, which
        are named after their types, stay as they are."""
        columns = tuple(f"{t.name}." for t in self.types.all)
        if not self.params or any(str(name).startswith(columns) for name in inputs):
            return dict(inputs)
        if set(inputs) != set(self.inputs):
            raise UsageError(
                f"inputs {', '.join(map(str, inputs)) or 'none'} are given, {self.main.name} takes "
                f"{', '.join(self.inputs)}"
            )
        return request(inputs, self.params, self.types.all)

    def call(self, f: Function) -> tuple[list, list]:
        """The function's parameters (name, type, whether it is of a data type) and results (name,
        type)."""
        if f.name in self.functions:
            if self.functions[f.name] is not f:
                raise UsageError(
                    f"{f.file}:{f.tree.lineno}: two functions are named {f.name}; name one of them "
                    "otherwise"
                )
            return self.head[f.name]
        self.functions[f.name] = f
        if (
            f.tree.args.posonlyargs
            or f.tree.args.kwonlyargs
            or f.tree.args.vararg
            or f.tree.args.kwarg
            or f.tree.args.defaults
        ):
            raise UsageError(
                f"{f.file}:{f.tree.lineno}: {f.name} takes plain parameters only, without defaults "
                "and stars"
            )
        params = []
        for a in f.tree.args.args:
            if a.annotation is None:
                raise UsageError(
                    f"{f.file}:{a.lineno}: parameter {a.arg} needs a type: {a.arg}: Tree, {a.arg}: "
                    f'"f32[1, 4]", {a.arg}: int'
                )
            params.append(
                (a.arg, *self._type(f, a.annotation, f.__wrapped__.__annotations__.get(a.arg)))
            )
        hint = f.tree.returns
        if hint is None:
            raise UsageError(
                f'{f.file}:{f.tree.lineno}: {f.name} needs the type of its result: -> "f32[1, 4]", '
                'or of several, -> tuple["f32[1, 4]", "f32[1, 4]"]'
            )
        several = (
            isinstance(hint, ast.Subscript)
            and isinstance(hint.value, ast.Name)
            and hint.value.id == "tuple"
        )
        hints = (
            (hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice])
            if several
            else [hint]
        )
        values = (
            getattr(f.__wrapped__.__annotations__.get("return"), "__args__", ())
            if several
            else (f.__wrapped__.__annotations__.get("return"),)
        )
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
            raise UsageError(
                f"{f.file}:{hint.lineno}: {ast.unparse(hint)} is no type here; write int, float, "
                'bool, an array "f32[1, 4]" or the name of a data type'
            )
        if text in SCALARS:
            return SCALARS[text], False
        if "[" in text:
            return text, False
        kind = value if is_data(value) else f.find(text)
        name = text.rpartition(".")[2]
        if not is_data(kind):
            raise UsageError(
                f"{f.file}:{hint.lineno}: {text} is no data type; make its classes with "
                f"@tenon.data: {text} = Leaf | Node"
            )
        self.hints[name] = kind
        return f"{self.types.of(name, kind).name}[]", True

    def cell(self, name: str, c: Cell) -> str:
        for known, met in self.cells.items():
            if met is c:
                return known
        name = other(name, {**self.cells, **self.functions})
        self.cells[name] = c
        return name

    def constant(self, x: Any) -> tuple[str, str]:
        """The type of an array, and its contents in the text."""
        import numpy as np

        name = {"float64": "f32", "float32": "f32", "float16": "f16", "bool": "bool"}.get(
            x.dtype.name
        ) or re.sub("^(u?)int", lambda m: m[1] or "i", x.dtype.name)
        if not re.fullmatch(r"(f16|f32|bool|[iu](8|16|32|64))", name):
            raise UsageError(f"an array of type {x.dtype} is no constant; numbers and booleans are")
        text = f"{name}[{', '.join(map(str, x.shape))}]"
        plain = np.ascontiguousarray(x, "float32" if x.dtype == np.float64 else x.dtype)
        if plain.size <= INLINE:
            return text, "const [" + ", ".join(
                repr(float(v)) if name[0] == "f" else str(int(v)) for v in plain.ravel().tolist()
            ) + "]"
        if id(x) not in self.offset:
            self.weights += bytes(-len(self.weights) % 64)
            self.offset[id(x)] = len(self.weights)
            self.kept.append(x)
            self.weights += plain.astype(plain.dtype.newbyteorder("<"), copy=False).tobytes()
        return text, f'const file "{self.weights_name}" {self.offset[id(x)]}'
