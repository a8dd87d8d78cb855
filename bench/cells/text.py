"""Graphs as Tenon's text, written value by value; constants lie in a file beside it.

Types may have the symbols n and m as dimensions. They are a graph's own: a region's have a suffix.
"""
import pathlib
import re

import numpy as np


def tensor(*dims, dtype="f32") -> str:
    return f"{dtype}[{', '.join(map(str, dims))}]"


NUMBER = tensor(dtype="i64")


def symbol(suffix: str) -> str:
    """Matches n or m as a dimension, as a graph with this suffix has it."""
    return rf"\b([nm]){suffix}\b"


def with_symbols(kind: str, old: str, new: str) -> str:
    return re.sub(symbol(old), rf"\g<1>{new}", kind)


class Text:
    """Functions, the model last; constants lie in a file beside them."""

    def __init__(self, path: pathlib.Path):
        self.path, self.graphs, self.at, self.regions, self.values = path, [], {}, 0, 0
        self.weights = open(path.with_suffix(".weights"), "wb")

    def place(self, array: np.ndarray) -> str:
        if id(array) not in self.at:
            self.weights.write(bytes(-self.weights.tell() % 64))
            self.at[id(array)] = self.weights.tell(), array
            self.weights.write(np.ascontiguousarray(array).tobytes())
        return f'file "{self.path.with_suffix(".weights").name}" {self.at[id(array)][0]}'

    def save(self) -> pathlib.Path:
        self.weights.close()
        self.path.write_text("\n".join(self.graphs))
        return self.path


