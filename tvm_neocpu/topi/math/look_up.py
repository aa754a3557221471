"""Bytes of a table of 256, as an operator that TVM vectorises.

A function writes :func:`looked_up`, a load like any other;
:mod:`..tir.instructions.plant_look_ups` puts the CPU's instruction in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tvm import te, tirx
from tvm.ir import Call, Expr, TensorLoad
from tvm.tirx import Shuffle

from tvm_neocpu.core.machine.look_up import ENTRIES, LookUp
from tvm_neocpu.topi.math.dot_products import define, lanes_of

CODE_TYPE = "uint8"
_INDEX_TYPE = "int32"


def looked_up(table: te.Tensor, code: Expr) -> Expr:
    """The table's uint8 for a uint8."""
    return table(code.astype(_INDEX_TYPE))


def code_of(load: TensorLoad) -> Expr | None:
    """The code of a :func:`looked_up`; ``None`` for any other load."""
    if str(load.ty.dtype) != CODE_TYPE or len(load.source.shape) != 1:
        return None
    (extent,), (index,) = load.source.shape, load.indices
    if not isinstance(extent, tirx.IntImm) or int(extent) != ENTRIES:
        return None
    if not isinstance(index, tirx.Cast) or str(index.value.ty.dtype) != CODE_TYPE:
        return None
    return index.value


def by_instruction(load: TensorLoad, code: Expr, by: LookUp) -> Expr:
    """The same by what :func:`llvm_code` defines, chosen once the lanes are known."""
    name = f"tirx.neocpu_{by.name}"
    define(name, None, _lowering(by.least))
    return tirx.call_intrin(CODE_TYPE, name, load.source[0], code)


@cache
def _lowering(least: int) -> Callable[..., Expr]:
    return lambda call, by: _lowered(call, least)


def _lowered(call: Call, least: int) -> Expr:
    first, code = call.args
    first = first.value if isinstance(first, tirx.Broadcast) else first
    lanes = lanes_of(call)
    at_once = next((count for count in _LANES if lanes % count == 0), 0)
    if at_once < least:
        index = _INDEX_TYPE if lanes == 1 else f"{_INDEX_TYPE}x{lanes}"
        return first.source[code.astype(index)]
    places = [range(at, at + at_once) for at in range(0, lanes, at_once)]
    parts = [code] if len(places) == 1 else [_picked([code], each) for each in places]
    dtype, name = f"{CODE_TYPE}x{at_once}", _NAME.format(lanes=at_once)
    found = [tirx.call_extern(dtype, name, tirx.address_of(first), part) for part in parts]
    return found[0] if len(found) == 1 else _picked(found, range(lanes))


def _picked(vectors: list[Expr], places: range) -> Expr:
    return Shuffle(vectors, [tirx.const(at, "int32") for at in places])


_NAME, _AT_ONCE = "neocpu_look_up_{lanes}", "neocpu_look_up_at_once"
# Codes that functions look up at once, the most first.
_LANES = (64, 48, 32, 24, 16, 8, 4)


@cache
def llvm_code(by: LookUp) -> str:
    """What a function needs to be compiled with that :func:`by_instruction` was used in."""
    return _ONCE[by.name] + "".join(_of_lanes(lanes, by.width) for lanes in _LANES)


