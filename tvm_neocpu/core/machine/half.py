"""Types of half precision in which weights are stored: their range, and what rounding costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Half:
    """``bits`` of a significand, the leading one included; ``largest`` finite number.

    ``dtype`` is TVM's name. ``widening``: vector instructions that make fp32 of a vector.
    ``features``: LLVM's, any of which brings these.
    """

    dtype: str
    bits: int
    largest: float
    widening: float
    features: tuple[str, ...]

    @property
    def rounding(self) -> float:
        """The max relative error of a number that is rounded to the nearest one: 2^-bits."""
        return 2.0**-self.bits


# vcvtph2ps is two operations on Zen and Intel, NEON's fcvtl and fcvtl2 are one for each vector.
FP16 = Half("float16", 11, 65504.0, 2.0, ("f16c", "avx512f", "neon"))
# Neighbours are moved apart, then to the top: vpmovzxwd and vpslld, or NEON's shll in one.
BF16 = Half("bfloat16", 8, 3.3895313892515355e38, 2.0, ("avx2", "avx512f", "neon"))
BY_DTYPE = {half.dtype: half for half in (FP16, BF16)}
HALVES = tuple(BY_DTYPE)


def halves_of(features: frozenset[str]) -> tuple[str, ...]:
    """The types whose vectors a CPU with LLVM's features widens."""
    return tuple(dtype for dtype, half in BY_DTYPE.items() if features & {*half.features})


def widening_of(dtype: str) -> float:
    """Instructions that make fp32 of a vector of weights of any type; 0 for most."""
    half = BY_DTYPE.get(dtype)
    return 0.0 if half is None else half.widening


def is_widened(dtype: str, halves: tuple[str, ...]) -> bool:
    """Whether a kernel reads weights of this type: those of half precision need instructions."""
    return dtype not in BY_DTYPE or dtype in halves
