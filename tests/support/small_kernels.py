"""Kernels of a line, for tests of what compiles them."""

from __future__ import annotations

from tvm import te, tirx


def adds(
    number: float = 1.0, extent: int = 4, data: str = "data", out: str = "out"
) -> tirx.PrimFunc:
    """out = data + number, for ``extent`` values."""
    read = te.placeholder((extent,), name=data)
    written = te.compute((extent,), lambda i: read[i] + tirx.const(number, "float32"), name=out)
    return te.create_prim_func([read, written])