def _of_lanes(lanes: int, width: int) -> str:
    """A function of ``lanes`` codes, by one of ``width``: in parts, the last one filled up."""
    lines, found = [], f"<{lanes} x i8> poison"
    for at in range(0, lanes, width):
        inside = min(width, lanes - at)
        taken = _mask([*range(at, at + inside), *[None] * (width - inside)])
        # What was found before, and the part's codes at their places.
        placed = _mask([*[None] * at, *range(inside), *[None] * (lanes - at - inside)])
        kept = _mask(
            [*range(at), *range(lanes + at, lanes + at + inside), *[None] * (lanes - at - inside)]
        )
        lines += [
            f"%c{at} = shufflevector <{lanes} x i8> %code, <{lanes} x i8> poison, {taken}",
            f"%f{at} = call <{width} x i8> @{_AT_ONCE}(ptr %table, <{width} x i8> %c{at})",
            f"%p{at} = shufflevector <{width} x i8> %f{at}, <{width} x i8> poison, {placed}",
            f"%r{at} = shufflevector {found}, <{lanes} x i8> %p{at}, {kept}",
        ]
        found = f"<{lanes} x i8> %r{at}"
    body = "\n  ".join(lines)
    name = _NAME.format(lanes=lanes)
    return f"""
define <{lanes} x i8> @{name}(ptr %table, <{lanes} x i8> %code) alwaysinline {{
  {body}
  ret {found}
}}
"""


def _mask(places: list[int | None]) -> str:
    picks = ", ".join("i32 poison" if place is None else f"i32 {place}" for place in places)
    return f"<{len(places)} x i32> <{picks}>"


