"""What a caller gives as inputs: by name, as arrays of any kind, checked and not copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_neocpu.core.errors import ShapeError, first_line
from tvm_neocpu.runtime.calls.inputs import check
from tvm_neocpu.runtime.ffi.tensors import as_array, is_tensor
from tvm_neocpu.runtime.files.module_info import TensorInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def as_input(info: TensorInfo, value: Any) -> Array:
    """An input's value as an array.

    Tensors of TVM, torch and whatever else shares CPU memory (DLPack) are not copied. Raises
    ShapeError for another shape or type, and for memory that is not the CPU's.
    """
    array = value if type(value) is np.ndarray else _as_array(info, value)
    check(info, array.shape, _dtype_name(array.dtype))
    return array


def ordered(infos: Sequence[TensorInfo], values: Mapping[str, Any]) -> list[Any]:
    """The values in the order of ``infos``. Raises ShapeError for a name too many or too few."""
    names = [info.name for info in infos]
    if type(values) is dict and len(values) == len(names):  # of most calls
        found = [values[name] for name in names if name in values]
        if len(found) == len(names):
            return found
    if not isinstance(values, Mapping):
        raise ShapeError(f"inputs are a dictionary by name, not {type(values).__name__}")
    for name in values:
        if name not in names:
            raise ShapeError(f"the network has no input {name!r}; it has {_listed(infos)}")
    for name in names:
        if name not in values:
            raise ShapeError(f"no value for input {name!r}; the network has {_listed(infos)}")
    return [values[name] for name in names]


def _listed(infos: Sequence[TensorInfo]) -> str:
    return ", ".join(map(str, infos))


@lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    """NumPy takes 2 us for a type's name."""
    return str(dtype)


def _as_array(info: TensorInfo, value: Any) -> Array:
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise ShapeError(f"input {info.name!r} is a masked array: fill it, .filled(0)")
        return value
    try:
        if is_tensor(value):
            return as_array(value)
        if type(value).__name__ == "PyCapsule":
            return np.from_dlpack(_Capsule(value))
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        array = np.asarray(value)
    except Exception as error:  # the caller's __array__ or __dlpack__ may raise anything
        reason = first_line(error)
        raise ShapeError(f"input {info.name!r} cannot be read as an array: {reason}") from error
    if array.dtype.kind in "OSU":
        kind = type(value).__name__
        raise ShapeError(f"input {info.name!r} cannot be read as an array of numbers: it is {kind}")
    return array


class _Capsule:
    """DLPack's capsule as NumPy takes it. It is used up: its memory goes to the first who asks."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU; NumPy looks into the capsule, too
