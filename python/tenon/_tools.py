"""The command's verbs for looking at a model, from Python: each runs ``python -m tenon`` in a process of
its own, which measures without Python's, and gives what it writes as JSON."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from ._compile import _contents
from ._model import Model, remove_folder, temporary_folder

EXIT_DIFFERS = 1
_PLURAL = {"dims": "dim", "dim_hints": "dim_hint", "shapes": "shape"}


def _size(name: str, of: Any) -> str:
    if name == "shape":
        return "x".join(map(str, of))
    if name == "dim" and isinstance(of, tuple):
        return "..".join(map(str, of))
    return ",".join(map(str, of)) if isinstance(of, (list, tuple)) else str(of)


def _words(options: Mapping[str, Any]) -> list[str]:
    """Options of Python as words of the command: ``dims={"n": 3}`` is ``--dim n=3``."""
    words = []
    for key, value in options.items():
        name = _PLURAL.get(key, key)
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, Mapping):
            words += [w for k, v in value.items() for w in (flag, f"{k}={_size(name, v)}")]
        elif value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, _size(name, value)]
    return words


def _file_of(model: Any, folder: str) -> str:
    if isinstance(model, Model):
        return model.path
    if hasattr(model, "program"):               # of a tenon.function
        return model.program().write(folder)
    data = _contents(model)
    if data is None:
        return os.fspath(model)
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as f:
        f.write(data)
    return path


def _save(inputs: Any, folder: str) -> list[str]:
    import numpy as np
    words = []
    for i, (name, x) in enumerate((inputs or {}).items()):
        path = os.path.join(folder, f"input_{i}.npy")
        np.save(path, np.asarray(x))
        words += ["--input", f"{name}=@{path}"]
    return words


def _ran(verb: str, model: Any, inputs: Any, words: Sequence[str], options: dict) -> Any:
    import json
    import subprocess
    import sys
    folder = temporary_folder()
    try:
        call = [verb, _file_of(model, folder), *_save(inputs, folder), *words, *_words(options)]
        done = subprocess.run(
            [sys.executable, "-m", "tenon", *call], capture_output=True, text=True, check=False
        )
    finally:
        remove_folder(folder)
    if done.returncode in (0, EXIT_DIFFERS):
        return json.loads(done.stdout) if "--json" in words else done.stdout.strip()
    error = _class_of(done.returncode)
    try:
        raise error(json.loads(done.stdout)["error"]["message"])
    except (ValueError, KeyError):              # it ended before it could say so
        raise error(done.stderr.strip()) from None


def _class_of(status: int) -> type[_native.Error]:
    classes = (_native.UsageError, _native.ModelError, _native.UnsupportedError,
               _native.LimitError, _native.ToolchainError)
    return next((c for c in classes if c.status == status), _native.InternalError)


def verify(
    model: Any, inputs: Mapping[str, Any] | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Compiled code against the interpreter, or ``against="onnxruntime"``: of each output whether it
    ``agrees`` and its largest errors.

    Inputs that are not given are random. Options are those of `compile` and of ``tenon verify``:
    ``dims``, ``atol``, ``rtol``, ``seed``, ``max_int={"ids": 30000}``, ….
    """
    return _ran("verify", model, inputs, ["--json"], options)


def bench(model: Any, inputs: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """How fast a model, or a file of one, runs: ``median_ms`` and more.

    Inputs that are not given are random. Options are those of ``tenon bench``: ``threads``,
    ``duration`` in seconds, ``iterations``, ``dims``, ``shapes``, ….
    """
    return _ran("bench", model, inputs, ["--json", "-"], options)


def profile(model: Any, inputs: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """As `bench`, and of each of ``kernels`` its time, its rates, the share of the machine's roof,
    and the nodes that it came from."""
    return _ran("bench", model, inputs, ["--json", "-", "--profile"], options)


def explain(
    model: Any, why: tuple[str, str] | None = None, **options: Any
) -> dict[str, Any] | str:
    """Which nodes became one kernel, and why neighbours did not. ``why=("conv1", "relu1")``: of these
    two alone, as a sentence."""
    words = ["--why", ",".join(why)] if why else ["--json"]
    return _ran("explain", model, None, words, options)
