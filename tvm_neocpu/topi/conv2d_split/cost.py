"""What the cost model says of products of split data: the integer template's terms, a copy."""

from __future__ import annotations

import math

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import seconds_of
from tvm_neocpu.topi.conv2d_split.geometry import (
    AS_SMALL_AS,
    ELEMENTS,
    SUMS_AS_SMALL_AS,
    WORDS,
    SplitConfig,
    SplitGeometry,
)

# Cycles to split 32 bytes and to look for high parts, beside what a copy takes.
SPLIT_CYCLES = 8.0
# The share of blocks that have high parts (ResNet-50 and MobileNet-v2 behind ReLU: 0-3 %), and of
# those in which sums of four bytes do not fit (20-40 % and 1-5 % of blocks of 32 channels).
HIGH_SHARE, SINGLE_SHARE = 0.03, 0.2
# Scalar cycles for what a tile that begins at a pixel has, behind kernels of several taps.
WINDOW_CYCLES = 10.0


def predict_seconds(conv: ConvWorkload, config: SplitConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry = SplitGeometry(conv, config)
    share = min(cpu.cores, geometry.chunks)
    read = conv.in_bytes / (conv.stride[0] * conv.stride[1] if geometry.skips_pixels else 1)
    copied = SPLIT_CYCLES * read / 32
    if not geometry.flags_tiles:
        pixels = conv.batch * math.prod(geometry.copied_extent)
        copied += (WINDOW_CYCLES + config.reg_n) * pixels * geometry.in_blocks
    slower = SINGLE_SHARE * (_step_of_single_words(cpu) - 1)
    return seconds_of(geometry, cpu) * (1 + HIGH_SHARE + slower) + copied / share / (cpu.ghz * 1e9)


def _step_of_single_words(cpu: Cpu) -> float:
    """What a step takes whose words are not added in 16 bits, of a step whose words are."""
    single = cpu.dot_of(ELEMENTS, 1, AS_SMALL_AS)
    both = cpu.dot_of(ELEMENTS, WORDS, SUMS_AS_SMALL_AS)
    return WORDS * both.rate / single.rate
