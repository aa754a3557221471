"""Instructions that look bytes up in a table of 256: any function of one byte."""

from __future__ import annotations

from dataclasses import dataclass

# As many values as a byte has.
ENTRIES = 256


@dataclass(frozen=True)
class LookUp:
    """``name`` is the instruction's; ``width``: the bytes that it looks up at once.

    ``least``: for fewer bytes a load each is cheaper. ``beats_products``: it is also cheaper than
    a conversion to floats, a product and a conversion back.
    """

    name: str
    width: int
    least: int = 4
    beats_products: bool = False


# 128 entries in two registers: two of them, and the byte's upper bit picks a result.
VPERMI2B = LookUp("vpermi2b", 64, beats_products=True)
# 64 words in two registers: two of them find the pair that a byte stands in. 15 instructions for
# 32 bytes, where products take 11.
VPERMI2W = LookUp("vpermi2w", 32)
# 16 tables of 16, and 15 blends: 51 instructions, where a load takes 4 for each byte.
VPSHUFB = LookUp("vpshufb", 32, least=16)
# 64 entries in four registers; others give 0 (tbl) or leave what was found before (tbx).
TBL = LookUp("tbl", 16, beats_products=True)

# LLVM's feature, and what it brings, the best first.
BY_FEATURE: tuple[tuple[str, LookUp], ...] = (
    ("avx512vbmi", VPERMI2B),
    ("avx512bw", VPERMI2W),
    ("avx2", VPSHUFB),
    ("neon", TBL),
)


def look_up_of(features: frozenset[str]) -> LookUp | None:
    """What a CPU with LLVM's features looks bytes up with; ``None``: one load for each byte."""
    return next((by for feature, by in BY_FEATURE if feature in features), None)
