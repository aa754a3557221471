"""C's ``fmod`` of float32, exact, as arithmetic that LLVM vectorises.

libm takes the quotient bit by bit, one element a call: 13 ns on a Zen 3. Here a double holds 50
bits of the quotient at once. A remainder of float32 by a multiple of the divisor has few bits, so
that a multiply-add that is rounded once gives it exactly.
"""

from __future__ import annotations

from tvm import tirx

from tvm_neocpu.topi.math.lets import Lets, multiply_add_rounded_once

Expr = tirx.Expr

WIDE = "float64"
# Bits of the quotient that a step takes: its error stays below 1/4, that of rounding it below 1/2.
STEP = 50
# The largest float32 is 2^277 times the smallest one.
QUOTIENT_BITS = 277
# More than any float32: an infinite divisor leaves the dividend as it is.
BEYOND = 2.0**200
_SIGN, _SIZE = -0x80000000, 0x7FFFFFFF


def fmod(x: Expr, y: Expr) -> Expr:
    """x - trunc(x / y) y of two float32, exactly, with the sign of ``x``.

    NaN for an infinite ``x``, for ``y`` 0, and where either is NaN; ``x`` for an infinite ``y``.

    Each step takes the nearest multiple of y 2^k from what is left, k = 250, 200, ... 0: what stays
    is at most 3/4 of y 2^k in size, and of either sign until the last step has been mended.
    """
    let = Lets()
    bits = let(tirx.reinterpret("int32", let(x)))
    dividend, divisor = let(_size(bits)), let(_size(tirx.reinterpret("int32", let(y))))
    divisor = let(tirx.Min(_double(BEYOND), divisor))
    inverse = let(_double(1.0) / divisor)
    rest = dividend
    for power in range(QUOTIENT_BITS // STEP * STEP, -1, -STEP):
        times = let(tirx.nearbyint(rest * (inverse * _double(2.0**-power))))
        rest = let(multiply_add_rounded_once(times * _double(-(2.0**power)), divisor, rest))
    rest = let(tirx.Select(rest < _double(0.0), rest + divisor, rest).astype("float32"))
    sign = bits & tirx.const(_SIGN, "int32")
    return let.around(tirx.reinterpret("float32", tirx.reinterpret("int32", rest) | sign))


def _size(bits: Expr) -> Expr:
    """The double |x| of a float32's bits."""
    size = tirx.reinterpret("float32", bits & tirx.const(_SIZE, "int32"))
    return size.astype(WIDE)


def _double(value: float) -> Expr:
    return tirx.const(value, WIDE)
