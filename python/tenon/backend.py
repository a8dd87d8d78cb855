"""ONNX's Backend interface: ``tenon.backend.prepare(model).run(inputs)``, as the ONNX test runner
uses it."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto, helper
from onnx.backend.base import Backend, BackendRep, DeviceType
from onnx.backend.base import Device
from onnx.defs import onnx_opset_version

from . import _native
from ._compile import compile

OPSET = 24       # of a node that says none: the onnx package may know opsets that Tenon does not

class TenonRep(BackendRep):
    """A compiled model, run on inputs in order."""

    def __init__(self, model: Any):
        self.model = model
        self.session = model.session()

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        if not isinstance(inputs, (list, tuple)):
            inputs = (inputs,)
        return tuple(self.session.run(list(inputs)).values())


class TenonBackend(Backend):
    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Can Tenon compile it? Asked by compiling as far as the operators go."""
        try:
            _native.compile(_written(model), "", {"stop_after": "import"}, None, None)
        except _native.Error:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> TenonRep:
        super().prepare(model, device, **kwargs)
        if not cls.supports_device(device):
            raise _native.UsageError(f"device {device!r}: Tenon runs on CPU")
        return TenonRep(compile(model, progress=False, **kwargs))

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """One node on these inputs: a model is made around it. ``outputs_info`` has (dtype, shape)
        of each output."""
        import numpy as np
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        named = (
            dict(zip((n for n in node.input if n), inputs))
            if not isinstance(inputs, dict)
            else inputs
        )
        ins = [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.asarray(x).shape
            )
            for n, x in named.items()
        ]
        outs = [
            (
                helper.make_tensor_value_info(
                    n,
                    helper.np_dtype_to_tensor_dtype(np.dtype(outputs_info[i][0])),
                    outputs_info[i][1],
                )
                if outputs_info
                else helper.make_empty_tensor_value_info(n)
            )
            for i, n in enumerate(node.output)
        ]
        kwargs.setdefault(
            "opset_imports", [helper.make_opsetid("", min(onnx_opset_version(), OPSET))]
        )
        model = helper.make_model(helper.make_graph([node], "node", ins, outs), **kwargs)
        return cls.prepare(model, device).run(list(named.values()))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return Device(device).type == DeviceType.CPU


_folder: Any = None


def _written(model: ModelProto) -> str:
    import os
    import tempfile
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="tenon-")
    path = os.path.join(_folder.name, "model.onnx")
    with open(path, "wb") as f:
        f.write(model.SerializeToString())
    return path


is_compatible = TenonBackend.is_compatible
prepare = TenonBackend.prepare
run_model = run = TenonBackend.run_model
run_node = TenonBackend.run_node
supports_device = TenonBackend.supports_device
