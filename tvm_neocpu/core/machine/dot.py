"""Instructions that multiply narrow types: each lane of an accumulator adds a short dot product.

acc[lane] += sum over k < elements of data[k] * weight[lane, k]

Every one of integers is exact. The 16-bit sums of x86's ``vpmaddubsw`` saturate: it is used only
where weights are known to be so small that no sum does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_neocpu.core.types import Types, item_bytes

# Bits of an accumulator, and of the word of data that is broadcast to the lanes.
WORD_BITS = 32
WORD_BYTES = WORD_BITS // 8
# What uint8 data become where an instruction multiplies signed bytes only.
SIGNED_BYTES = "int8"
# Bits of int8 weights of which nothing more is known.
ANY_WEIGHTS = 8
# Of those with which sums of two products with bytes, and sums of four, always fit 16 bits.
PAIRS_FIT, FOURS_FIT = 7, 6


@dataclass(frozen=True, order=True)
class DotProduct:
    """One such instruction, or the few that stand in for it.

    A lane is 32 bits: ``elements`` of type ``data`` (as they are multiplied: int16 if uint8 data
    have to be widened, int8 if 128 is subtracted from them) times as many of type ``weight``.
    ``rate``: how many are issued for each multiply-add of fp32 vectors. ``temporaries``: registers
    that a step needs beside its tile. ``widths``: the bits of the vectors that the instruction
    exists for. ``words``: how many words it adds up in 16 bits before it widens the sum.
    ``accumulator`` is what it sums in. ``weight_bits``: it is exact for weights as small as those
    of so many bits (:mod:`tvm_neocpu.topi.conv2d_integer.small_weights`).
    """

    name: str
    elements: int
    data: str
    weight: str
    rate: float = 1.0
    temporaries: int = 0
    widths: tuple[int, ...] = ()
    words: int = 1
    weight_bits: int = ANY_WEIGHTS
    accumulator: str = "int32"

    @property
    def products(self) -> float:
        """Products that a lane adds for each multiply-add of fp32 vectors."""
        return self.elements * self.rate

    def multiplies(self, types: Types, weight_bits: int = ANY_WEIGHTS) -> bool:
        """Whether a workload's operands fit into the types that it multiplies, once widened."""
        if self.accumulator != "int32":
            return types.accumulator == self.accumulator and types.weight == self.weight
        if types.accumulator != "int32" or types.data != "uint8":
            return False
        if weight_bits > self.weight_bits:
            return False
        return types.weight == "int8" or types.weight == self.weight


# Plain arithmetic that any CPU has: the shapes of the instructions without them.
PORTABLE_4 = DotProduct("dot4", 4, "uint8", "int8", 0.25)
PORTABLE_2 = DotProduct("dot2", 2, "int16", "int16", 0.5)
PORTABLE_SIGNED_4 = DotProduct("dot4", 4, "int8", "int8", 0.25)
PORTABLE = (PORTABLE_4, PORTABLE_2, PORTABLE_SIGNED_4)
# Pairs of bf16 by plain arithmetic: for tests on CPUs without the instruction.
PORTABLE_BF16 = DotProduct("bf16", 2, "bfloat16", "bfloat16", 0.3, 2, accumulator="float32")

