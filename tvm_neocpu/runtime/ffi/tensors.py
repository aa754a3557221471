"""Tensors of `tvm_ffi` and arrays of NumPy over the same memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvm_neocpu.core.machine.alignment import ALIGNMENT
from tvm_neocpu.runtime.ffi.arrays import (
    SEEN_AS,
    aligned_zeros,
    is_shareable,
    numpy_dtype,
    seen_as_numbers,
)
from tvm_neocpu.runtime.ffi.tvm_library import load_runtime

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cpu() -> Any:
    """The device that networks run on."""
    return tvm_ffi.device("cpu", 0)


def zeros(shape: Sequence[int], dtype: str) -> tvm_ffi.Tensor:
    """A new tensor of zeros, aligned as generated code needs it."""
    tensor = tensor_over(aligned_zeros(shape, dtype))
    assert tensor is not None, "aligned memory of a type that TVM has can be shared"
    return tensor


def tensor_over(array: NDArray[Any]) -> tvm_ffi.Tensor | None:
    """The array as a tensor over the same memory; ``None`` where generated code cannot read it."""
    if not is_shareable(array):
        return None
    seen = seen_as_numbers(array)
    try:
        tensor = tvm_ffi.from_dlpack(seen)
    except (BufferError, RuntimeError, TypeError):  # a type that NumPy's DLPack lacks
        return None
    return tensor if seen is array else _seen_as(tensor, str(array.dtype))


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of `tvm_ffi`, which is not imported for that."""
    core = sys.modules.get("tvm_ffi.core")
    return core is not None and isinstance(value, core.Tensor)


def as_array(tensor: tvm_ffi.Tensor) -> NDArray[Any]:
    """The tensor's own memory as an array, of any type."""
    try:
        return _writeable(np.from_dlpack(tensor))
    except (RuntimeError, BufferError):
        kind = numpy_dtype(str(tensor.dtype))
        plain = _seen_as(tensor, np.dtype(SEEN_AS[kind.itemsize]).name)
        return _writeable(np.from_dlpack(plain)).view(kind)


def view_of(tensor: tvm_ffi.Tensor) -> NDArray[Any] | None:
    """The memory as an array; ``None`` for a type that NumPy's DLPack lacks, such as bfloat16."""
    try:
        return _writeable(np.from_dlpack(tensor))
    except (RuntimeError, BufferError):
        return None


def is_plain(tensor: tvm_ffi.Tensor) -> bool:
    """Whether generated code can read or write it: in CPU memory, contiguous, aligned."""
    on_cpu = tensor.device.dlpack_device_type() == cpu().dlpack_device_type()
    return on_cpu and tensor.is_contiguous() and tensor.data_ptr() % ALIGNMENT == 0


class _Memory:
    """The memory of an array, which it keeps alive, to be written."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        place, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (place, False)}


def _writeable(array: NDArray[Any]) -> NDArray[Any]:
    """A tensor's array, also from NumPy 1.26 to 2.3, which take it for read-only."""
    return array if array.flags.writeable else np.asarray(_Memory(array))


def _seen_as(tensor: tvm_ffi.Tensor, dtype: str) -> tvm_ffi.Tensor:
    """The same memory as elements of another type of the same size."""
    load_runtime()
    make = tvm_ffi.get_global_func("runtime.TVMTensorCreateView")
    return make(tensor, tvm_ffi.Shape(tensor.shape), tvm_ffi.dtype(dtype), 0)
