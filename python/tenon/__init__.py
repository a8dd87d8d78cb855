"""Tenon, a deep-learning compiler: ONNX models to native code.

    import numpy as np, tenon

    model = tenon.compile("digits.onnx")            # or bytes, or an onnx.ModelProto
    model(np.zeros((1, 1, 8, 8), np.float32))       # arrays in, arrays out, nothing copied
    model.save("digits.so")                         # tenon.load("digits.so") needs no compiler

`model.run({"x": x})` goes by names, `model.session(threads=1)` makes memory and threads of its own,
`model.inputs` and `model.outputs` tell names, types and sizes.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ._compile import compile, inspect, targets
from ._model import Block, Learnt, Model, Session, Value, load
from ._native import (
    Error,
    InternalError,
    LimitError,
    ModelError,
    ToolchainError,
    UnsupportedError,
    UsageError,
    version as __version__,
)

__all__ = ["compile", "load", "inspect", "targets", "verify", "bench", "profile",
           "explain", "data", "function", "Function", "cell", "Cell",
           "ops", "InferenceSession", "SessionOptions", "RunOptions", "NodeArg", "ExecutionMode",
           "GraphOptimizationLevel", "get_available_providers", "get_all_providers", "get_device",
           "set_default_logger_severity", "set_default_logger_verbosity",
           "disable_telemetry_events", "stand_in_for_onnxruntime", "Model", "Session", "Value", "Block", "Learnt", "Ragged", "Note", "Error",
           "UsageError", "ModelError", "UnsupportedError", "LimitError", "ToolchainError",
           "InternalError"]


if TYPE_CHECKING:
    from ._data import data
    from ._function import Cell, Function, cell, function, ops
    from ._inference import (
        ExecutionMode,
        GraphOptimizationLevel,
        InferenceSession,
        NodeArg,
        RunOptions,
        SessionOptions,
        disable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_device,
        set_default_logger_severity,
        set_default_logger_verbosity,
        stand_in_for_onnxruntime,
    )
    from ._ragged import Ragged
    from ._tools import bench, explain, profile, verify

_LATER = (
    {"Ragged": "_ragged", "data": "_data"}
    | dict.fromkeys(("function", "Function", "cell", "Cell", "ops"), "_function")
    | dict.fromkeys(("verify", "bench", "profile", "explain"), "_tools")
    | dict.fromkeys(
        ("InferenceSession", "SessionOptions", "RunOptions", "NodeArg", "ExecutionMode",
         "GraphOptimizationLevel", "get_available_providers", "get_all_providers", "get_device",
         "set_default_logger_severity", "set_default_logger_verbosity",
         "disable_telemetry_events", "stand_in_for_onnxruntime"), "_inference"
    )
)


def __getattr__(name: str):
    """Ragged brings NumPy, data types bring dataclasses, which take longer to import than all else
    here: they come when they are asked for."""
    if name in _LATER:
        import importlib
        return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Note(UserWarning):
    """What the compiler has to say about a model that it compiled."""
