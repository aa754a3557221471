"""exp, log, tanh, erf and the activations made of them, as arithmetic that LLVM vectorises.

LLVM scalarises ``llvm.exp.v16f32`` and its like into one libm call an element, ten times the work
of the convolution before it. Here a number is reduced to a short interval (Cody and Waite, Software
Manual for the Elementary Functions, 1980), a minimax polynomial is evaluated there, and the
exponent is assembled by integer arithmetic. The coefficients were fitted by Lawson's iteratively
reweighted least squares against float64. Every function takes and returns a float32 expression.

What is used twice is bound by ``Let``: inlined as text, tanh of a long epilogue would repeat it
twenty times. The stated errors are of results that are normal numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_neocpu.topi.math.lets import Lets, multiply_add

Expr = tirx.Expr

# The element type that the formulas are made for: their coefficients, their bits.
DTYPE = "float32"

LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first has nine bits, so that multiples of it are exact.
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440054690583e-4
# Added to a float32 they round it to an integer k; the low bits then hold k, k + 127 or k + 254.
ROUND, ROUND_BIASED, ROUND_TWICE_BIASED = 12582912.0, 12583039.0, 12583166.0
# e^r = 1 + r + r^2 q(r) on |r| <= ln(2) / 2: relative error 3e-9.
EXP = (0.49999994, 0.166665196, 0.0416683964, 0.00836878549, 0.00138144556)
# e^-r = 1 + r q(r) for the denominator 1 + e^-x: relative error 9.2e-8.
EXP_OF_MINUS = (-0.9999997, 0.499991477, -0.166676372, 0.0418980978, -0.00829028338)
# The same as EXP for e^r - 1, weighted by it: relative error 1.3e-8.
EXPM1 = (0.49999997, 0.166665435, 0.0416672006, 0.0083665857, 0.00138825097)
# atanh(s) = s + s z q(z), z = s^2, for s <= 1/3 (error 5e-9) and s <= 0.1716 (error 8e-10).
ATANH_WIDE = (0.333332062, 0.200108498, 0.139995694, 0.140122339)
ATANH_NARROW = (0.33333388, 0.199887633, 0.149360776)
# erf(x) = x p(z) / q(z), z = x^2, for |x| <= 3.92, where erf rounds to 1: relative error 2e-8.
# At 4.5 the ratio has passed 1 by 1.3e-5, more than any rounding error.
ERF_END = 4.5
ERF_P = (1.12837915, 0.190407265, 0.0527488336, 0.00376565269, 2.84884e-4, 2.05008432e-6)
ERF_Q = (1.0, 0.502076786, 0.114109446, 0.0149692877, 0.00116254466, 3.80917397e-5)
SQRT_HALF, SQRT_2_OVER_PI = 0.7071067811865476, 0.7978845608028654
SMALLEST_NORMAL, TWO_TO_23, INFINITY = 1.1754943508222875e-38, 8388608.0, float("inf")
SQRT_HALF_BITS = 0x3F3504F3
SIGN_BIT = -(2**31)


def exp(x: Expr) -> Expr:
    """e^x within 2 ulp; overflow is inf, underflow is gradual down to 0.

    2^k as two factors, because k + 127 may lie outside of what an exponent holds. The low bits of
    ``rounded`` are k + 254; half of them are the exponent of one factor, the rest is that of the
    other. ROUND's own bits are even, and shifted out.
    """
    let = Lets()
    x = _clamped(let, x, -104.0, 89.0)
    rounded = let(multiply_add(x, _float(LOG2_E), _float(ROUND_TWICE_BIASED)))
    r = _remainder(let, x, rounded - _float(ROUND_TWICE_BIASED))
    bits = let(tirx.reinterpret("int32", rounded))
    half = let(bits >> _int(1))
    near_zero = horner(r, (1.0, 1.0, *EXP))
    return let.around(near_zero * _from_low_bits(half) * _from_low_bits(bits - half))


def exp_of_negative(x: Expr) -> Expr:
    """e^x within 2 ulp for x <= 0; 0 below -87.7. Cheaper than :func:`exp`."""
    let = Lets()
    return let.around(_exp_fast(let, x))


def log(x: Expr) -> Expr:
    """ln x within 3 ulp; -inf at 0, NaN below."""
    let = Lets()
    x = let(x)
    tiny = x < _float(SMALLEST_NORMAL)
    normal = tirx.Select(tiny, x * _float(TWO_TO_23), x)
    bits = let(tirx.reinterpret("int32", normal))
    # The mantissa goes to [sqrt(1/2), sqrt 2).
    k = let((bits - _int(SQRT_HALF_BITS)) >> _int(23))
    f = let(tirx.reinterpret(DTYPE, bits - (k << _int(23))) - _float(1.0))
    fraction = _twice_atanh(let, f / (f + _float(2.0)), ATANH_NARROW)
    power = let(tirx.Cast(DTYPE, k - tirx.Select(tiny, _int(23), _int(0))))
    value = power * _float(LN2_HIGH) + (power * _float(LN2_LOW) + fraction)
    at_most_zero = tirx.Select(x < _float(0.0), _float(float("nan")), _float(-INFINITY))
    finite = tirx.Select(x > _float(0.0), value, at_most_zero)
    return let.around(tirx.Select(x < _float(INFINITY), finite, x))


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + e^-x) within 4 ulp; 0 below -88.4."""
    let = Lets()
    return let.around(_float(1.0) / _one_plus_exp_of_minus(let, x))