class Graph:
    """A graph as it is written. Values are known by name; %name has type self.type[name].
    rows: what is looked up at a time."""

    def __init__(self, text: Text, name: str, inputs: dict[str, str], top: bool = True):
        self.text, self.name, self.rows, self.lines = text, name, 1, []
        self.inputs, self.suffix = list(inputs), ""
        if not top:                          # symbols are a graph's own
            text.regions += 1
            self.suffix = f"_{text.regions}"
        self.type = {k: with_symbols(t, "", self.suffix) for k, t in inputs.items()}

    def fresh(self, kind: str) -> str:
        self.text.values += 1
        name = f"v{self.text.values}"
        self.type[name] = kind
        return name

    def constant(self, array) -> str:
        array = np.asarray(array)
        dtype = {"f": f"f{8 * array.itemsize}", "i": "i64", "b": "bool"}[array.dtype.kind]
        name = self.fresh(tensor(*array.shape, dtype=dtype))
        small = f"[{', '.join(str(int(x)) for x in array.ravel())}]"
        self.lines.append(f"%{name}: {self.type[name]} = const "
                          f"{small if array.dtype.kind != 'f' else self.text.place(array)}")
        return name

    def op(self, op: str, kind: str | None, *given: str, **attributes) -> str:
        """kind: the type of the result, None: that of the first argument."""
        name = self.fresh(kind or self.type[given[0]])
        more = ", ".join(f"{k} = {v}" for k, v in attributes.items())
        self.lines.append(f"%{name}: {self.type[name]} = {op}({self.uses(given)})"
                          + (f" {{{more}}}" if more else ""))
        return name

    @staticmethod
    def uses(names) -> str:
        return ", ".join(f"%{n}" if n != "_" else "_" for n in names)

    def results(self, kinds: list[str]) -> tuple[list[str], str]:
        names = [self.fresh(k) for k in kinds]
        return names, ", ".join(f"%{n}: {self.type[n]}" for n in names)

    def bound(self, names, inner: str, outer: str) -> str:
        """What symbols of these values are, one suffix for the other; "" where they have none."""
        found = {s for x in names for s in re.findall(symbol(self.suffix), self.type[x])}
        pairs = ", ".join(f"{s}{inner} = {s}{outer}" for s in sorted(found))
        return f" with [{pairs}]" if pairs else ""

    def call(self, name: str, kinds: list[str], *given: str) -> list[str]:
        names, shown = self.results(kinds)
        self.lines.append(f"{shown} = call @{name}({self.uses(given)})"
                          f"{self.bound(given, '', self.suffix)}")
        return names

    def region(self, name: str, given: dict[str, str]) -> "Graph":
        """To be written, for `branch` or `turns`. given: its inputs and their types."""
        kinds = {k: with_symbols(t, self.suffix, "") for k, t in given.items()}
        return Graph(self.text, name, kinds, top=False)

    def closed(self, inner: "Graph", outputs) -> list[str]:
        bind = inner.bound(inner.inputs, inner.suffix, self.suffix)
        return [f" {bind}", *inner.written(outputs)]

    def branch(self, condition: str, given: list[str], write_yes, write_no) -> list[str]:
        """write(graph) -> its outputs; a region knows what it is given under the same names."""
        lines, kinds = [], []
        for name, write in (("yes", write_yes), ("no", write_no)):
            inner = self.region(name, {x: self.type[x] for x in given})
            outputs = write(inner)
            kinds = [with_symbols(inner.type[x], inner.suffix, self.suffix) for x in outputs]
            lines += self.closed(inner, outputs)
        names, shown = self.results(kinds)
        self.lines += [f"{shown} = if({self.uses([condition, *given])})", *lines]
        return names

    def turns(self, most: str, carried: list[str], given: list[str], write,
              go: str = "_") -> list[str]:
        """write(graph, turn) -> (goes on or None, what is carried, then what is stacked), under the
        names given. As many turns as the symbol n are taken where something is stacked."""
        inner = self.region("turn", {"turn": NUMBER, "going": tensor(dtype="bool")}
                            | {x: self.type[x] for x in [*carried, *given]})
        again, outputs = write(inner)
        stacked = [f"{kind[:3]}[n{self.suffix}, {kind[4:]}"
                   for kind in (inner.type[x] for x in outputs[len(carried):])]
        names, shown = self.results([self.type[x] for x in carried] + stacked)
        self.lines += [f"{shown} = loop({self.uses([most, go, *carried, *given])}) "
                       f"carried {len(carried)}", *self.closed(inner, [again or "going", *outputs])]
        return names

    def written(self, outputs) -> list[str]:
        inputs = ", ".join(f"%{i}: {self.type[i]}" for i in self.inputs)
        return [f"graph @{self.name}({inputs}) -> ({self.uses(outputs)}) {{",
                *(f"  {line}" for line in self.lines), "}"]

    def end(self, *outputs: str) -> None:
        self.text.graphs.append("\n".join(self.written(outputs)) + "\n")

    # ---- what cells are made of

    def dot(self, x: str, *weights: np.ndarray) -> str:
        """x w, or x w + b."""
        rows = self.type[x].rsplit(", ", 1)[0]
        y = self.op("matmul", f"{rows}, {weights[0].shape[-1]}]", x, self.constant(weights[0]))
        return self.op("add", None, y, self.constant(weights[1])) if len(weights) > 1 else y

    def sigmoid(self, x: str) -> str:
        return self.op("sigmoid", None, x)

    def tanh(self, x: str) -> str:
        return self.op("tanh", None, x)

    def mul(self, x: str, y: str) -> str:
        return self.op("mul", None, x, y)

    def add(self, x: str, y: str) -> str:
        return self.op("add", None, x, y)

    def beside(self, x: str, y: str, axis: int = 1) -> str:
        dims, more = (self.type[v][4:-1].split(", ") for v in (x, y))
        dims[axis] = int(dims[axis]) + int(more[axis])
        return self.op("concat", tensor(*dims), x, y, axis=axis)

    def item(self, items: str, at: str) -> str:
        return self.op("gather", NUMBER, items, at, axis=0)

    def lookup(self, table: np.ndarray, at: str) -> str:
        """table[at]; one row has a dimension of one in front."""
        if self.rows == 1:
            at = self.op("reshape", tensor(1, dtype="i64"), at, self.constant([1]))
        kind = tensor(self.rows, *table.shape[1:])
        return self.op("gather", kind, self.constant(table), at, axis=0)
