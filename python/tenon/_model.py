"""Models that are loaded, and their sessions."""
from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._values import ElementType, is_split, shown, split, whole_names

if TYPE_CHECKING:
    from ._ragged import Ragged


class Value(NamedTuple):
    """An input or an output. A dimension is a number, or the text of one that is open: ``"batch"``,
    ``"2*n + 1"``. ``dtype`` is "f32", "i64", …, and ``np.dtype(v.dtype)`` what NumPy calls it.

    ``format`` is how the dimensions lie where ``io_format`` said so, ``"nhwc"``; None: as in the
    model.
    """
    name: str
    dtype: ElementType
    shape: tuple[int | str, ...]
    format: str | None = None

    def __str__(self) -> str:
        layout = f" as {self.format}" if self.format else ""
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]{layout}"


def _value(told: tuple) -> Value:
    name, dtype, *rest = told
    return Value(name, ElementType(dtype), *rest)


class Block(NamedTuple):
    """A part of a model that requests run together: ``asked`` counts requests, ``ran``
    runs.

    ``name`` is the node that it ends in, ``nodes`` how many nests it has. ``host`` is what control
    asks for: it runs for one request at a time.
    """
    name: str
    nodes: int
    host: bool
    asked: int
    ran: int


class Learnt(NamedTuple):
    """How many batches of blocks requests take by each policy, and a table for "fsm".

    No order takes less than ``bound``. ``best`` is the policy of the least, for ``Session.policy``:
    inline depth, which costs nothing, where none has less.
    """
    nodes: int
    bound: int
    depth: int
    agenda: int
    greedy: int
    fsm: int
    states: int
    episodes: int
    table: str
    best: str

    def save(self, path: str | os.PathLike) -> None:
        """Write the table: ``session.policy = f"fsm:{path}"``."""
        with open(path, "w") as file:
            file.write(self.table)


class State(NamedTuple):
    """An output that is an input of the next run. It grows along ``axis`` of ``shape``, as it lies;
    -1: it is replaced."""
    input: str
    output: str
    dtype: str
    shape: tuple[str, ...]
    axis: int
    in_place: bool


def _packed(inputs: Any, known: Mapping[str, Value]) -> dict[str, Ragged]:
    """Those of ``inputs`` that are batches without padding, by name."""
    if not any(name.endswith(".offsets") for name in known):
        return {}
    from ._ragged import Ragged
    named = _by_name(inputs, known).items()
    return {
        name: x if isinstance(x, Ragged) else Ragged(*x)
        for name, x in named
        if isinstance(x, (Ragged, tuple))
    }


