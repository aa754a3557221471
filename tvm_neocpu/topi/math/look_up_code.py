"""LLVM's text of functions that look codes up in a table, which LLVM inlines into kernels.

    define <64 x i8> @neocpu_look_up_at_once(ptr %table, <64 x i8> %code)     by the instruction
    define <16 x i8> @neocpu_look_up_16(ptr %table, <16 x i8> %code)          for vectors of 16

TVM has no way to write vectors of 64 bytes that hold 16, nor loads that never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType

from tvm_neocpu.core.machine.look_up import ENTRIES, LookUp
from tvm_neocpu.topi.math.llvm_text import cut, function, joined, mask

# Codes that functions look up at once, the most first.
LANES = (64, 48, 32, 24, 16, 8, 4)
_AT_ONCE = "neocpu_look_up_at_once"


def name_of(lanes: int) -> str:
    """The function for vectors of so many codes, one of :data:`LANES`."""
    return f"neocpu_look_up_{lanes}"


@cache
def llvm_code(by: LookUp) -> str:
    """All functions; ``(ptr %table, <lanes x i8> %code)``, the result has the code's type."""
    declared, steps = _BY_NAME[by.name]()
    found = f"ret <{by.width} x i8> %found"
    at_once = _function(_AT_ONCE, by.width, (*steps, found))
    return "\n".join(
        (*declared, at_once, *(_of_lanes(lanes, by.width) for lanes in LANES), "!0 = !{}")
    )


def _of_lanes(lanes: int, width: int) -> str:
    """In parts of ``width`` codes, the last one filled up."""
    steps, parts, kind = [], range(0, lanes, width), f"<{width} x i8>"
    for at in parts:
        steps += [
            cut("%code", "i8", lanes, at, width, f"%c{at}"),
            f"%f{at} = call {kind} @{_AT_ONCE}(ptr %table, {kind} %c{at})",
        ]
    steps += joined([f"%f{at}" for at in parts], "i8", lanes, width)
    return _function(name_of(lanes), lanes, steps)


def _function(name: str, lanes: int, steps: Iterable[str]) -> str:
    kind = f"<{lanes} x i8>"
    return function(kind, name, f"ptr %table, {kind} %code", steps)


def _loaded(kind: str, size: int) -> list[str]:
    """The table as %t0, %t1, .. of ``size`` bytes each; LLVM may load them ahead of loops."""
    return [
        line
        for part in range(ENTRIES // size)
        for line in (
            f"%at{part} = getelementptr i8, ptr %table, i64 {size * part}",
            f"%t{part} = load {kind}, ptr %at{part}, align 1, !invariant.load !0",
        )
    ]


Text = tuple[list[str], list[str]]


def _halves(lanes: int, item: str, place: str, picked: str) -> Text:
    """Two permutations of two registers each; the sign of a code picks one of them.

    ``item`` is i8 or i16, ``place`` the name of the lanes' places, ``picked`` that of the result.
    """
    kind = f"<{lanes} x {item}>"
    intrinsic = f"@llvm.x86.avx512.vpermi2var.{'qi' if item == 'i8' else 'hi'}.512"
    return [f"declare {kind} {intrinsic}({kind}, {kind}, {kind})"], [
        *_loaded(kind, 64),
        f"%low = call {kind} {intrinsic}({kind} %t0, {kind} {place}, {kind} %t1)",
        f"%high = call {kind} {intrinsic}({kind} %t2, {kind} {place}, {kind} %t3)",
        f"%is_high = icmp slt <{lanes} x i8> %code, zeroinitializer",
        f"{picked} = select <{lanes} x i1> %is_high, {kind} %high, {kind} %low",
    ]


def _vpermi2b() -> Text:
    """Tables of 128."""
    return _halves(64, "i8", "%code", "%found")


def _vpermi2w() -> Text:
    """Tables of 64 words; a word has the values of two codes, the even one's below."""
    kind = "<32 x i16>"
    declared, steps = _halves(32, "i16", "%pair", "%both")
    return declared, [
        f"%wide = zext <32 x i8> %code to {kind}",
        f"%pair = lshr {kind} %wide, splat (i16 1)",
        *steps,
        f"%odd = and {kind} %wide, splat (i16 1)",
        f"%by = shl {kind} %odd, splat (i16 3)",
        f"%own = lshr {kind} %both, %by",
        f"%found = trunc {kind} %own to <32 x i8>",
    ]


def _vpshufb() -> Text:
    """16 tables of 16 by the lower half of a code; each bit of the upper half halves them."""
    kind, words, intrinsic = "<32 x i8>", "<16 x i16>", "@llvm.x86.avx2.pshuf.b"
    twice = mask([*range(16), *range(16)])
    steps = [
        *_loaded("<16 x i8>", 16),
        f"%place = and {kind} %code, splat (i8 15)",
        f"%words = bitcast {kind} %code to {words}",
    ]
    for part in range(16):
        steps += [
            f"%w{part} = shufflevector <16 x i8> %t{part}, <16 x i8> poison, {twice}",
            f"%p0_{part} = call {kind} {intrinsic}({kind} %w{part}, {kind} %place)",
        ]
    for bit in range(4):
        # In words: what comes from the neighbouring byte is never a sign.
        steps += [
            f"%up{bit} = shl {words} %words, splat (i16 {3 - bit})",
            f"%sign{bit} = bitcast {words} %up{bit} to {kind}",
            f"%is{bit} = icmp slt {kind} %sign{bit}, zeroinitializer",
        ]
        for part in range(8 >> bit):
            made = "%found" if bit == 3 else f"%p{bit + 1}_{part}"
            pair = f"{kind} %p{bit}_{2 * part + 1}, {kind} %p{bit}_{2 * part}"
            steps.append(f"{made} = select <32 x i1> %is{bit}, {pair}")
    return [f"declare {kind} {intrinsic}({kind}, {kind})"], steps


def _tbl() -> Text:
    """Four tables of 64: a place outside gives 0 (tbl), or what was found before (tbx)."""
    kind = "<16 x i8>"
    tbl, tbx = (f"@llvm.aarch64.neon.{name}4.v16i8" for name in ("tbl", "tbx"))

    def quarter(part: int) -> str:
        return ", ".join(f"{kind} %t{4 * part + each}" for each in range(4))

    steps = [*_loaded(kind, 16), f"%f0 = call {kind} {tbl}({quarter(0)}, {kind} %code)"]
    for part in range(1, 4):
        made = "%found" if part == 3 else f"%f{part}"
        less = 64 * part - (ENTRIES if part > 1 else 0)  # as a signed byte
        steps += [
            f"%c{part} = sub {kind} %code, splat (i8 {less})",
            f"{made} = call {kind} {tbx}({kind} %f{part - 1}, {quarter(part)}, {kind} %c{part})",
        ]
    five, six = (", ".join([kind] * count) for count in (5, 6))
    return [f"declare {kind} {tbl}({five})", f"declare {kind} {tbx}({six})"], steps


# What is declared, and the steps from %table and %code to %found.
_BY_NAME: Mapping[str, Callable[[], Text]] = MappingProxyType(
    {"vpermi2b": _vpermi2b, "vpermi2w": _vpermi2w, "vpshufb": _vpshufb, "tbl": _tbl}
)

__all__ = ["LANES", "llvm_code", "name_of"]
