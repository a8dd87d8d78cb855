"""What functions on structured values are written with: ``function``, ``cell``, ``ops``.

A function is read, never run: ``_program.py`` and ``_writer.py`` make Tenon's text of it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ._native import UsageError

if TYPE_CHECKING:
    from ._program import Program


class Ops:
    """Operators by name, for functions: ``ops.concat(a, b, axis=1)``, ``ops.tanh(x)``.

    A name is one of Tenon's operators (src/op/ops.def), keyword arguments are its attributes.
    """

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"tenon.ops.{name} stands for an operator in a @tenon.function, which is read and not "
            "run"
        )


ops = Ops()


class Cell:
    """An ONNX model that functions call."""

    def __init__(self, path: str, keep: Any = None):
        self.path, self._keep = os.path.abspath(path), keep

    def __call__(self, *args: Any) -> Any:
        raise UsageError(
            "a cell is called by functions that Tenon compiles; tenon.compile(cell.path) runs it "
            "alone"
        )


def cell(model: Any, example: Sequence[Any] | None = None) -> Cell:
    """A model that functions can call.

    model     the path of an ONNX file, or a ``torch.nn.Module``, which is exported
    example   inputs of the module, of the sizes that it is called with; arrays and numbers will do
    """
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if not os.path.exists(path):
            raise UsageError(f"{path}: there is no such file; a cell is an ONNX model")
        return Cell(path)
    if not hasattr(model, "state_dict") or example is None:
        raise UsageError(
            "a cell is the path of an ONNX file, or a torch.nn.Module with example inputs: "
            "cell(module, (a, b))"
        )
    import tempfile
    import warnings

    import torch

    folder = tempfile.TemporaryDirectory(prefix="tenon-cell-")
    path = os.path.join(folder.name, "cell.onnx")
    # The exporter takes inputs that are one tensor for one input.
    given = tuple(torch.as_tensor(x).clone() for x in example)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter's own affairs
        torch.onnx.export(model.eval(), given, dynamo=True, verbose=False).save(path)
    return Cell(path, folder)


class Function:
    """A function that Tenon compiles: ``tenon.compile(f, many=True)``."""

    def __init__(self, of: Callable):
        if isinstance(of, Function):
            raise UsageError(f"{of.name} is a tenon.function already; say so once")
        if not inspect.isfunction(of) or of.__name__ == "<lambda>":
            raise UsageError(f"tenon.function reads functions written with def; {of!r} is none")
        self.__wrapped__ = of
        self.name = of.__name__
        self.file = inspect.getsourcefile(of) or "?"
        try:
            lines, first = inspect.getsourcelines(of)
        except OSError:
            raise UsageError(
                f"{self.name}: its source cannot be read; define it in a file, or in a notebook's "
                "cell"
            ) from None
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
            except ValueError:  # of a function that is defined below
                return None
        return of.__globals__.get(name, vars(builtins).get(name))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise UsageError(
            f"{self.name} is read and not run; tenon.compile({self.name}) makes a model of it"
        )

    def program(self) -> Program:
        from ._program import Program

        return Program(self)

    def text(self) -> str:
        """Tenon's text of it, with all that it calls."""
        return self.program().text

    def write(self, folder: str | os.PathLike) -> str:
        """Write its text, and its large constants beside it, for ``tenon compile``; the path of the
        text."""
        return self.program().write(os.fspath(folder))

    def arrays(self, **inputs: Any) -> dict[str, Any]:
        """The inputs of a request as the compiled model has them: data types as rows and columns.

        A model that was loaded takes these; it does not know the classes."""
        return self.program().request(inputs)


function = Function
