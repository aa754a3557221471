"""asin, acos and atan as arithmetic that LLVM vectorises; TVM calls libm, element by element.

Like :mod:`.vector_math`: a short interval, a minimax polynomial fitted by reweighted least squares,
float32 in and out, intermediate results bound by ``Let``. 256x28x28 take with libm, with these, and
in ONNX Runtime, us (Zen 4, one thread): acos 1758, 76, 123; asin 1712, 68, 224; atan 2500, 76, 190.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_neocpu.topi.math.lets import Lets, multiply_add
from tvm_neocpu.topi.math.vector_math import DTYPE, horner, with_sign_of

Expr = tirx.Expr

# asin(s) = s + s z q(z), z = s^2 <= 1/4: relative error 5e-9.
ASIN = (0.166667536, 0.0749524161, 0.0454770997, 0.0241475999, 0.0422185659)
# atan(t) = t + t z q(z), z = t^2 <= tan(pi / 8)^2: relative error 2e-8.
ATAN = (-0.333329558, 0.199779257, -0.138798505, 0.0806030855)
TAN_EIGHTH, TAN_THREE_EIGHTHS = 0.41421356, 2.41421356
# pi / 2 in two parts.
HALF_PI, HALF_PI_LOW = 1.57079637, -4.37113883e-8


def asin(x: Expr) -> Expr:
    """Within 4 ulp; NaN outside of -1 and 1."""
    let = Lets()
    x = let(x)
    is_small, arc = _arc_sine(let, x)
    rest = (_float(HALF_PI) - _float(2.0) * arc) + _float(HALF_PI_LOW)
    return let.around(with_sign_of(tirx.Select(is_small, arc, rest), x))


def acos(x: Expr) -> Expr:
    """Within 4 ulp; NaN outside of -1 and 1."""
    let = Lets()
    x = let(x)
    is_small, arc = _arc_sine(let, x)
    signed = with_sign_of(arc, x)
    middle = (_float(HALF_PI) - signed) + _float(HALF_PI_LOW)
    twice = let(_float(2.0) * arc)
    below = (_float(2 * HALF_PI) - twice) + _float(2 * HALF_PI_LOW)
    ends = tirx.Select(x < _float(0.0), below, twice)
    return let.around(tirx.Select(is_small, middle, ends))


def atan(x: Expr) -> Expr:
    """Within 4 ulp.

    atan(a) = pi/4 + atan((a - 1) / (a + 1)) = pi/2 + atan(-1 / a)
    """
    let = Lets()
    x = let(x)
    a = let(tirx.abs(x))
    far, middle = a > _float(TAN_THREE_EIGHTHS), a > _float(TAN_EIGHTH)

    def chosen(values: Sequence[Expr | float]) -> Expr:
        of_far, of_middle, of_near = (v if isinstance(v, Expr) else _float(v) for v in values)
        return tirx.Select(far, of_far, tirx.Select(middle, of_middle, of_near))

    t = let(chosen((-1.0, a - _float(1.0), a)) / chosen((a, a + _float(1.0), 1.0)))
    z = let(t * t)
    low = chosen((HALF_PI_LOW, HALF_PI_LOW / 2, 0.0))
    arc = t + multiply_add(t * z, horner(z, ATAN), low)
    return let.around(with_sign_of(chosen((HALF_PI, HALF_PI / 2, 0.0)) + arc, x))


def _arc_sine(let: Lets, x: Expr) -> tuple[Expr, Expr]:
    """Whether |x| <= 1/2, and the arc of |x| then, else that of sqrt((1 - |x|) / 2)."""
    a = let(tirx.abs(x))
    is_small = a <= _float(0.5)
    z = let(tirx.Select(is_small, a * a, (_float(1.0) - a) * _float(0.5)))
    s = let(tirx.Select(is_small, a, tirx.sqrt(z)))
    return is_small, let(multiply_add(s * z, horner(z, ASIN), s))


def _float(value: float) -> Expr:
    return tirx.const(value, DTYPE)
