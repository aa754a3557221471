"""What the cost model says of products of split data: the integer template's terms, a copy."""

from __future__ import annotations

import math

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.dot import PAIRS_FIT
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import seconds_of
from tvm_neocpu.topi.conv2d_split.geometry import (
    ELEMENTS,
    WORDS,
    SplitConfig,
    SplitGeometry,
    product,
)

# Cycles to split 32 bytes and to look for high parts, beside what a copy takes.
SPLIT_CYCLES = 8.0
# The share of blocks that have high parts (ResNet-50 and MobileNet-v2 behind ReLU: 0-3 %).
HIGH_SHARE = 0.03
# The share of blocks in which a sum of four bytes does not fit (blocks of 32 channels behind ReLU:
# 20-40 % in ResNet-50, 1-5 % in MobileNet-v2).
SINGLE_SHARE = 0.2
# Kernels of several taps: scalar cycles for the largest sum of a pixel. A tile that begins there
# compares reg_n of these, a cycle each.
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
    """The time of a step that widens each word, over that of one that adds both in 16 bits."""
    single = cpu.dot_of(ELEMENTS, 1, PAIRS_FIT)
    return WORDS * product(cpu).rate / single.rate
