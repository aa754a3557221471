"""Weights of half precision in kernels: widened to fp32 where they are loaded.

fp16 is a cast, which LLVM compiles to the CPU's conversion of a vector. bf16 is the upper half of
an fp32 number: it is kept as 16 bits, so that TVM does not spell its arithmetic, and shifted.
"""

from __future__ import annotations

import numpy as np
from tvm import tirx
from tvm.ir import Expr

# What stores numbers of bf16: packed weights, and maps that a layer in bf16 reads, are their bits.
BITS = "uint16"
PACKED_TYPES = {"bfloat16": BITS}


def widened(weight: Expr, dtype: str) -> Expr:
    """An element of a packed weight as ``dtype``, in which it is multiplied."""
    if str(weight.ty.dtype) != BITS:
        return weight.astype(dtype)
    upper = weight.astype("uint32") << tirx.const(16, "uint32")
    return tirx.reinterpret(dtype, upper)


def as_packed(weight: np.ndarray) -> np.ndarray:
    """The weight in the type in which it is packed: bf16 as its bits."""
    return weight.view(BITS) if weight.dtype.name in PACKED_TYPES else weight
