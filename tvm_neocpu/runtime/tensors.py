"""Tensors of `tvm_ffi` and arrays of NumPy over the same memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvm_neocpu.core.alignment import ALIGNMENT
from tvm_neocpu.runtime.tvm_library import runtime_function

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A tensor's first byte and the one behind its last.
Extent = tuple[int, int]
# How an element of so many bytes is seen where NumPy's DLPack lacks its type, such as bfloat16.
_SEEN_AS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def cpu() -> Any:
    """The device that networks run on."""
    return tvm_ffi.device("cpu", 0)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's type of that name; `ml_dtypes`, where it is installed, has bfloat16 and others."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def zeros(shape: Sequence[int], dtype: str) -> tvm_ffi.Tensor:
    """A new tensor of zeros, aligned as generated code needs it."""
    kind = numpy_dtype(dtype)
    seen = np.dtype(_SEEN_AS.get(kind.itemsize, np.uint8)) if kind.kind == "V" else kind
    size = math.prod(shape) * seen.itemsize
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    array = memory[start : start + size].view(seen).reshape(tuple(shape))
    tensor = tvm_ffi.from_dlpack(array)
    return tensor if seen == kind else _seen_as(tensor, dtype)


def as_array(tensor: tvm_ffi.Tensor) -> NDArray[Any]:
    """The tensor's own memory as an array, of any type."""
    try:
        return _writeable(np.from_dlpack(tensor))
    except (RuntimeError, BufferError):
        kind = numpy_dtype(str(tensor.dtype))
        plain = _seen_as(tensor, np.dtype(_SEEN_AS[kind.itemsize]).name)
        return _writeable(np.from_dlpack(plain)).view(kind)


def view_of(tensor: tvm_ffi.Tensor) -> NDArray[Any] | None:
    """The memory as an array; ``None`` for a type that NumPy's DLPack lacks, such as bfloat16."""
    try:
        return _writeable(np.from_dlpack(tensor))
    except (RuntimeError, BufferError):
        return None


def extent(tensor: tvm_ffi.Tensor) -> Extent:
    """Where a tensor lies."""
    start = tensor.data_ptr()
    return start, start + as_array(tensor).nbytes


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
    make = runtime_function("runtime.TVMTensorCreateView")
    return make(tensor, tvm_ffi.Shape(tensor.shape), tvm_ffi.dtype(dtype), 0)
