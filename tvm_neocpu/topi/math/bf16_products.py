"""Products of bf16 in words of two, summed in fp32, as an operator that TVM vectorises.

A template rounds its data (:func:`rounded_bits`), writes ``word`` of two neighbours
(:mod:`.dot_products`) and :func:`bf16_dot`; :mod:`..tir.plant_bf16` puts ``vdpbf16ps`` in its
place. A vector that the instruction does not have is plain arithmetic, on the same words.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx
from tvm.ir import Call, Expr

from tvm_neocpu.core.dot import WORD_BITS, DotProduct
from tvm_neocpu.topi.math.dot_products import define, lanes_of, whole
from tvm_neocpu.topi.math.half_precision import BITS

BF16_DOT = "tirx.neocpu_bf16_dot"
SUM_TYPE = "float32"
ELEMENTS = 2
# Of an fp32 number: the lower half's largest value below one half, all bits but the sign's, and
# those of infinity. A quiet NaN in bf16.
_BELOW_HALF, _SIZE, _INFINITY, _NAN = 0x7FFF, 0x7FFFFFFF, 0x7F800000, 0x7FC0


def rounded_bits(value: Expr) -> Expr:
    """An fp32 number as the bits of the nearest bf16 number, ties to even; a NaN stays one."""
    bits = tirx.reinterpret("uint32", value)
    sixteen, one = (tirx.const(number, "uint32") for number in (16, 1))
    odd = (bits >> sixteen) & one
    nearest = ((bits + odd + tirx.const(_BELOW_HALF, "uint32")) >> sixteen).astype(BITS)
    size = tirx.reinterpret("int32", value) & tirx.const(_SIZE, "int32")
    # TVM takes ``value == value`` for true.
    is_nan = size > tirx.const(_INFINITY, "int32")
    return tirx.Select(is_nan, tirx.const(_NAN, BITS), nearest)


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
    name = _SHIM.format(bits=bits)
    return tirx.call_extern(f"{SUM_TYPE}x{lanes}", name, total, data, weights)


# TVM writes no LLVM types of bf16: functions of words, which LLVM inlines, call the intrinsic.
_SHIM = "neocpu_dpbf16ps_{bits}"
_SHIM_CODE = """
declare <{sums} x float> @llvm.x86.avx512bf16.dpbf16ps.{bits}(
  <{sums} x float>, <{pairs} x bfloat>, <{pairs} x bfloat>)
define <{sums} x float> @neocpu_dpbf16ps_{bits}(
  <{sums} x float> %total, <{sums} x i32> %data, <{sums} x i32> %weights) {{
  %x = bitcast <{sums} x i32> %data to <{pairs} x bfloat>
  %w = bitcast <{sums} x i32> %weights to <{pairs} x bfloat>
  %sum = call <{sums} x float> @llvm.x86.avx512bf16.dpbf16ps.{bits}(
    <{sums} x float> %total, <{pairs} x bfloat> %x, <{pairs} x bfloat> %w)
  ret <{sums} x float> %sum
}}
"""


def llvm_code(by: DotProduct) -> str:
    """What a function needs to be compiled with that :func:`accumulate` was used in; or nothing."""
    sizes = ((bits, bits // WORD_BITS) for bits in by.widths)
    return "".join(
        _SHIM_CODE.format(bits=bits, sums=sums, pairs=ELEMENTS * sums) for bits, sums in sizes
    )


def _arithmetic(total: Expr, data: Expr, weights: Expr, lanes: int) -> Expr:
    """The definition: what the instruction is tested against; the upper element first."""
    for upper in (True, False):
        left, right = (_widened(each, upper, lanes) for each in (data, weights))
        total = total + left * right
    return total


def _widened(word: Expr, upper: bool, lanes: int) -> Expr:
    """One element of each word as fp32: its bits on top of zeros."""
    kept = word & whole(-(1 << 16), lanes) if upper else word << whole(16, lanes)
    return tirx.reinterpret(SUM_TYPE if lanes == 1 else f"{SUM_TYPE}x{lanes}", kept)
