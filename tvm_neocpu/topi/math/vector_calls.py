"""Which functions of numbers LLVM has vectors of, where TVM's vectoriser knows too few.

TVM says of each operator whether it may be called with vectors. It forgot some that LLVM has; a
loop with a call of these became scalar code. IsNaN of 256x28x28 took 187 us and takes 35 (Zen 4,
one thread).
"""

from __future__ import annotations

from functools import cache

import tvm

FORGOTTEN = tuple(f"tirx.{name}" for name in ("isnan", "nearbyint", "rsqrt"))
# Of these TVM makes polynomials or logarithms of scalars, or calls of libm.
SCALAR = tuple(
    f"tirx.{name}"
    for name in (
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "copysign",
        "erf",
        "fmod",
        "hypot",
        "ldexp",
        "log1p",
        "nextafter",
    )
)


@cache
def vectorize_forgotten_calls() -> None:
    """Have TVM vectorise calls of these, from now on in this process."""
    for operator in FORGOTTEN:
        tvm.ir.register_op_attr(operator, "TVectorizable", True)
