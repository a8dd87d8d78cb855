"""Models that are loaded, and their sessions."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _native


class Value(NamedTuple):
    """An input or an output. A dimension is a number, or the text of one that is open: ``"batch"``, ``"2*n + 1"``.

    ``format`` is how the dimensions lie where ``io_format`` said so, ``"nhwc"``; None: as in the model.
    """
    name: str
    dtype: str
    shape: tuple[int | str, ...]
    format: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]{f' as {self.format}' if self.format else ''}"


class State(NamedTuple):
    """An output that is an input of the next run. It grows along ``axis`` of ``shape``, as it lies; -1: it is replaced."""
    input: str
    output: str
    dtype: str
    shape: tuple[str, ...]
    axis: int
    in_place: bool


_MAPPED = {"str": "object", "i64": "int64", "f32": "float32", "f64": "float64"}


def _entries(name: str, x: Mapping[Any, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """A dict as the two inputs that a map of the model is: its keys, and its values."""
    import numpy as np
    parts = {f"{name}.keys": list(x), f"{name}.values": list(x.values())}
    return {part: np.array(items, _MAPPED[types[part]]) for part, items in parts.items()}


def _arguments(inputs: Mapping[str, Any] | Sequence[Any], types: Mapping[str, str]) -> tuple[tuple, dict]:
    if not isinstance(inputs, Mapping):
        return tuple(inputs), {}
    given = {}
    for name, x in inputs.items():
        given |= _entries(name, x, types) if isinstance(x, Mapping) and f"{name}.keys" in types else {name: x}
    return (), given


class Session(_native.Session):
    """A model with memory and threads of its own. One run at a time; other threads wait their turn.

    Called with arrays, by position or by name, it gives the output, or a tuple of several.

    States of the model (``compile(state=…)``) are the session's own: ``state_length`` tells how much they hold,
    ``drop(n)`` takes the last n rows, ``reset()`` all.
    """

    def __init__(self, model: Model, threads: int = 0, state_capacity: int = 0):
        super().__init__()
        self._names = tuple(o.name for o in model.outputs)
        self._types = {i.name: i.dtype for i in model.inputs}

    def __new__(cls, model: Model, threads: int = 0, state_capacity: int = 0) -> Session:
        return super().__new__(cls, model._native, threads, state_capacity)

    def run(self, inputs: Mapping[str, Any] | Sequence[Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run on ``inputs``, by name or in order; outputs by name. A map of the model is given as a dict.

        ``out`` has arrays to write some outputs to: contiguous, of just the right size. ``sizes`` tells it.
        """
        args, kwargs = _arguments(inputs, self._types)
        given = None
        if out is not None:
            unknown = set(out) - set(self._names)
            if unknown:
                raise _native.UsageError(f"out: the model has no output {sorted(unknown)[0]!r}; its outputs are {', '.join(self._names)}")
            given = tuple(out.get(name) for name in self._names)
        return dict(zip(self._names, self._run(args, kwargs, given)))

    def sizes(self, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Element type and shape of each output for these inputs; nothing is run."""
        args, kwargs = _arguments(inputs, self._types)
        return dict(zip(self._names, self._sizes(args, kwargs)))

    def __repr__(self) -> str:
        return f"<tenon.Session: {self.threads} thread{'s' if self.threads != 1 else ''}>"


class Model(_native.Caller):
    """A compiled model. Calling it runs it: ``y = model(x)``, ``model(x=x, mask=m)``."""

    def __init__(self, path: str | os.PathLike, *, name: str | None = None, report: dict | None = None):
        self._native = _native.Model(path, name)
        #: where the artefact lies
        self.path = os.fspath(path)
        #: what compiling said: seconds, artefact_bytes, kernels, …; None of a loaded model
        self.report = report
        #: names, element types and shapes
        self.inputs: tuple[Value, ...] = tuple(Value(*v) for v in self._native.inputs)
        self.outputs: tuple[Value, ...] = tuple(Value(*v) for v in self._native.outputs)

    @property
    def summary(self) -> str:
        """Target, kernels and weights in one line."""
        return self._native.summary

    @property
    def kernels(self) -> tuple[str, ...]:
        """For each kernel the nodes of the model that it came from."""
        return self._native.kernels

    @property
    def states(self) -> tuple[State, ...]:
        """What a session keeps from run to run."""
        return tuple(State(*s) for s in self._native.states)

    def session(self, threads: int = 0, state_capacity: int = 0) -> Session:
        """Memory and threads of their own; 0: as many threads as this process may use.

        ``state_capacity`` bounds the rows of states that grow; 0: as compiled, else as memory allows.
        """
        return Session(self, threads, state_capacity)

    def run(self, inputs: Mapping[str, Any] | Sequence[Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run on ``inputs``, by name or in order; outputs by name. See `Session.run`."""
        return self._session.run(inputs, out)

    def save(self, path: str | os.PathLike) -> None:
        """Copy the artefact; ``tenon.load(path)`` reads it."""
        import shutil
        path = os.fspath(path)
        beside = f"{path}.tmp{os.getpid()}"
        try:
            shutil.copy(self.path, beside)
            os.replace(beside, path)
        finally:
            if os.path.exists(beside):
                os.unlink(beside)

    def __repr__(self) -> str:
        lines = [f"<tenon.Model: {self.summary}"]
        lines += [f"  {'inputs ' if i == 0 else '       '} {v}" for i, v in enumerate(self.inputs)]
        lines += [f"  {'outputs' if i == 0 else '       '} {v}" for i, v in enumerate(self.outputs)]
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        from ._notebook import model_html
        return model_html(self)


def load(path: str | os.PathLike) -> Model:
    """Load what ``tenon compile`` or ``Model.save`` wrote. Needs no compiler; the weights are mapped, not read."""
    return Model(path)