def silu(x: Expr) -> Expr:
    """x / (1 + e^-x) within 4 ulp; 0 below -88.4."""
    let = Lets()
    x = let(x)
    return let.around(x / _one_plus_exp_of_minus(let, x))


def tanh(x: Expr) -> Expr:
    """(e^2x - 1) / (e^2x + 1) within 4 ulp: e^2x - 1 is computed as such, for no cancellation.

    Its sign is that of x, which the difference of a -0.0 has lost.
    """
    let = Lets()
    x = _clamped(let, x, -10.0, 10.0)
    e = let(_expm1(let, x * _float(2.0)))
    return let.around(with_sign_of(e / (e + _float(2.0)), x))


def with_sign_of(size: Expr, x: Expr) -> Expr:
    """A number that is not negative, or has the sign of x, with that sign."""
    sign = tirx.reinterpret("int32", x) & _int(SIGN_BIT)
    return tirx.reinterpret(DTYPE, tirx.reinterpret("int32", size) | sign)


def erf(x: Expr) -> Expr:
    """Within 8 ulp, so 5e-7; exactly -1 and 1 from 4.5 on."""
    let = Lets()
    x = _clamped(let, x, -ERF_END, ERF_END)
    z = let(_squared(x))
    return let.around(_clamped(let, x * horner(z, ERF_P) / horner(z, ERF_Q), -1.0, 1.0))


def gelu(x: Expr) -> Expr:
    """x (1 + erf(x / sqrt 2)) / 2, within 3e-7 |x|."""
    let = Lets()
    x, half = let(x), _float(0.5)
    return let.around(x * (half + half * erf(x * _float(SQRT_HALF))))