VPDPBUSD = DotProduct("vpdpbusd", 4, "uint8", "int8", 1.0, 0, (128, 256, 512))
VPDPBUSD_VEX = DotProduct("vpdpbusd", 4, "uint8", "int8", 1.0, 0, (128, 256))
# Half as many products as vpdpbusd makes, but of 16 bits; its sums wrap.
VPDPWSSD = DotProduct("vpdpwssd", 2, "int16", "int16", 1.0, 0, (128, 256, 512))
VPDPWSSD_VEX = DotProduct("vpdpwssd", 2, "int16", "int16", 1.0, 0, (128, 256))
# A product and a sum. Zen 3 issues two products a cycle, but the sums take their ports too: 12 of
# both take 7.4 cycles, 12 multiply-adds 6. Intel has 2 ports for both in 512 bits, 3 below.
VPMADDWD_512 = DotProduct("vpmaddwd", 2, "int16", "int16", 0.5, 1, (128, 256, 512))
VPMADDWD = DotProduct("vpmaddwd", 2, "int16", "int16", 0.8, 1, (128, 256))
PMADDWD = DotProduct("vpmaddwd", 2, "int16", "int16", 0.8, 1, (128,))
# Pairs of bytes are summed in 16 bits, then these sums in 32: three instructions a word, five for
# two words. Zen 3: two products a cycle, but additions take their ports too: 12 take 13 cycles, and
# 12 of two words 23, where 12 multiply-adds take 6. Intel's two ports for 512 bits do the same.
VPMADDUBSW_512 = DotProduct(
    "vpmaddubsw", 4, "uint8", "int8", 0.33, 2, (128, 256, 512), 1, PAIRS_FIT
)
VPMADDUBSW = DotProduct("vpmaddubsw", 4, "uint8", "int8", 0.46, 2, (128, 256), 1, PAIRS_FIT)
VPMADDUBSW_TWICE_512 = replace(VPMADDUBSW_512, rate=0.2, words=2, weight_bits=FOURS_FIT)
VPMADDUBSW_TWICE = replace(VPMADDUBSW, rate=0.26, words=2, weight_bits=FOURS_FIT)
# Words of bytes, taken apart for two of these: slower, but of weights that are half as large.
BYTES_BY_VPMADDWD_512 = DotProduct("bytes", 4, "uint8", "int8", 0.2, 3, (256, 512))
BYTES_BY_VPMADDWD = DotProduct("bytes", 4, "uint8", "int8", 0.3, 3, (256,))
# NEON multiplies bytes of different signs since Armv8.6. LLVM broadcasts some words ahead; tiles of
# 14 x 2 accumulators leave no register for them (A76, sdot: a move for each product; 13 x 2: none).
USDOT = DotProduct("usdot", 4, "uint8", "int8", 1.0, 2, (128,))
# Its older one (Armv8.2) wants both signed: the copy of the data subtracts 128, and each output
# channel's sum is corrected by 128 times the sum of its weights.
SDOT = DotProduct("sdot", 4, "int8", "int8", 1.0, 2, (128,))
# Two instructions a word, one for each half; a vector of weights is two registers, of one half each
# (of tiles of one and two vectors all, of wider ones the first).
SMLAL = DotProduct("smlal", 2, "int16", "int16", 0.5, 2, (128,))

# Two products of bf16, summed in fp32; as many a cycle as there are multiply-adds (Zen 4, measured:
# twice the products). It takes subnormal numbers for zeros.
VDPBF16PS = DotProduct(
    "vdpbf16ps", 2, "bfloat16", "bfloat16", 1.0, 0, (128, 256, 512), accumulator="float32"
)
# NEON's (Armv8.6, Armv9): as many a cycle as multiply-adds on Neoverse N2 and V2 (Arm's guides). It
# needs as many registers beside its tile as other products of broadcast words.
BFDOT = DotProduct("bfdot", 2, "bfloat16", "bfloat16", 1.0, 2, (128,), accumulator="float32")

# LLVM's feature, and what it brings; a CPU uses the first that multiplies a workload's types.
BY_FEATURE: tuple[tuple[str, DotProduct], ...] = (
    ("avx512vnni", VPDPBUSD),
    ("avxvnni", VPDPBUSD_VEX),
    ("avx512vnni", VPDPWSSD),
    ("avxvnni", VPDPWSSD_VEX),
    ("avx512bw", VPMADDUBSW_TWICE_512),
    ("avx512bw", VPMADDUBSW_512),
    ("avx512bw", VPMADDWD_512),
    ("avx2", VPMADDUBSW_TWICE),
    ("avx2", VPMADDUBSW),
    ("avx2", VPMADDWD),
    ("sse2", PMADDWD),
    ("avx512bw", BYTES_BY_VPMADDWD_512),
    ("avx2", BYTES_BY_VPMADDWD),
    ("i8mm", USDOT),
    ("dotprod", SDOT),
    ("neon", SMLAL),
    ("avx512bf16", VDPBF16PS),
    ("bf16", BFDOT),
)


def word_elements(types: Types) -> int:
    """Elements of a word of weights: 4 of int8, 2 of bf16."""
    return WORD_BYTES // item_bytes(types.weight)


def dots_of(features: frozenset[str]) -> tuple[DotProduct, ...]:
    """What a CPU with LLVM's features multiplies with, the fastest first; never empty."""
    found = [dot for feature, dot in BY_FEATURE if feature in features]
    return (*found, PORTABLE_2)
