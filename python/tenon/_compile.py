"""Compiling: models from files, bytes or onnx.ModelProto; the C compiler; progress."""
from __future__ import annotations

import os
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _native
from ._model import Model, remove_folder, temporary_folder

Progress = Callable[[str, int, int], Any]


def find_cc() -> str | None:
    """The C compiler to use: None leaves it to Tenon ($CC, cc, gcc, clang); else the one of
    ``tenon-compiler[cc]``."""
    import shutil
    if os.environ.get("CC") or any(map(shutil.which, ("cc", "gcc", "clang"))):
        return None
    try:
        import ziglang
    except ImportError:
        return None
    zig = os.path.join(os.path.dirname(ziglang.__file__), "zig")
    if " " not in zig:
        return f"{zig} cc"
    # A command line has no quotes: a link without blanks leads to it.
    import atexit
    import tempfile
    folder = tempfile.mkdtemp(prefix="tenon-zig-", dir="/tmp")
    os.symlink(zig, os.path.join(folder, "zig"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return f"{folder}/zig cc"


def _contents(model: Any) -> bytes | None:
    """The bytes of a model in memory; None of a path."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    return None


def compile(
    model: str | os.PathLike | bytes | Any,
    out: str | os.PathLike | None = None,
    *,
    target: str | None = None,
    dims: Mapping[str, int | tuple[int, int]] | None = None,
    dim_hints: Mapping[str, Sequence[int]] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    io_format: Mapping[str, str] | None = None,
    format: Mapping[str, str] | None = None,
    state: Mapping[str, str] | None = None,
    cc: str | None = None,
    cache_dir: str | None = None,
    jobs: int | None = None,
    many: bool | None = None,
    progress: Progress | bool | None = None,
    **options: Any,
) -> Model:
    """Compile a model and load it.

    model     a path (ONNX or Tenon's text), the bytes of one, an ``onnx.ModelProto``, or a
              ``tenon.function``
    out       where to write the artefact; by default a temporary file that goes with the Model
    target    a processor to compile for; ``tenon.targets()`` has them; by default this one
    dims      symbolic dimensions to fix, ``{"batch": 1}``, or to bound, ``{"seq": (1, 2048)}``; the
              others stay open
    dim_hints sizes that open dimensions usually have, ``{"seq": (1, 128)}``: choices are made for
              these, others run as well
    shapes    dimensions of inputs to fix: ``{"x": (1, 3, 224, 224)}``
    io_format inputs and outputs that lie otherwise than the model says: ``{"x": "nhwc"}`` takes a
              camera's frames
    format    the same of values inside, which are otherwise laid as is fastest
    state     inputs that a session keeps from run to run, and the outputs that they are afterwards:
              ``{"past_key_values.*": "present.*"}``, what stands for * being the same
    many      True: requests can run together, by ``session.run_many``, whatever branches each
              takes; ``Model.single`` says why where they cannot
    cc        the C compiler; by default $CC, cc, gcc, clang, then that of ``pip install
              'tenon-compiler[cc]'``
    progress  called with (what, done, total), and what it raises stops the compilation, as Ctrl-C
              does; True draws a bar, False none; by default a bar where a person watches: a terminal
              or a notebook

    ``ragged="mask"`` names an input [batch, length], 1 of each token and 0 of padding, which is
    then not computed; with ``packed=True`` inputs and outputs of tokens have none: `Ragged`.
    ``density=0.3`` is the share that a mask leaves which only a run knows.

    Other options are the fields of ``TnCompileOptions`` in tenon.h: ``max_memory_bytes``, ``fuse``,
    ….
    """
    if options.get("density") == 0:     # which is the default in C
        raise _native.UsageError("density 0: a share above 0 and at most 1 is possible")
    if isinstance(model, types.FunctionType):
        raise _native.UsageError(
            f"{model.__name__} is a function of Python; @tenon.function before its def lets Tenon "
            "read it"
        )
    data = _contents(model)
    program = model.program() if hasattr(model, "program") else None     # of a tenon.function
    given = {"target": target, "cc": cc if cc is not None else find_cc(), "cache_dir": cache_dir,
             "jobs": jobs, "many": many, **options}
    given = {k: v for k, v in given.items() if v is not None} | {
        "dims": dict(dims or {}),
        "dim_hints": dict(dim_hints or {}),
        "shapes": dict(shapes or {}),
        "io_format": dict(io_format or {}),
        "format": dict(format or {}),
        "state": dict(state or {}),
    }
    folder = None
    if data is not None or program or out is None:
        folder = temporary_folder()
    try:
        made = _compile_in(folder, model, program, data, out, given, progress)
    except BaseException:
        remove_folder(folder)
        raise
    if folder is not None:
        weakref.finalize(made, remove_folder, folder)
    return made


def _compile_in(
    folder: str | None,
    model: Any,
    program: Any,
    data: bytes | None,
    out: Any,
    given: dict,
    progress: Any,
) -> Model:
    from ._notebook import bar_for
    if data is not None:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(data)
    else:
        path = program.write(folder) if program else os.fspath(model)
    target_path = os.fspath(out) if out is not None else os.path.join(folder, "model.so")
    bar = progress if callable(progress) else bar_for(progress)
    try:
        report = _native.compile(path, target_path, given, bar, None)
    except _native.ToolchainError as e:
        if "cc" not in given:
            e.add_note("pip install 'tenon-compiler[cc]' brings a C compiler")
        raise
    except _native.Error as e:
        if not program:
            raise
        raise type(e)(program.said(path, str(e))) from None
    finally:
        if bar is not None and hasattr(bar, "close"):
            bar.close()
    notes = report.pop("notes")
    if notes:
        import warnings

        from . import Note
        warnings.warn(notes, Note, stacklevel=3)
    name = "model.onnx" if data is not None else program.main.file if program else path
    name = None if out is not None else name
    return Model(target_path, name=name, report=report, program=program)


def inspect(path: str | os.PathLike) -> dict[str, Any]:
    """What a model file or an artefact holds: inputs, outputs, operators, and what cannot be
    compiled, with the reason."""
    import json
    return json.loads(_native.inspect(path))


def targets() -> list[str]:
    """The processors that can be compiled for."""
    return _native.targets().split(", ")
