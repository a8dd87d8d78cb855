"""PyTorch: ``torch.compile(model, backend="tenon")``.

    import torch, tenon.torch
    fast = torch.compile(module, backend="tenon")

TorchDynamo hands over the parts of a program that it could trace, with a graph break wherever it
could not; each part is exported to ONNX and compiled when it is first called (and once more, with
open sizes, when sizes change), and a part that Tenon cannot compile runs as PyTorch would run it,
with a `tenon.Note` that says why. Inference on the CPU only: where gradients are wanted PyTorch
keeps the part.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo import register_backend

from . import Note
from ._compile import compile
from ._native import UsageError


def _is_weight(x: Any) -> bool:
    """A parameter or a buffer of the program's, whose changes can be told."""
    return (
        isinstance(x, torch.Tensor)
        and getattr(x, "_dynamo_static_input_type", None) is not None
        and not x.is_inference()
    )


class _Part(torch.nn.Module):
    """A part as a function of the tensors that change from call to call: weights are its own, open
    sizes are read off the tensors."""

    def __init__(self, module: Any, example: Sequence[Any]):
        super().__init__()
        self.module = module
        traced = [
            n.meta.get("example_value") for n in module.graph.nodes if n.op == "placeholder"
        ]  # these know which sizes are open
        tensors = [
            t for x, t in zip(example, traced) if isinstance(x, torch.Tensor) and not _is_weight(x)
        ]
        sizes = {
            str(n): (i, d)
            for i, t in enumerate(tensors)
            for d, n in enumerate(t.shape)
            if not isinstance(n, int)
        }
        # of each argument: None for a tensor that is given, a weight's name, (tensor, dimension)
        # of a size
        self.plan: list[Any] = []
        for i, x in enumerate(example):
            if _is_weight(x):
                self.register_buffer(f"weight{i}", x.detach())
                self.plan.append(f"weight{i}")
            elif isinstance(x, torch.Tensor):
                self.plan.append(None)
            elif str(x) in sizes:
                self.plan.append(sizes[str(x)])
            else:
                raise UsageError("a number goes in that is no size of a tensor")

    def forward(self, *tensors: Any) -> Any:
        args, n = [], 0
        for p in self.plan:
            args.append(
                tensors[n]
                if p is None
                else getattr(self, p) if isinstance(p, str) else tensors[p[0]].shape[p[1]]
            )
            n += p is None
        return self.module(*args)

    def export(self, tensors: Sequence[Any]) -> bytes:
        """As ONNX, through torch.export, for tensors of these sizes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")      # of the exporter's own affairs
            program = torch.onnx.export(
                self, tuple(torch.zeros_like(t) for t in tensors), dynamo=True, verbose=False
            )
        file = io.BytesIO()
        program.save(file)
        return file.getvalue()


class Compiled:
    """A compiled part, called with tensors; tensors come back. Nothing is copied on the way in or
    out.

    Weights are constants of it: when one was changed in place, by an optimiser's step or a loaded
    state, it is compiled anew. Where TorchDynamo left sizes open it is compiled for each that
    comes, MOST of them; other ones run as PyTorch runs them.
    """

    MOST = 8
    DTYPE = {
        "f32": torch.float32,
        "f64": torch.float64,
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "i8": torch.int8,
        "i16": torch.int16,
        "i32": torch.int32,
        "i64": torch.int64,
        "u8": torch.uint8,
        "bool": torch.bool,
    }

    def __init__(self, module: Any, example: Sequence[Any], options: dict[str, Any]):
        self.part, self.options = _Part(module, example), options
        self.weights = [x for x in example if _is_weight(x)]
        self.given = [i for i, p in enumerate(self.part.plan) if p is None]
        self.sessions: dict[Any, Any] = {}
        self.versions = [w._version for w in self.weights]
        self._session_for([example[i] for i in self.given])

    def _session_for(self, tensors: Sequence[Any]) -> Any:
        versions, sizes = [w._version for w in self.weights], tuple(x.shape for x in tensors)
        if versions != self.versions:
            self.versions, self.sessions = versions, {}
        if sizes not in self.sessions and len(self.sessions) < self.MOST:
            model = compile(self.part.export(tensors), progress=False, **self.options)
            if len(model.inputs) != len(tensors):
                raise UsageError(
                    f"{len(tensors)} tensors go in, the exported model takes {len(model.inputs)}"
                )
            self.sessions[sizes] = model.session()
        return self.sessions.get(sizes)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        args = tuple(inputs[i].detach().contiguous() for i in self.given)
        session = self._session_for(args)
        if session is None:
            return self.part.module(*inputs)
        out = tuple(
            torch.empty(shape, dtype=self.DTYPE[dtype]) for dtype, shape in session._sizes(args, {})
        )
        session._run(args, {}, out)
        return out


def _wants_gradients(module: Any, inputs: Sequence[Any]) -> bool:
    tensors = [*inputs, *module.parameters()]
    return torch.is_grad_enabled() and any(
        isinstance(x, torch.Tensor) and x.requires_grad for x in tensors
    )


def _gives_numbers(module: Any) -> bool:
    """Does the part return sizes, beside tensors?"""
    returned = next(n for n in module.graph.nodes if n.op == "output").args[0]
    return any(not isinstance(n.meta.get("example_value"), torch.Tensor) for n in returned)


def backend(module: Any, example: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The function that ``torch.compile`` calls with each traced part."""
    if any(
        isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in example
    ) or _wants_gradients(module, example):
        return module.forward
    try:
        if _gives_numbers(module):
            raise UsageError("a number comes out")
        return Compiled(module, example, options)
    except (
        Exception
    ) as why:  # the exporter raises whatever it meets; no part may bring a program down
        warnings.warn(f"a part of the program stays with PyTorch: {why}", Note, stacklevel=2)
        return module.forward


register_backend(backend, name="tenon")