def _by_name(inputs: Any, known: Mapping[str, Any], named: int = 0) -> dict[str, Any]:
    """Of a list, beside which ``named`` others are given, offsets may be left out."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    short = len(inputs) + named < len(known)
    return dict(zip((n for n in known if not (short and n.endswith(".offsets"))), inputs))


def _unpacked(inputs: Any, known: Mapping[str, Value]) -> Any:
    """Packed batches as the rows and the offsets that the model has inputs of."""
    import numpy as np
    packed = _packed(inputs, known)
    if not packed:
        return inputs
    offsets = next(iter(packed.values())).offsets
    for name, x in packed.items():
        if len(x.offsets) != len(offsets):
            raise _native.UsageError(
                f"input {name}: {len(x)} sequences are given, {len(offsets) - 1} in another input"
            )
        for b in np.flatnonzero(x.offsets != offsets)[:1]:
            raise _native.UsageError(
                f"input {name}: sequence {b} begins at row {x.offsets[b]}, and at row "
                f"{offsets[b]} in another input"
            )
    given = {name: x.values for name, x in packed.items()}
    source = next(name for name in known if name.endswith(".offsets"))
    return {source: np.ascontiguousarray(offsets, "int64")} | _by_name(inputs, known) | given


def _arguments(
    inputs: Mapping[str, Any] | Sequence[Any],
    known: Mapping[str, Value],
    names: Sequence[str],
    optional: Mapping[str, str],
) -> tuple[tuple, dict]:
    """``names``: the inputs by position where sequences count as one."""
    inputs = _unpacked(inputs, known)
    if not isinstance(inputs, Mapping) and len(inputs) == len(names) < len(known):
        inputs = dict(zip(names, inputs))
    if not isinstance(inputs, Mapping):
        return tuple(inputs), {}
    given = {}
    for name, x in inputs.items():
        given |= {name: x} if name in known else split(name, x, known, optional)
    return (), given


def _listed(requests: Iterable[Any], by: str) -> list[Any]:
    """Requests as a list: they are gone through more than once, which a generator is not."""
    if type(requests) is list:               # at once: a single request is about as short as this
        return requests
    if isinstance(requests, (Mapping, str, bytes)) or not isinstance(requests, Iterable):
        raise _native.UsageError(
            f"{by} takes a list of requests, {type(requests).__name__} is given; of one request it "
            "is [request]"
        )
    return list(requests)


class Session(_native.Session):
    """A model with memory and threads of its own. One run at a time; other threads wait their turn.

    Called with arrays, by position or by name, it gives the output, or a tuple of several.

    States of the model (``compile(state=…)``) are the session's own: ``state_length`` tells how
    much they hold, ``drop(n)`` takes the last n rows, ``reset()`` all, ``fork()`` makes a session
    that goes on from here by itself, ``arrange`` lets sequences of a batch begin and end apart from
    each other.
    """

    def __init__(self, model: Model, threads: int = 0, state_capacity: int = 0):
        super().__init__()
        self._made_with = model, threads, state_capacity
        self._policy: str | None = None
        self._names = tuple(o.name for o in model.outputs)
        self._inputs = {i.name: i for i in model.inputs}
        self._rows = {o.name: o.shape[0] for o in model.outputs if o.shape}
        self._program = model._program
        self._whole = whole_names(tuple(self._inputs))
        self._optional = {
            key.removeprefix("onnx.optional:"): kind
            for key, kind in model._native.metadata
            if key.startswith("onnx.optional:")
        }

    def __new__(cls, model: Model, threads: int = 0, state_capacity: int = 0) -> Session:
        names = [tuple(v.name for v in values) for values in (model.inputs, model.outputs)]
        if cls is Session and (
            model._program is not None
            or any(is_split(all, i) for all in names for i in range(len(all)))
            or any(name.endswith(".offsets") for name in names[0])
        ):
            cls = _JoiningSession
        return super().__new__(cls, model._native, threads, state_capacity)

    def _arguments(self, inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[tuple, dict]:
        if isinstance(inputs, (str, bytes)) or not isinstance(inputs, (Mapping, Sequence)):
            raise _native.UsageError(
                f"inputs are a dict by name, or a list in order; {type(inputs).__name__} is given"
            )
        if self._program is not None:
            if not isinstance(inputs, Mapping):
                inputs = self._program.named(inputs)
            inputs = self._program.request(inputs)
        return _arguments(inputs, self._inputs, self._whole, self._optional)

    def fork(self, into: Session | None = None) -> Session:
        """A session whose states hold what those of this one hold: ``into``, another one of the
        same model, or a new one.

        What both begin with is in memory once, so a long prompt is run once and gone on from by
        many.
        """
        session = Session(*self._made_with) if into is None else into
        session._fork(self)
        return session

    def arrange(
        self,
        of: Sequence[int],
        rows: Sequence[Sequence[int]] | int | None = None,
        dim: str = "batch",
    ) -> None:
        """What the states hold, in another order: sequence b is what sequence ``of[b]`` was, or
        new, zeros, where that is -1.

        ``rows``: which of its rows each sequence has now, in order, -1 for zeros, as many for all;
        or how many of its first; None: all. ``dim`` is what the model calls the dimension that
        counts sequences.

            session.arrange([0, 2, 2])          # the second has ended, the third goes on twice
        """
        if rows is None or isinstance(rows, int):
            self._arrange(dim, array("q", of), self.state_length if rows is None else rows, None)
            return
        lengths = {len(r) for r in rows} or {0}
        if len(rows) != len(of) or len(lengths) > 1:
            raise ValueError(
                f"rows: {len(rows)} lists of {', '.join(map(str, sorted(lengths)))} rows were "
                f"given; {len(of)} of one length are wanted"
            )
        self._arrange(
            dim, array("q", of), lengths.pop(), array("q", [r for each in rows for r in each])
        )

    def run(
        self, inputs: Mapping[str, Any] | Sequence[Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run on ``inputs``, by name or in order; outputs by name.

        A map of the model is given as a dict, a sequence as a list of arrays; so they come out,
        what ``ZipMap`` makes as a list of dicts.

        ``out`` has arrays to write some outputs to: contiguous, of just the right size. ``sizes``
        tells it. Where data decide a size, it tells the most that there can be: what is returned
        is the part of the array that was written, its front.
        """
        args, kwargs = self._arguments(inputs)
        given = None
        if out is not None:
            unknown = set(out) - set(self._names)
            if unknown:
                raise _native.UsageError(
                    f"out: the model has no output {sorted(unknown)[0]!r}; its outputs are "
                    f"{', '.join(self._names)}"
                )
            given = tuple(out.get(name) for name in self._names)
        return shown(self._names, self._run(args, kwargs, given), self._optional)

    def run_many(
        self, requests: Iterable[Mapping[str, Any] | Sequence[Any]]
    ) -> list[dict[str, Any] | Exception]:
        """Run many requests; of each its outputs by name, or the exception that it met, which takes
        none of the others with it.

        Compiled with ``many=True``, requests of equal sizes run together, block by block, whatever
        branches they take; else they run one by one. Each gets the bits that ``run`` gives it.
        """
        given = [self._taken(inputs) for inputs in _listed(requests, "run_many")]
        return [
            shown(self._names, one, self._optional) if type(one) is tuple else one
            for one in self._run_many(given)
        ]

    def _taken(self, inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[tuple, dict] | Exception:
        try:
            return self._arguments(inputs)
        except Exception as e:
            return e

    @property
    def policy(self) -> str | None:
        """In which order ``run_many`` runs blocks: "depth", "agenda", "greedy", "fsm:FILE",
        "random:SEED"; None: as the model says.

        Results are the same bits, how often blocks run differs: see ``blocks``. A table that
        ``learn`` made may stand in place of its file.
        """
        return self._policy

    @policy.setter
    def policy(self, policy: str | None) -> None:
        if policy is not None and not isinstance(policy, str):
            raise _native.UsageError(
                f"policy is a text such as 'agenda', or None; {policy!r} is given"
            )
        self._order(policy)
        self._policy = policy

    def learn(self, requests: Iterable[Mapping[str, Any] | Sequence[Any]], batch: int = 0,
              seed: int = 0) -> Learnt:
        """Learn in which order blocks run in fewest batches, from ``requests`` like those to come.

        They run ``batch`` at a time, 0: all at once; the number that runs together is best. Nothing
        changes until a policy is set:

            session.policy = session.learn(requests).best
        """
        requests = _listed(requests, "learn")
        self._record()
        step = batch or len(requests) or 1
        for i in range(0, len(requests), step):
            self._run_many([self._arguments(r) for r in requests[i:i + step]])
        return Learnt(*self._learn(seed))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What requests run together, and how often they did."""
        return tuple(
            Block(name, nodes, bool(host), asked, ran)
            for name, nodes, host, asked, ran in self._blocks
        )

    def sizes(
        self, inputs: Mapping[str, Any] | Sequence[Any]
    ) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Element type and shape of each output for these inputs; nothing is run."""
        args, kwargs = self._arguments(inputs)
        return dict(zip(self._names, self._sizes(args, kwargs)))

    def __reduce__(self) -> tuple:
        if self._made_with[0].states:
            raise _native.UsageError(
                "a session with states cannot be pickled; pickle its model, and begin another session"
            )
        return Session, self._made_with, {"_policy": self._policy} if self._policy else None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.policy = state["_policy"]

    def __repr__(self) -> str:
        return f"<tenon.Session: {self.threads} thread{'s' if self.threads != 1 else ''}>"


class _JoiningSession(Session):
    """One whose model has maps, sequences, packed batches or values of data types: a call takes and
    gives them as Python has them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        both: Any = args or kwargs
        if args and kwargs:
            one_each = len(args) + len(kwargs) == len(self._whole)
            known = dict.fromkeys(self._whole) if one_each else self._inputs
            both = {**_by_name(args, known, len(kwargs)), **kwargs}
        made = tuple(self.run(both).values())
        return made[0] if len(made) == 1 else made

    def run(
        self, inputs: Mapping[str, Any] | Sequence[Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return self._ragged(inputs, super().run(inputs, out))

    def run_many(
        self, requests: Iterable[Mapping[str, Any] | Sequence[Any]]
    ) -> list[dict[str, Any] | Exception]:
        requests = _listed(requests, "run_many")
        made = super().run_many(requests)
        return [
            one if isinstance(one, Exception) else self._ragged(inputs, one)
            for inputs, one in zip(requests, made)
        ]

    def _ragged(self, inputs: Any, made: dict[str, Any]) -> dict[str, Any]:
        """Outputs that have a row for each token are Ragged if inputs were."""
        packed = _packed(inputs, self._inputs)
        if not packed:
            return made
        from ._ragged import Ragged
        offsets = next(iter(packed.values())).offsets
        tokens = {self._inputs[name].shape[0] for name in packed}
        return {
            name: Ragged(x, offsets) if self._rows.get(name) in tokens else x
            for name, x in made.items()
        }


class Model(_native.Caller):
    """A compiled model. Calling it runs it: ``y = model(x)``, ``model(x=x, mask=m)``."""

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        name: str | None = None,
        report: dict | None = None,
        program: Any = None,
    ):
        self._program = program      # of a tenon.function: how values of data types become rows
        self._native = _native.Model(path, name)
        self._name = name            # in messages; None: the artefact's path
        #: where the artefact lies
        self.path = os.fspath(path)
        #: what compiling said: seconds, artefact_bytes, kernels, …; None of a loaded model
        self.report = report
        #: names, element types and shapes
        self.inputs: tuple[Value, ...] = tuple(map(_value, self._native.inputs))
        self.outputs: tuple[Value, ...] = tuple(map(_value, self._native.outputs))

    @property
    def summary(self) -> str:
        """Target, kernels and weights in one line."""
        return self._native.summary

    @property
    def metadata(self) -> dict[str, str]:
        """What the ONNX model says about itself, labels or an alphabet: its ``metadata_props``."""
        return {k: v for k, v in self._native.metadata if not k.startswith("onnx.")}

    @property
    def kernels(self) -> tuple[str, ...]:
        """For each kernel the nodes of the model that it came from."""
        return self._native.kernels

    @property
    def single(self) -> str | None:
        """Why requests run one by one, though the model was compiled with ``many=True``.

        None: they run together, in the blocks of ``session.blocks``, or the model was not compiled
        with ``many``.
        """
        return self._native.single

    @property
    def states(self) -> tuple[State, ...]:
        """What a session keeps from run to run."""
        return tuple(State(*s) for s in self._native.states)

    def solve(self, **sizes: int) -> tuple[Value, ...]:
        """The inputs, with the sizes that follow from these: where the model checks
        ``total == past + seq``, two of them give the third. A size that does not follow stays a
        text.

            model.solve(batch=4)[0].shape       # (4, 3, 224, 224)
        """
        return tuple(map(_value, self._native.solve(sizes)))

    def session(self, threads: int = 0, state_capacity: int = 0) -> Session:
        """Memory and threads of their own; 0: as many threads as this process may use.

        ``state_capacity`` bounds the rows of states that grow; 0: as compiled, else as memory
        allows.
        """
        return Session(self, threads, state_capacity)

    def run(
        self, inputs: Mapping[str, Any] | Sequence[Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
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

    def __reduce__(self) -> tuple:
        """By its artefact, which runs wherever its target does."""
        with open(self.path, "rb") as f:
            return _unpickled, (f.read(), self._name, self.report, self._program)

    def __repr__(self) -> str:
        lines = [f"<tenon.Model: {self.summary}"]
        lines += [f"  {'inputs ' if i == 0 else '       '} {v}" for i, v in enumerate(self.inputs)]
        lines += [f"  {'outputs' if i == 0 else '       '} {v}" for i, v in enumerate(self.outputs)]
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        from ._notebook import model_html
        return model_html(self)


def temporary_folder() -> str:
    """For an artefact that goes with its model."""
    import tempfile
    usual = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
    return tempfile.mkdtemp(prefix="tenon-", dir=os.environ.get("TMPDIR") or usual)


def remove_folder(folder: str | None) -> None:
    """Quietly, if there is one."""
    if folder is not None:
        import shutil
        shutil.rmtree(folder, ignore_errors=True)


def _unpickled(artefact: bytes, name: str | None, report: dict | None, program: Any) -> Model:
    folder = temporary_folder()
    try:
        path = os.path.join(folder, "model.so")
        with open(path, "wb") as f:
            f.write(artefact)
        model = Model(path, name=name, report=report, program=program)
    except BaseException:
        remove_folder(folder)
        raise
    weakref.finalize(model, remove_folder, folder)
    return model


def load(path: str | os.PathLike) -> Model:
    """Load what ``tenon compile`` or ``Model.save`` wrote. Needs no compiler; the weights are
    mapped, not read."""
    return Model(path)
