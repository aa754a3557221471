"""Arrays of NumPy as generated code needs them: aligned, contiguous, of any type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_neocpu.core.machine.alignment import ALIGNMENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

# An array's first byte and the one behind its last.
Extent = tuple[int, int]
# How an element of so many bytes is seen where NumPy's DLPack lacks its type, such as bfloat16.
SEEN_AS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's type of that name; `ml_dtypes`, where it is installed, has bfloat16 and others."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def aligned_zeros(shape: Sequence[int], dtype: str) -> NDArray[Any]:
    """A new array of zeros, aligned as generated code needs it."""
    kind = numpy_dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -address(memory) % ALIGNMENT
    return memory[start:][:size].view(kind).reshape(tuple(shape))


def address(array: NDArray[Any]) -> int:
    """Where its first byte is."""
    found: int = array.__array_interface__["data"][0]
    return found


def is_shareable(array: NDArray[Any]) -> bool:
    """Whether generated code can read and write it where it is."""
    flags = array.flags
    return flags.c_contiguous and flags.writeable and address(array) % ALIGNMENT == 0


def seen_as_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as a type that DLPack has."""
    kind = array.dtype
    return array.view(SEEN_AS[kind.itemsize]) if kind.kind == "V" else array
