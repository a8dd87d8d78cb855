"""ONNX Runtime's form of a session: ``import tenon as ort``.

    session = tenon.InferenceSession("model.onnx")
    label, = session.run(["label"], {"image": image})

A model is compiled when its session is made, or taken from the cache of whole artefacts if the same
model was compiled before. What Tenon has no equal of (profiling, custom operators of a library for
ONNX Runtime) is refused, not ignored; what only tunes ONNX Runtime (arenas, log levels) has no effect.
"""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _native
from ._compile import compile
from ._model import Model, Session, Value, load
from ._values import is_split

PROVIDER = "CPUExecutionProvider"

# Element types by ONNX Runtime's names.
_ELEMENT = {
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "str": "string",
    "bool": "bool", "f8e8m0": "float8e8m0", "f4e2m1": "float4e2m1",
} | {f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (2, 4, 8, 16, 32, 64)}


class NodeArg(NamedTuple):
    """An input or an output: a dimension is a number, or the name of one that is open."""
    name: str
    type: str
    shape: list[int | str]


def _element(dtype: str) -> str:
    return _ELEMENT.get(dtype) or dtype.replace("f", "float", 1)


def _described(values: Sequence[Value], optional: Mapping[str, str], output: bool) -> list[NodeArg]:
    """As ONNX has them: two tensors of a map or a sequence are one value."""
    made, i, names = [], 0, tuple(v.name for v in values)
    while i < len(values):
        v, whole = values[i], is_split(names, i)
        kind, shape = f"tensor({_element(v.dtype.name)})", list(v.shape)
        if whole:
            other, shape = values[i + 1], []
            if v.name.endswith(".values"):
                kind = f"map({_element(other.dtype.name)},{kind})"
                kind = f"seq({kind})" if output else kind
            elif optional.get(whole) != "tensor":
                kind = f"seq({kind})"
            kind = f"optional({kind})" if whole in optional else kind
        made.append(NodeArg(whole or v.name, kind, shape))
        i += 2 if whole else 1
    return made


class ModelMetadata(NamedTuple):
    """What a model says about itself: labels, alphabets, who made it."""
    custom_metadata_map: dict[str, str]
    producer_name: str
    graph_name: str
    graph_description: str
    domain: str
    description: str
    version: int


class GraphOptimizationLevel:
    """Known by name; Tenon always optimises everything."""
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode:
    """Known by name; Tenon runs one kernel after the other, each on all threads."""
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """Options of a session. ``intra_op_num_threads`` is the number of threads, 0: all that the
    process may use; `add_free_dimension_override_by_name` fixes an open dimension."""

    _without_effect = {
        "enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "execution_order": 0,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0, "log_severity_level": 2, "log_verbosity_level": 0, "logid": "",
        "profile_file_prefix": "onnxruntime_profile_", "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    _refused = {
        "enable_profiling": "profile with tenon.profile(model) or `tenon bench --profile`",
        "optimized_model_filepath": "save the compiled model with Model.save",
    }

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self._dims: dict[str, int] = {}
        self._entries: dict[str, str] = {}
        vars(self).update(self._without_effect)

    def __setattr__(self, name: str, value: Any) -> None:
        if value and name in self._refused:
            raise _native.UnsupportedError(f"SessionOptions.{name}: {self._refused[name]}")
        known = name == "intra_op_num_threads" or name[0] == "_" or name in self._without_effect
        if not known and name not in self._refused:
            raise AttributeError(f"SessionOptions has no attribute {name!r}")
        super().__setattr__(name, value)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix an open dimension."""
        self._dims[name] = size

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has an effect on Tenon."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """An entry that was added."""
        return self._entries[key]

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: the library's operators are written for ONNX Runtime."""
        raise _native.UnsupportedError(
            f"{path}: a library of operators for ONNX Runtime; Tenon takes one of its own form by "
            "InferenceSession(…, library=…)"
        )


