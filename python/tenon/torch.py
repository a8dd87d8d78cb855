"""PyTorch: ``torch.compile(model, backend="tenon")``.

    import torch, tenon.torch
    fast = torch.compile(module, backend="tenon")

TorchDynamo hands over the parts of a program that it could trace, with a graph break wherever it could
not; each part is exported to ONNX and compiled when it is first called, and a part that Tenon cannot
compile runs as PyTorch would run it, with a `tenon.Note` that says why. Inference on the CPU only: where
gradients are wanted PyTorch keeps the part.
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


def _export(module: Any, example: Sequence[Any]) -> bytes:
    """The part as ONNX, through torch.export."""
    program = torch.onnx.export(module, tuple(example), dynamo=True, verbose=False)
    file = io.BytesIO()
    program.save(file)
    return file.getvalue()


class Compiled:
    """A compiled part, called with tensors; tensors come back. Nothing is copied on the way in or out."""

    def __init__(self, model: Any):
        self.model = model
        self.session = model.session()
        self.dtype = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8,
                      "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool}

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        args = tuple(x.detach().contiguous() if isinstance(x, torch.Tensor) else x for x in inputs)
        out = tuple(torch.empty(shape, dtype=self.dtype[dtype]) for dtype, shape in self.session._sizes(args, {}))
        self.session._run(args, {}, out)
        return out


def _wants_gradients(module: Any, inputs: Sequence[Any]) -> bool:
    tensors = [*inputs, *module.parameters()]
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in tensors)


def backend(module: Any, example: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The function that ``torch.compile`` calls with each traced part."""
    if any(not isinstance(x, torch.Tensor) or x.device.type != "cpu" for x in example) or _wants_gradients(module, example):
        return module.forward
    try:
        model = compile(_export(module, example), progress=False, **options)
        if len(model.inputs) != len(example):
            raise UsageError(f"{len(example)} tensors go in, the exported model takes {len(model.inputs)}")
    except Exception as why:         # the exporter raises whatever it meets; no part may bring a program down
        warnings.warn(f"a part of the program stays with PyTorch: {why}", Note, stacklevel=2)
        return module.forward
    return Compiled(model)


register_backend(backend, name="tenon")
