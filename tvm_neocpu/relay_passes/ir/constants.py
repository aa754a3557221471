"""Constants as NumPy arrays (no copy) and NumPy arrays as constants (one copy)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.runtime.ffi.tensors import as_array

Array = npt.NDArray[Any]

# The types that NumPy and DLPack share. The passes do not read bfloat16 or float8 constants.
_KNOWN_DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def array_of(expr: relax.Expr) -> Array | None:
    """A read-only view of a tensor constant's memory; ``None`` for any other expression."""
    if not isinstance(expr, GenericConst) or not isinstance(expr.value, tvm.runtime.Tensor):
        return None
    if str(expr.value.dtype) not in _KNOWN_DTYPES:
        return None
    view = np.from_dlpack(expr.value)
    view.flags.writeable = False
    return view


def constant_of(array: Array, dtype: str | None = None) -> GenericConst:
    """A constant with the array's content, rounded to ``dtype`` if given.

    The copy reads strided views (a broadcast, a transpose) directly. A contiguous copy in between
    would double the 575 MB of VGG-19's weights.
    """
    tensor = tvm.runtime.empty(array.shape, dtype or str(array.dtype))
    np.copyto(np.from_dlpack(tensor), array, casting="same_kind")
    return relax.const(tensor)


def overwritten(constant: GenericConst, array: Array) -> GenericConst:
    """The constant itself, which now has the array's content, rounded. Nothing else may read it."""
    np.copyto(as_array(constant.value), array, casting="same_kind")
    return constant


def read_once(mod: tvm.IRModule) -> frozenset[int]:
    """The addresses of the constants that the module reads exactly once."""
    uses = Counter[int]()

    def count(expr: relax.Expr) -> None:
        array = array_of(expr)
        if array is not None:
            uses[array.ctypes.data] += 1

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, count)
    return frozenset(address for address, number in uses.items() if number == 1)


__all__ = ["Array", "array_of", "constant_of", "overwritten", "read_once"]