class RunOptions:
    """Known by name; none has an effect."""

    def __init__(self) -> None:
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Without effect."""


class InferenceSession:
    """A compiled model and a session of it.

    path_or_bytes  an ONNX file, the bytes of one, an ``onnx.ModelProto``, or an artefact of Tenon
    sess_options   `SessionOptions`
    providers      which of ONNX Runtime's are wanted; Tenon has "CPUExecutionProvider" alone, and
                   warns where it is not among them

    Other options are those of `tenon.compile`: ``target``, ``dims``, ``given``, ….
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ):
        _warn_of(providers)
        for name in ("disabled_optimizers", "enable_fallback", "read_config_from_model"):
            options.pop(name, None)
        self._options = sess_options or SessionOptions()
        self._model = _model_of(path_or_bytes, self._options, options)
        self._session = self._model.session(self._options.intra_op_num_threads)
        optional = self._session._optional
        self._inputs = _described(self._model.inputs, optional, False)
        self._outputs = _described(self._model.outputs, optional, True)
        self._names = tuple(x.name for x in self._outputs)
        self._place = {name: i for i, name in enumerate(self._names)}
        self._is_plain = type(self._session) is Session     # no sequences, maps, packed batches

    def __reduce__(self) -> tuple:
        return InferenceSession, (self._model, self._options)

    @property
    def model(self) -> Model:
        """The compiled model."""
        return self._model

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs that are named, in that order; None or []: all, as the model has them."""
        if self._is_plain and type(input_feed) is dict:
            made = self._session._run((), input_feed, None)
        else:
            made = tuple(self._session.run(input_feed).values())
        if not output_names:
            return list(made)
        try:
            return [made[self._place[name]] for name in output_names]
        except KeyError as e:
            raise _native.UsageError(
                f"the model has no output {e}; its outputs are {', '.join(self._names)}"
            ) from None

    def get_inputs(self) -> list[NodeArg]:
        """Names, types and shapes of the inputs."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Names, types and shapes of the outputs."""
        return list(self._outputs)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says about itself; labels and alphabets in ``custom_metadata_map``."""
        own = dict(self._model._native.metadata)
        return ModelMetadata(
            self._model.metadata,
            own.get("onnx.producer_name", ""),
            own.get("onnx.graph_name", ""),
            own.get("onnx.graph_description", ""),
            own.get("onnx.domain", ""),
            own.get("onnx.description", ""),
            int(own.get("onnx.version", 0)),
        )

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: an initializer is a constant, or with ``given=`` an input."""
        return []

    def get_providers(self) -> list[str]:
        """What runs it: the CPU."""
        return [PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """No provider has options."""
        return {PROVIDER: {}}

    def get_session_options(self) -> SessionOptions:
        """The options that it was made with."""
        return self._options

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Warns where the CPU is not among them."""
        _warn_of(providers)

    def disable_fallback(self) -> None:
        """Without effect: there is one provider."""

    def enable_fallback(self) -> None:
        """Without effect: there is one provider."""

    def __repr__(self) -> str:
        return f"<tenon.InferenceSession: {self._model.summary}>"


def _warn_of(providers: Sequence[Any] | None) -> None:
    names = [p if isinstance(p, str) else p[0] for p in providers or ()]
    if names and PROVIDER not in names:
        import warnings
        warnings.warn(
            f"providers {', '.join(names)}: Tenon runs on the CPU, by {PROVIDER}", stacklevel=3
        )


def _is_artefact(model: Any) -> bool:
    if not isinstance(model, (str, os.PathLike)):
        return False
    try:
        with open(model, "rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False                 # compiling it says what is wrong


def _model_of(model: Any, options: SessionOptions, given: dict[str, Any]) -> Model:
    if isinstance(model, Model):
        return model
    if _is_artefact(model):
        return load(model)
    dims = options._dims | dict(given.pop("dims", None) or {})
    given.setdefault("progress", False)
    given.setdefault("reuse", True)
    return compile(model, dims=dims, **given)


def get_available_providers() -> list[str]:
    """What models run on: the CPU."""
    return [PROVIDER]


get_all_providers = get_available_providers


def get_device() -> str:
    """The CPU."""
    return "CPU"


def set_default_logger_severity(level: int) -> None:
    """Without effect: Tenon logs nothing."""


set_default_logger_verbosity = set_default_logger_severity


def disable_telemetry_events() -> None:
    """Without effect: Tenon sends nothing to anybody."""


def stand_in_for_onnxruntime() -> None:
    """From here on ``import onnxruntime`` gives Tenon, also within other people's packages."""
    import sys

    import tenon

    from .capi import onnxruntime_pybind11_state
    for name, module in (("", tenon), (".capi", tenon.capi),
                         (".capi.onnxruntime_pybind11_state", onnxruntime_pybind11_state)):
        sys.modules[f"onnxruntime{name}"] = module