def gelu_tanh(x: Expr) -> Expr:
    """x (1 + tanh(u)) / 2 = x / (1 + e^-2u), with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    let = Lets()
    x = let(x)
    scale = 2 * SQRT_2_OVER_PI
    twice_u = x * (x * x * _float(scale * 0.044715) + _float(scale))
    return let.around(x / _one_plus_exp_of_minus(let, twice_u))


def relu(x: Expr) -> Expr:
    """max(x, 0) of any element type; NaN and -0 stay."""
    return tirx.Max(tirx.const(0, x.ty.dtype), x)


def clip(x: Expr, low: Expr, high: Expr) -> Expr:
    """min(max(x, low), high) of any element type; NaN stays."""
    return tirx.Min(high, tirx.Max(low, x))


def nearest(x: Expr, shift: int) -> Expr:
    """The nearest whole number, half to even, plus ``shift``; both below 2^22 in size.

    Added to 1.5 * 2^23, a float32 has no bits left for a fraction. Without a call around ``x``: TVM
    cannot vectorise a call of bound expressions, such as a sigmoid.
    """
    # Not as a difference: TVM takes (x + c) - c for x.
    return (x + _float(ROUND)) + _float(shift - ROUND)


def whole_between(x: Expr, low: int, high: int, shift: int) -> Expr:
    """The nearest int32, half to even, between two bounds, plus ``shift``; x is below 2^31 in size.

    `tir/instructions/round_and_saturate.py` makes one conversion of it, and packs of what is
    narrowed.
    """
    whole = tirx.round(x).astype("int32")
    bounded = clip(whole, tirx.const(low, "int32"), tirx.const(high, "int32"))
    return bounded + tirx.const(shift, "int32") if shift else bounded


def sign(x: Expr) -> Expr:
    """-1, 0 or 1; NaN stays."""
    zero = _float(0.0)
    positive = tirx.Select(x > zero, _float(1.0), tirx.Select(x < zero, _float(-1.0), x))
    return tirx.Select(tirx.EQ(x, zero), zero, positive)


def softplus(x: Expr, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    """ln(1 + e^(beta x)) / beta within 4 ulp; x itself where beta x > threshold; 0 below -88.

    As max(x, 0) + ln(1 + e^-|x|), which neither overflows nor cancels.
    """
    let = Lets()
    x = let(x)
    scaled = let(x * _float(beta)) if beta != 1.0 else x
    negative = scaled < _float(0.0)
    u = let(_exp_fast(let, tirx.Select(negative, scaled, -scaled)))
    curved = _twice_atanh(let, u / (u + _float(2.0)), ATANH_WIDE)
    value = tirx.Select(negative, _float(0.0), scaled) + curved
    if beta != 1.0:
        value = value * _float(1 / beta)
    if threshold < 17.4:  # beyond, softplus(x) rounds to x anyway
        value = tirx.Select(scaled > _float(threshold), x, value)
    return let.around(value)


def _exp_fast(let: Lets, x: Expr) -> Expr:
    """e^x for a denominator: inf from 88.4, 0 below -87.7, one multiplication by 2^k."""
    x = _clamped(let, x, -88.0, 89.0)
    biased = let(multiply_add(x, _float(LOG2_E), _float(ROUND_BIASED)))
    remainder = _remainder(let, x, biased - _float(ROUND_BIASED))
    return _exp_near_zero(let, remainder) * _biased_power_of_two(biased)


def _one_plus_exp_of_minus(let: Lets, x: Expr) -> Expr:
    """1 + e^-x within 3 ulp, the denominator of a sigmoid; inf below -88.4, 1 from 87.7 on.

    With its division it has 14 instructions, which compete for the multipliers' ports; by way of
    :func:`_exp_fast` it would have 17. So x = -k ln 2 + r: -x itself is needed nowhere.
    """
    x = _clamped(let, x, -89.0, 88.0)
    biased = let(multiply_add(x, _float(-LOG2_E), _float(ROUND_BIASED)))
    r = _remainder(let, x, _float(ROUND_BIASED) - biased)
    near_zero = let(horner(r, (1.0, *EXP_OF_MINUS)))
    return multiply_add(near_zero, _biased_power_of_two(biased), _float(1.0))


def _expm1(let: Lets, x: Expr) -> Expr:
    """e^x - 1 for |x| < 88: 2^k (e^r - 1) + (2^k - 1)."""
    x = let(x)
    biased = let(multiply_add(x, _float(LOG2_E), _float(ROUND_BIASED)))
    r = _remainder(let, x, biased - _float(ROUND_BIASED))
    scale = let(_biased_power_of_two(biased))
    near_zero = multiply_add(r * r, horner(r, EXPM1), r)
    return multiply_add(near_zero, scale, scale - _float(1.0))


def _remainder(let: Lets, x: Expr, power: Expr) -> Expr:
    """x - k ln 2."""
    k = let(power)
    high = multiply_add(k, _float(-LN2_HIGH), x)
    return let(multiply_add(k, _float(-LN2_LOW), high))


def _exp_near_zero(let: Lets, r: Expr) -> Expr:
    return let(multiply_add(r * r, horner(r, EXP), r + _float(1.0)))


def _twice_atanh(let: Lets, s: Expr, coefficients: Sequence[float]) -> Expr:
    """ln((1 + s) / (1 - s))."""
    s = let(s)
    z = let(_squared(s))
    return let(multiply_add(s + s, z * horner(z, coefficients), s + s))


def _biased_power_of_two(biased: Expr) -> Expr:
    """2^k of k + ROUND_BIASED: what is above the low nine bits is shifted out."""
    return _from_low_bits(tirx.reinterpret("int32", biased))


def _from_low_bits(bits: Expr) -> Expr:
    """2^(e - 127) of an integer whose low nine bits are e."""
    return tirx.reinterpret(DTYPE, bits << _int(23))


def _clamped(let: Lets, x: Expr, low: float, high: float) -> Expr:
    """NaN passes: both comparisons are false for it, and the second operand is taken.

    x86's max and min instructions do the same, so that NaN costs nothing.
    """
    return let(tirx.Min(_float(high), tirx.Max(_float(low), x)))


def _squared(x: Expr) -> Expr:
    return multiply_add(x, x, _float(0.0))


def horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    *lower, highest = coefficients
    total = _float(highest)
    for coefficient in reversed(lower):
        total = total * x + _float(coefficient)
    return total


def _float(value: float) -> Expr:
    return tirx.const(value, DTYPE)


def _int(value: int) -> Expr:
    return tirx.const(value, "int32")
