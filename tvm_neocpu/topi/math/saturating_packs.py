"""Clipped int32 as bytes, as an operator that TVM vectorises.

    uint8(clip(int16(clip(x, -2^15, 2^15 - 1)) + z, a, b))
    ->  neocpu_uint8_a_b_z(x)                              vpackssdw, vpackuswb, vpermd

x86 packs each 128 bits of a register by themselves. LLVM puts the result of each pack in order
(AVX2), or narrows register by register (AVX-512): 15 instructions of the unit for shuffles for 64
bytes. Here one permutation of words comes last: 4 instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from tvm import tirx
from tvm.ir import Call, Expr

from tvm_neocpu.core.machine.cpu import AVX2, AVX512
from tvm_neocpu.core.machine.dot import WORD_BITS
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, define, lanes_of, vector_of, whole
from tvm_neocpu.topi.math.llvm_text import cut, function, joined, mask

_BY_TYPE = {"int16": "packssdw", "uint8": "packuswb", "int8": "packsswb"}
# What packs a register of each width: to 16 bits, and from there to the types of a byte.
_PACKS = {
    bits: {dtype: name.format(pack) for dtype, pack in _BY_TYPE.items()}
    for bits, name in ((AVX2.vector_bits, "avx2.{}"), (AVX512.vector_bits, "avx512.{}.512"))
}
# Registers of int32 that one of bytes is made of, and the bits that a pack works in.
_PARTS, _LANE_BITS = 4, 128
# Vectors that have a function: of a register and more with AVX-512, of two and more with AVX2.
_LANES = (16, 24, 32, 40, 48, 64, 96, 128)
_HALF = (-(2**15), 2**15 - 1)


@dataclass(frozen=True)
class Codes:
    """The bytes that are made of an int32: ``zero`` is added, ``low`` and ``high`` hold behind."""

    dtype: str
    low: int
    high: int
    zero: int = 0

    @property
    def name(self) -> str:
        numbers = (str(number).replace("-", "m") for number in (self.low, self.high, self.zero))
        return "_".join(("neocpu", self.dtype, *numbers))

    def of(self, words: Expr) -> Expr:
        """Those of an int32 or of a vector, by arithmetic."""
        lanes = lanes_of(words)

        def clipped(value: Expr, bounds: tuple[int, int], dtype: str) -> Expr:
            low, high = (whole(bound, lanes, dtype) for bound in bounds)
            return tirx.Max(tirx.Min(value, high), low)

        halves = vector_of("int16", lanes)
        half = clipped(words, _HALF, WORD_TYPE).astype(halves)
        if self.zero:  # What is as large as 16 bits hold stays so.
            shift = whole(self.zero, lanes, "int16")
            half = tirx.call_llvm_pure_intrin(halves, "llvm.sadd.sat", half, shift)
        return clipped(half, (self.low, self.high), "int16").astype(vector_of(self.dtype, lanes))


def packed(words: Expr, codes: Codes, bits: int) -> Expr:
    """``codes.of(words)`` by what :func:`llvm_code` defines, chosen once the lanes are known.

    ``bits``: the CPU's ``packs``.
    """
    name = f"tirx.neocpu_{codes.dtype}_{bits}"
    define(name, None, _lowering(codes.dtype, bits))
    return tirx.call_intrin(codes.dtype, name, words, codes.low, codes.high, codes.zero)


@cache
def _lowering(dtype: str, bits: int) -> Callable[..., Expr]:
    return lambda call, by: _lowered(call, dtype, bits)


def _lowered(call: Call, dtype: str, bits: int) -> Expr:
    words, *numbers = call.args
    codes, lanes = Codes(dtype, *map(_number, numbers)), lanes_of(call)
    if lanes not in _lanes(bits):
        return codes.of(words)
    return tirx.call_extern(f"{dtype}x{lanes}", f"{codes.name}_{lanes}", words)


def _number(constant: Expr) -> int:
    return int(constant.value if isinstance(constant, tirx.Broadcast) else constant)


def _lanes(bits: int) -> tuple[int, ...]:
    return tuple(lanes for lanes in _LANES if WORD_BITS * lanes >= bits)


@cache
def llvm_code(codes: Codes, bits: int) -> str:
    """LLVM's text of a function for each number of lanes."""
    return "\n".join((_of_registers(codes, bits), *(_of(codes, bits, n) for n in _lanes(bits))))


def _of_registers(codes: Codes, bits: int) -> str:
    """One register of bytes, of four of int32."""
    lanes = bits // WORD_BITS
    i32, i16, i8 = f"<{lanes} x i32>", f"<{2 * lanes} x i16>", f"<{4 * lanes} x i8>"
    to_half, to_bytes = (f"@llvm.x86.{_PACKS[bits][dtype]}" for dtype in ("int16", codes.dtype))
    declared = [f"declare {i16} {to_half}({i32}, {i32})", f"declare {i8} {to_bytes}({i16}, {i16})"]
    low, high = "%low", "%high"
    steps = [
        f"{low} = call {i16} {to_half}({i32} %x0, {i32} %x1)",
        f"{high} = call {i16} {to_half}({i32} %x2, {i32} %x3)",
    ]
    for operation, number in _on_halves(codes):
        name = f"@llvm.{operation}.v{2 * lanes}i16"
        declared.append(f"declare {i16} {name}({i16}, {i16})")
        for half in (low, high):
            operands = f"{i16} {half}, {i16} splat (i16 {number})"
            steps.append(f"{half}.{operation} = call {i16} {name}({operands})")
        low, high = f"{low}.{operation}", f"{high}.{operation}"
    # Each 128 bits have a word of each register.
    words = range(bits // _LANE_BITS)
    order = mask(_PARTS * word + part for part in range(_PARTS) for word in words)
    steps += [
        f"%bytes = call {i8} {to_bytes}({i16} {low}, {i16} {high})",
        f"%words = bitcast {i8} %bytes to {i32}",
        f"%ordered = shufflevector {i32} %words, {i32} poison, {order}",
        f"%y = bitcast {i32} %ordered to {i8}",
        f"ret {i8} %y",
    ]
    operands = ", ".join(f"{i32} %x{part}" for part in range(_PARTS))
    return "\n".join((*declared, function(i8, codes.name, operands, steps)))


def _on_halves(codes: Codes) -> Iterator[tuple[str, int]]:
    """LLVM's operations on 16 bits and their numbers; the last pack clips to its type."""
    if codes.zero:
        yield "sadd.sat", codes.zero
    bounds = np.iinfo(codes.dtype)
    if codes.low > bounds.min:
        yield "smax", codes.low
    if codes.high < bounds.max:
        yield "smin", codes.high


def _of(codes: Codes, bits: int, lanes: int) -> str:
    """A vector, in registers of bytes."""
    register, steps = bits // WORD_BITS, []
    i32, at_once = f"<{register} x i32>", _PARTS * register
    parts = range(0, lanes, at_once)
    for first in parts:
        operands = []
        for start in range(first, first + at_once, register):
            inside = start < lanes
            operands.append(f"{i32} %x{start}" if inside else f"{i32} poison")
            steps += [cut("%x", "i32", lanes, start, register, f"%x{start}")] if inside else []
        steps.append(f"%y{first} = call <{at_once} x i8> @{codes.name}({', '.join(operands)})")
    steps += joined([f"%y{first}" for first in parts], "i8", lanes, at_once)
    return function(f"<{lanes} x i8>", f"{codes.name}_{lanes}", f"<{lanes} x i32> %x", steps)
