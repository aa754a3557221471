"""Products of bf16 in words of two, summed in fp32, as an operator that TVM vectorises.

A template rounds its data (:func:`rounded_bits`), writes ``word`` of two neighbours
(:mod:`.dot_products`) and :func:`bf16_dot`; :mod:`..tir.plant_bf16` puts ``vdpbf16ps`` in its
place. A vector that the instruction does not have is plain arithmetic, on the same words.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx
from tvm.ir import Call, Expr

from tvm_neocpu.core.machine.dot import WORD_BITS, DotProduct
from tvm_neocpu.topi.math.dot_products import define, lanes_of, vector_of, whole
from tvm_neocpu.topi.math.half_precision import BITS

BF16_DOT = "tirx.neocpu_bf16_dot"
BF16_ROUND = "tirx.neocpu_bf16_round"
SUM_TYPE = "float32"
ELEMENTS = 2
# Of an fp32 number: the lower half's largest value below one half, all bits but the sign's, and
# those of infinity. A quiet NaN in bf16.
_BELOW_HALF, _SIZE, _INFINITY, _NAN = 0x7FFF, 0x7FFFFFFF, 0x7F800000, 0x7FC0


def rounded_bits(value: Expr) -> Expr:
    """An fp32 number as the bits of the nearest bf16 number, ties to even; a NaN stays one.

    :mod:`..tir.plant_bf16` puts the CPU's instruction in its place.
    """
    define(BF16_ROUND, None, _rounded)
    return tirx.call_intrin(BITS, BF16_ROUND, value)


def converted_bits(value: Expr, by: DotProduct) -> Expr:
    """The same by an instruction that comes with that for products, chosen once lanes are known.

    It takes subnormal numbers for zeros, as the products do.
    """
    if not by.widths:
        return rounded_bits(value)
    define(_CONVERSION, None, _converted)
    return tirx.call_intrin(BITS, _CONVERSION, value)


def _converted(call: Call, by: None) -> Expr:
    (value,), lanes = call.args, lanes_of(call)
    if lanes not in _CONVERTED_LANES:
        return _nearest_bits(value)
    return tirx.call_extern(f"{BITS}x{lanes}", _CONVERT.format(lanes=lanes), value)


def _rounded(call: Call, by: None) -> Expr:
    return _nearest_bits(call.args[0])


def _nearest_bits(value: Expr) -> Expr:
    """By arithmetic, which LLVM vectorises."""
    lanes = lanes_of(value)

    bits = tirx.reinterpret(vector_of("uint32", lanes), value)
    sixteen, one, below_half = (whole(n, lanes, "uint32") for n in (16, 1, _BELOW_HALF))
    odd = (bits >> sixteen) & one
    nearest = ((bits + odd + below_half) >> sixteen).astype(vector_of(BITS, lanes))
    size = tirx.reinterpret(vector_of("int32", lanes), value) & whole(_SIZE, lanes)
    # TVM takes ``value == value`` for true.
    is_nan = size > whole(_INFINITY, lanes)
    return tirx.Select(is_nan, whole(_NAN, lanes, BITS), nearest)


def bf16_dot(data: Expr, weights: Expr) -> Expr:
    """The two products of a word of data and one of weights, added up.

    Only :mod:`..tir.plant_bf16` gives it a meaning, and only to data that are a
    :func:`.dot_products.word`.
    """
    define(BF16_DOT)
    return tirx.call_intrin(SUM_TYPE, BF16_DOT, data, weights)


def accumulate(total: Expr, data: Expr, weights: Expr, by: DotProduct) -> Expr:
    """``total + bf16_dot(data, weights)`` by an instruction, chosen once the lanes are known."""
    name = f"tirx.neocpu_{by.name}x{max(by.widths, default=0)}"
    # How fast it is makes it no other instruction: a name is defined once.
    define(name, replace(by, rate=1.0), _lowered)
    return tirx.call_intrin(SUM_TYPE, name, total, data, weights)


def _lowered(call: Call, by: DotProduct) -> Expr:
    total, data, weights = call.args
    lanes = lanes_of(call)
    bits = lanes * WORD_BITS
    if bits not in by.widths:
        return _arithmetic(total, data, weights, lanes)
    name = _SHIM.format(name=by.name, bits=bits)
    return tirx.call_extern(f"{SUM_TYPE}x{lanes}", name, total, data, weights)


# TVM writes no LLVM types of bf16: functions of words, which LLVM inlines, call the intrinsic.
_SHIM = "neocpu_{name}_{bits}"
_INTRINSICS = {
    "vdpbf16ps": "llvm.x86.avx512bf16.dpbf16ps.{bits}",
    "bfdot": "llvm.aarch64.neon.bfdot.v{sums}f32.v{pairs}bf16",
}
_SHIM_CODE = """
declare <{sums} x float> @{intrinsic}(
  <{sums} x float>, <{pairs} x bfloat>, <{pairs} x bfloat>)
define <{sums} x float> @{shim}(
  <{sums} x float> %total, <{sums} x i32> %data, <{sums} x i32> %weights) {{
  %x = bitcast <{sums} x i32> %data to <{pairs} x bfloat>
  %w = bitcast <{sums} x i32> %weights to <{pairs} x bfloat>
  %sum = call <{sums} x float> @{intrinsic}(
    <{sums} x float> %total, <{pairs} x bfloat> %x, <{pairs} x bfloat> %w)
  ret <{sums} x float> %sum
}}
"""


# Lanes that templates round at once: LLVM cuts them into the CPU's vectors.
_CONVERSION = "tirx.neocpu_bf16_convert"
_CONVERTED_LANES = (8, 16, 24, 32, 40, 48, 64, 72, 96, 128)
_CONVERT = "neocpu_bf16_bits_{lanes}"
_CONVERT_CODE = """
define <{lanes} x i16> @neocpu_bf16_bits_{lanes}(<{lanes} x float> %value) {{
  %near = fptrunc <{lanes} x float> %value to <{lanes} x bfloat>
  %bits = bitcast <{lanes} x bfloat> %near to <{lanes} x i16>
  ret <{lanes} x i16> %bits
}}
"""


def llvm_code(by: DotProduct) -> str:
    """What a function needs to be compiled with that :func:`accumulate` was used in; or nothing."""
    if not by.widths:
        return ""
    conversions = (_CONVERT_CODE.format(lanes=lanes) for lanes in _CONVERTED_LANES)
    products = (_product_code(by.name, bits) for bits in by.widths)
    return "".join((*products, *conversions))


def _product_code(name: str, bits: int) -> str:
    sizes = {"sums": bits // WORD_BITS, "pairs": ELEMENTS * bits // WORD_BITS}
    intrinsic = _INTRINSICS[name].format(bits=bits, **sizes)
    shim = _SHIM.format(name=name, bits=bits)
    return _SHIM_CODE.format(shim=shim, intrinsic=intrinsic, **sizes)


def _arithmetic(total: Expr, data: Expr, weights: Expr, lanes: int) -> Expr:
    """The definition: what the instruction is tested against; the upper element first."""
    for upper in (True, False):
        left, right = (_widened(each, upper, lanes) for each in (data, weights))
        total = total + left * right
    return total


def _widened(word: Expr, upper: bool, lanes: int) -> Expr:
    """One element of each word as fp32: its bits on top of zeros."""
    kept = word & whole(-(1 << 16), lanes) if upper else word << whole(16, lanes)
    return tirx.reinterpret(vector_of(SUM_TYPE, lanes), kept)
