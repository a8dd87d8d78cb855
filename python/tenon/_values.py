"""Maps, sequences and optionals: two tensors each to the compiled model, and one value in Python."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._model import Value

_PARTS = {".values": ".keys", ".items": ".sizes"}
_NUMPY = {"str": "object", "bool": "bool"}
_ML = {
    "bf16": "bfloat16",
    "f8e8m0": "float8_e8m0fnu",
    "f6e2m3": "float6_e2m3fn",
    "f6e3m2": "float6_e3m2fn",
    "f4e2m1": "float4_e2m1fn",
    "i4": "int4",
    "i2": "int2",
    "u4": "uint4",
    "u2": "uint2",
}


def dtype_of(name: str) -> Any:
    """NumPy's type of these elements; that of ml_dtypes where it has none, or bytes without that
    package."""
    if name in _ML or name.startswith("f8"):
        try:
            import ml_dtypes
        except ImportError:
            return "float32" if name == "bf16" else "int8" if name[0] == "i" else "uint8"
        return getattr(ml_dtypes, _ML.get(name) or "float8_" + name[2:])
    return _NUMPY.get(name) or {"f": "float", "i": "int", "u": "uint"}[name[0]] + name[1:]


class ElementType:
    """An element type: equal to Tenon's name of it, "f32", and ``np.dtype(x)`` is NumPy's, or that of
    ``ml_dtypes``."""
    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    @property
    def dtype(self) -> Any:
        """NumPy's type."""
        import numpy as np
        return np.dtype(dtype_of(self.name))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (str, ElementType)):
            return self.name == (other if isinstance(other, str) else other.name)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return repr(self.name)

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


def is_split(names: Sequence[str], i: int) -> str | None:
    """What ``names[i]`` and the name behind it are two parts of; None: nothing."""
    for first, second in _PARTS.items():
        whole = names[i].removesuffix(first)
        if whole != names[i] and names[i + 1:i + 2] == (whole + second,):
            return whole
    return None


def whole_names(names: Sequence[str]) -> list[str]:
    """The names as the ONNX model has them: one of each map or sequence."""
    whole: list[str] = []
    i = 0
    while i < len(names):
        both = is_split(names, i)
        whole.append(both or names[i])
        i += 2 if both else 1
    return whole


def _is_list_of_arrays(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and all(hasattr(item, "shape") for item in x)


def split(
    name: str, x: Any, inputs: Mapping[str, Value], optional: Mapping[str, str]
) -> dict[str, Any]:
    """A dict or a list of arrays as the two inputs that a map or a sequence of the model is; other
    values as they are."""
    import numpy as np

    from ._numbers import as_type
    if isinstance(x, Mapping) and f"{name}.keys" in inputs:
        return {
            part: as_type(list(items), inputs[part].dtype.dtype, f"input {part}")
            for part, items in ((f"{name}.keys", x), (f"{name}.values", x.values()))
        }
    if optional.get(name) == "tensor" and x is not None and not _is_list_of_arrays(x):
        x = [x]
    if (x is None or isinstance(x, (list, tuple))) and f"{name}.sizes" in inputs:
        dtype = inputs[f"{name}.items"].dtype.dtype
        arrays = [as_type(item, dtype, f"input {name}, item {i}") for i, item in enumerate(x or ())]
        rank = inputs[f"{name}.sizes"].shape[1]
        sizes = np.array([a.shape for a in arrays], "int64").reshape(
            len(arrays), -1 if arrays else rank if isinstance(rank, int) else 0
        )
        return {
            f"{name}.items": (
                np.concatenate([a.ravel() for a in arrays])
                if arrays
                else np.empty(0, dtype)
            ),
            f"{name}.sizes": sizes,
        }
    return {name: x}


def _joined(first: Any, second: Any, is_map: bool) -> list:
    """A dict for each row of a table, by its columns' labels; or the items of a sequence."""
    if is_map:
        labels = second.tolist()
        return [dict(zip(labels, row)) for row in first.tolist()]
    items, at = [], 0
    for shape in map(tuple, second.tolist()):
        count = 1
        for n in shape:
            count *= n
        items.append(first[at:at + count].reshape(shape))
        at += count
    return items


def shown(
    names: Sequence[str], arrays: Sequence[Any], optional: Mapping[str, str]
) -> dict[str, Any]:
    """Outputs by name, the parts of maps and sequences put together; an optional tensor is an array
    or None."""
    made, i = {}, 0
    while i < len(names):
        whole = is_split(names, i)
        if whole is None:
            made[names[i]] = arrays[i]
        else:
            made[whole] = _joined(arrays[i], arrays[i + 1], names[i].endswith(".values"))
            if optional.get(whole) == "tensor":
                made[whole] = made[whole][0] if made[whole] else None
        i += 1 if whole is None else 2
    return made