# Tables never change: LLVM may load their registers ahead of loops.
_ONCE = {
    "vpermi2b": """
declare <64 x i8> @llvm.x86.avx512.vpermi2var.qi.512(<64 x i8>, <64 x i8>, <64 x i8>)
define <64 x i8> @neocpu_look_up_at_once(ptr %table, <64 x i8> %code) alwaysinline {
  %at1 = getelementptr i8, ptr %table, i64 64
  %at2 = getelementptr i8, ptr %table, i64 128
  %at3 = getelementptr i8, ptr %table, i64 192
  %t0 = load <64 x i8>, ptr %table, align 1, !invariant.load !0
  %t1 = load <64 x i8>, ptr %at1, align 1, !invariant.load !0
  %t2 = load <64 x i8>, ptr %at2, align 1, !invariant.load !0
  %t3 = load <64 x i8>, ptr %at3, align 1, !invariant.load !0
  %low = call <64 x i8> @llvm.x86.avx512.vpermi2var.qi.512(
    <64 x i8> %t0, <64 x i8> %code, <64 x i8> %t1)
  %high = call <64 x i8> @llvm.x86.avx512.vpermi2var.qi.512(
    <64 x i8> %t2, <64 x i8> %code, <64 x i8> %t3)
  %is_high = icmp slt <64 x i8> %code, zeroinitializer
  %found = select <64 x i1> %is_high, <64 x i8> %high, <64 x i8> %low
  ret <64 x i8> %found
}
!0 = !{}
""",
    # A word of the table has the values of two codes, the even one's in the lower half.
    "vpermi2w": """
declare <32 x i16> @llvm.x86.avx512.vpermi2var.hi.512(<32 x i16>, <32 x i16>, <32 x i16>)
define <32 x i8> @neocpu_look_up_at_once(ptr %table, <32 x i8> %code) alwaysinline {
  %at1 = getelementptr i8, ptr %table, i64 64
  %at2 = getelementptr i8, ptr %table, i64 128
  %at3 = getelementptr i8, ptr %table, i64 192
  %t0 = load <32 x i16>, ptr %table, align 1, !invariant.load !0
  %t1 = load <32 x i16>, ptr %at1, align 1, !invariant.load !0
  %t2 = load <32 x i16>, ptr %at2, align 1, !invariant.load !0
  %t3 = load <32 x i16>, ptr %at3, align 1, !invariant.load !0
  %wide = zext <32 x i8> %code to <32 x i16>
  %pair = lshr <32 x i16> %wide, splat (i16 1)
  %low = call <32 x i16> @llvm.x86.avx512.vpermi2var.hi.512(
    <32 x i16> %t0, <32 x i16> %pair, <32 x i16> %t1)
  %high = call <32 x i16> @llvm.x86.avx512.vpermi2var.hi.512(
    <32 x i16> %t2, <32 x i16> %pair, <32 x i16> %t3)
  %is_high = icmp slt <32 x i8> %code, zeroinitializer
  %both = select <32 x i1> %is_high, <32 x i16> %high, <32 x i16> %low
  %odd = and <32 x i16> %wide, splat (i16 1)
  %by = shl <32 x i16> %odd, splat (i16 3)
  %own = lshr <32 x i16> %both, %by
  %found = trunc <32 x i16> %own to <32 x i8>
  ret <32 x i8> %found
}
!0 = !{}
""",
    # Each table of 16 by the lower half of a code; the bits of the upper half pick one of all.
    "vpshufb": """
declare <32 x i8> @llvm.x86.avx2.pshuf.b(<32 x i8>, <32 x i8>)
define <32 x i8> @neocpu_look_up_at_once(ptr %table, <32 x i8> %code) alwaysinline {
  %place = and <32 x i8> %code, splat (i8 15)
  %words = bitcast <32 x i8> %code to <16 x i16>
"""
    + "".join(
        f"  %at{part} = getelementptr i8, ptr %table, i64 {16 * part}\n"
        f"  %half{part} = load <16 x i8>, ptr %at{part}, align 1, !invariant.load !0\n"
        f"  %t{part} = shufflevector <16 x i8> %half{part}, <16 x i8> poison, "
        f"{_mask([*range(16), *range(16)])}\n"
        f"  %b0_{part} = call <32 x i8> @llvm.x86.avx2.pshuf.b("
        f"<32 x i8> %t{part}, <32 x i8> %place)\n"
        for part in range(16)
    )
    + "".join(
        f"  %w{bit} = shl <16 x i16> %words, splat (i16 {3 - bit})\n"
        f"  %s{bit} = bitcast <16 x i16> %w{bit} to <32 x i8>\n"
        f"  %is{bit} = icmp slt <32 x i8> %s{bit}, zeroinitializer\n"
        + "".join(
            f"  %b{bit + 1}_{part} = select <32 x i1> %is{bit}, "
            f"<32 x i8> %b{bit}_{2 * part + 1}, <32 x i8> %b{bit}_{2 * part}\n"
            for part in range(8 >> bit)
        )
        for bit in range(4)
    )
    + "  ret <32 x i8> %b4_0\n}\n!0 = !{}\n",
    "tbl": """
declare <16 x i8> @llvm.aarch64.neon.tbl4.v16i8(
  <16 x i8>, <16 x i8>, <16 x i8>, <16 x i8>, <16 x i8>)
declare <16 x i8> @llvm.aarch64.neon.tbx4.v16i8(
  <16 x i8>, <16 x i8>, <16 x i8>, <16 x i8>, <16 x i8>, <16 x i8>)
define <16 x i8> @neocpu_look_up_at_once(ptr %table, <16 x i8> %code) alwaysinline {
"""
    + "".join(
        f"  %at{part} = getelementptr i8, ptr %table, i64 {16 * part}\n"
        f"  %t{part} = load <16 x i8>, ptr %at{part}, align 1, !invariant.load !0\n"
        for part in range(16)
    )
    + "".join(
        f"  %c{part} = sub <16 x i8> %code, splat (i8 {64 * part - 256 * (part > 1)})\n"
        for part in range(1, 4)
    )
    + """  %f0 = call <16 x i8> @llvm.aarch64.neon.tbl4.v16i8(
    <16 x i8> %t0, <16 x i8> %t1, <16 x i8> %t2, <16 x i8> %t3, <16 x i8> %code)
"""
    + "".join(
        f"  %f{part} = call <16 x i8> @llvm.aarch64.neon.tbx4.v16i8(<16 x i8> %f{part - 1}, "
        + ", ".join(f"<16 x i8> %t{4 * part + each}" for each in range(4))
        + f", <16 x i8> %c{part})\n"
        for part in range(1, 4)
    )
    + "  ret <16 x i8> %f3\n}\n!0 = !{}\n",
}
