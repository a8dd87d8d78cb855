"""Data types: classes whose instances are values of a model, and their way into arrays.

    @tenon.data
    class Leaf: word: int
    @tenon.data
    class Node: left: "Tree"; right: "Tree"
    Tree = Leaf | Node

All values of one type that a request has are rows of one table, a child in front of its parent
(doc/text.md has the columns). Objects become rows without recursion; one that is met twice is one
row.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ._native import UsageError

SCALARS = {"int": "i64[]", "float": "f32[]", "bool": "bool[]"}


def data(cls: type) -> type:
    """A constructor of a data type: a class with annotated fields, ``int``, ``float``, ``bool``,
    an array ``"f32[4]"``, or a data type. Its instances are frozen, and compared by identity."""
    if not isinstance(cls, type):
        raise UsageError(f"tenon.data makes constructors of classes; {cls!r} is none")
    try:
        made = dataclasses.dataclass(frozen=True, eq=False)(cls)
    except (TypeError, ValueError) as e:  # its base is no such class, a default is a list
        raise UsageError(f"{cls.__module__}.{cls.__qualname__}: {e}") from None
    made.__tenon_data__ = True
    return made


def is_data(kind: Any) -> bool:
    """A class that ``data`` made, or a union of such."""
    if isinstance(kind, types.UnionType):
        return all(is_data(k) for k in kind.__args__)
    return isinstance(kind, type) and getattr(kind, "__tenon_data__", False)


class Field(NamedTuple):
    name: str
    type: str  # as the text has it: i64[], Tree[]
    data: Type | None  # whose rows it holds numbers of


class Type:
    """A data type as the text declares it: a name, and of each constructor its fields."""

    def __init__(self, name: str):
        self.name = name
        self.made: dict[str, tuple[type, tuple[Field, ...]]] = {}

    def declaration(self) -> str:
        made = (
            f"{name}({', '.join(f'{f.name}: {f.type}' for f in fields)})"
            for name, (_, fields) in self.made.items()
        )
        return f"data {self.name} = {' | '.join(made)}"

    def columns(self) -> dict[str, str]:
        """Of each field its element type and shape; the tag is not among them."""
        return {f.name: f.type for _, fields in self.made.values() for f in fields}


class Types:
    """The data types of a text, each in front of those whose fields lead to it.

    ``find`` gives what a name means where annotations are texts.
    """

    def __init__(self, find: Callable[[str], Any]):
        self.all: list[Type] = []
        self.known: dict[tuple[type, ...], Type] = {}
        self.find = find

    def of(self, name: str, kind: Any) -> Type:
        """The type of a class or a union of classes, by that name where it has none yet."""
        classes = getattr(kind, "__args__", (kind,))
        if classes in self.known:
            return self.known[classes]
        if any(t.name == name for t in self.known.values()):
            raise UsageError(f"two data types are named {name}; name one of them otherwise")
        new = self.known[classes] = Type(name)
        for cls in classes:
            new.made[cls.__name__] = (
                cls,
                tuple(
                    self.field(new, cls, f.name, f.type)
                    for f in dataclasses.fields(cls)
                ),
            )
        self.all.append(new)
        return new

    def name_of(self, kind: Any, module: str) -> str:
        """A union's name is that of a variable of its module, else made of its classes'."""
        if isinstance(kind, type):
            return kind.__name__
        around = vars(sys.modules.get(module, types))
        return next(
            (name for name, x in around.items() if isinstance(x, types.UnionType) and x == kind),
            "_or_".join(c.__name__ for c in kind.__args__),
        )

    def field(self, own: Type, cls: type, name: str, hint: Any) -> Field:
        def refuse(what: str) -> UsageError:
            return UsageError(f"{cls.__module__}.{cls.__qualname__}: field {name} {what}")

        if hint in (int, float, bool):
            return Field(name, SCALARS[hint.__name__], None)
        if isinstance(hint, str):
            text = hint.strip()
            if text[:1] in "'\"":  # "Tree" where all annotations are texts
                text = ast.literal_eval(text)
            if text in SCALARS:
                return Field(name, SCALARS[text], None)
            if "[" in text and not text.startswith(("list", "tuple")):
                return Field(name, text, None)
            if text == own.name:
                return Field(name, f"{text}[]", own)
            hint = self.find(text) or vars(sys.modules.get(cls.__module__, types)).get(text)
        if is_data(hint):
            of = self.of(self.name_of(hint, cls.__module__), hint)
            if of is not own and of not in self.all:
                raise refuse(
                    f"is {of.name}, which leads back to {own.name}; a data type leads to itself "
                    "and to others that do not lead to it"
                )
            return Field(name, f"{of.name}[]", of)
        raise refuse(
            f'is {hint!r}; write int, float, bool, an array like "f32[4]", or the name of a data '
            "type"
        )


# ---- values to rows ------------------------------------------------------------------------------


class Table:
    """Rows of one type: the tags, and of each field the rows that have it and what they hold."""

    def __init__(self, kind: Type):
        self.kind = kind
        self.tags: list[int] = []
        self.held: dict[str, tuple[list[int], list[Any]]] = {
            name: ([], []) for name in kind.columns()
        }

    def arrays(self) -> dict[str, Any]:
        import numpy as np

        arrays = {}
        if len(self.kind.made) > 1:
            arrays[f"{self.kind.name}.tag"] = np.array(self.tags, np.int64)
        for name, text in self.kind.columns().items():
            rows, held = self.held[name]
            dtype, shape = _element(text)
            column = np.zeros((len(self.tags), *shape), dtype)
            if held:
                column[rows] = _numbers(held, dtype, shape, f"{self.kind.name}.{name}")
            arrays[f"{self.kind.name}.{name}"] = column
        return arrays


def _element(text: str) -> tuple[Any, tuple[int, ...]]:
    from ._values import dtype_of

    name, _, dims = text.rstrip("]").partition("[")
    return (
        ("int64", ())
        if not dims and name not in _ELEMENTS
        else (dtype_of(name), tuple(int(d) for d in dims.split(",") if d.strip()))
    )


_ELEMENTS = {
    "bool",
    "f16",
    "f32",
    "f64",
    "bf16",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
}


def _numbers(held: list[Any], dtype: Any, shape: tuple[int, ...], where: str) -> Any:
    import numpy as np

    from ._numbers import as_type

    for x in held:
        try:
            given = np.shape(x)
        except ValueError:
            raise UsageError(f"{where}: lists of different lengths are given") from None
        if given != shape:
            raise UsageError(f"{where}: a value has shape {given}, {shape} is wanted")
    return as_type(held, dtype, where)


def _opened(kind: Type, value: Any) -> tuple[str, Iterable[Any]]:
    """Which constructor made a value, and what its fields hold."""
    named = type(value).__name__
    if named in kind.made and isinstance(value, kind.made[named][0]):
        return named, [getattr(value, f.name) for f in kind.made[named][1]]
    held: Any = None
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        named, held = value[0], value[1:]
    elif isinstance(value, Mapping) and len(value) == 1:
        ((named, held),) = value.items()
    else:
        raise UsageError(
            f"{kind.name}: {_short(value)} is none of its values; give an object of "
            f"{', '.join(kind.made)}, a tuple "
            f"('{next(iter(kind.made))}', …) or a dict {{'{next(iter(kind.made))}': {{…}}}}"
        )
    match = {name.lower(): name for name in kind.made}.get(str(named).lower())
    if match is None:
        raise UsageError(f"{kind.name} has no constructor {named!r}; it has {', '.join(kind.made)}")
    fields = kind.made[match][1]
    if isinstance(held, Mapping):
        names = {f.name for f in fields}
        if set(held) != names:
            raise UsageError(
                f"{match}: fields {', '.join(sorted(map(str, held)))} are given, "
                f"{', '.join(sorted(names))} are wanted"
            )
        return match, [held[f.name] for f in fields]
    if len(fields) == 1 and not isinstance(value, tuple) and not isinstance(held, (list, tuple)):
        held = (held,)
    if not isinstance(held, (list, tuple)) or len(held) != len(fields):
        raise UsageError(f"{match}: {_short(held)} is given for its {len(fields)} fields")
    return match, held


def _short(value: Any) -> str:
    text = object.__repr__(value) if dataclasses.is_dataclass(value) else type(value).__name__
    return (
        text
        if isinstance(value, (tuple, list, Mapping)) or dataclasses.is_dataclass(value)
        else f"{text} {str(value)[:40]}"
    )


_OPEN = -1  # it is above what is looked at


class Rows:
    """The rows of all values of a request."""

    def __init__(self, kinds: Iterable[Type]):
        self.table = {kind.name: Table(kind) for kind in kinds}
        self.row: dict[tuple[str, int], int] = {}
        self.keep: list[Any] = []  # what rows are known by must not be another object's meanwhile

    def of(self, kind: Type, value: Any) -> int:
        """The row of a value, after those that it leads to."""
        open_ = [(kind, value, None)]
        while open_:
            kind_, value_, made = open_.pop()
            key = kind_.name, id(value_)
            if made is None:
                if self.row.get(key, _OPEN) != _OPEN:
                    continue
                if key in self.row:
                    raise UsageError(f"{kind_.name}: {_short(value_)} contains itself")
                made = _opened(kind_, value_)
                self.row[key] = _OPEN
                self.keep.append((value_, made))
                open_.append((kind_, value_, made))
                open_ += [
                    (f.data, x, None) for f, x in zip(kind_.made[made[0]][1], made[1]) if f.data
                ]
                continue
            self.row[key] = self.add(kind_, *made)
        return self.row[kind.name, id(value)]

    def add(self, kind: Type, made: str, held: Iterable[Any]) -> int:
        table = self.table[kind.name]
        row = len(table.tags)
        table.tags.append(list(kind.made).index(made))
        for f, x in zip(kind.made[made][1], held):
            rows, values = table.held[f.name]
            rows.append(row)
            values.append(self.row[f.data.name, id(x)] if f.data else x)
        return row


def request(
    given: Mapping[str, Any], params: Mapping[str, Type], kinds: Iterable[Type]
) -> dict[str, Any]:
    """A request with the values of data types among its inputs as rows, and their columns."""
    import numpy as np

    rows = Rows(kinds)
    made = {
        name: np.array(rows.of(params[name], x)) if name in params else x
        for name, x in given.items()
    }
    for table in rows.table.values():
        made |= table.arrays()
    return made
