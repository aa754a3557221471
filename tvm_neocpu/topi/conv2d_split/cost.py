"""What the cost model says of products of split data: the integer template's terms, a copy."""

from __future__ import annotations

import math
from functools import partial

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import PAIRS_FIT
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import pricing_of
from tvm_neocpu.topi.conv2d_split.geometry import (
    ELEMENTS,
    WORDS,
    SplitConfig,
    SplitGeometry,
    product,
)
from tvm_neocpu.topi.operator import Price

# Cycles to split a vector of bytes, and to look for what does not fit, beside what a copy takes.
SPLIT_CYCLES = 8.0
# Of a step's 8 channels of a pixel: the share whose words cannot be added in 16 bits, and that has
# a high part. A tile of 7 pixels x 8 channels has 10 % and 1 % then. (ResNet-50's third stage: 5-16
# and 0.2-2 %, in blocks of 64 channels 41-72 and 2-9 %; MobileNet-v2 has fewer.)
SINGLE_SHARE, HIGH_SHARE = 0.015, 0.0015
# A block's test and its loop (Zen 3, data that all fit: blocks of 8 channels take 1.00-1.04 times
# what those of 64 take, of 13 cycles a step).
BLOCK_CYCLES = 0.4
# Kernels of several taps: scalar cycles for the largest sum of a pixel. A tile that begins there
# compares reg_n of these, a cycle each.
WINDOW_CYCLES = 10.0


def predict_seconds(conv: ConvWorkload, config: SplitConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    return pricing(conv, cpu)(config)


def pricing(conv: ConvWorkload, cpu: Cpu) -> Price:
    """:func:`predict_seconds` for many configs."""
    of_low_parts = pricing_of(partial(SplitGeometry, conv), cpu, copies_blocks=True)

    def price(config: SplitConfig, limit: float = math.inf, /) -> float:
        low = of_low_parts(config, limit)
        if low > limit:
            return math.inf
        geometry = SplitGeometry(conv, config)
        return low * _slower(geometry, cpu) + _seconds_around(geometry, cpu)

    return price


def _seconds_around(geometry: SplitGeometry, cpu: Cpu) -> float:
    """What the copy takes, and the tests of the blocks."""
    tests = math.prod(geometry.tiles) * geometry.out_blocks * geometry.blocks_of_tile
    cycles = _copy_cycles(geometry, cpu) + geometry.conv.batch * tests * BLOCK_CYCLES
    return cycles / min(cpu.cores, geometry.chunks) / (cpu.ghz * 1e9)


def _slower(geometry: SplitGeometry, cpu: Cpu) -> float:
    """The time of all steps over that of steps whose words are added in 16 bits.

    One number says what all channels of a block need: the wider it is, the less often it all fits.
    """
    config = geometry.config
    sums = config.reg_m * config.reg_n * geometry.inner_steps
    single, high = (1 - (1 - share) ** sums for share in (SINGLE_SHARE, HIGH_SHARE))
    return 1 + high + single * (_step_of_single_words(cpu) - 1)


def _copy_cycles(geometry: SplitGeometry, cpu: Cpu) -> float:
    """Cycles of what reads the data before they are multiplied."""
    conv, config = geometry.conv, geometry.config
    read = conv.in_bytes / (conv.stride[0] * conv.stride[1] if geometry.skips_pixels else 1)
    # A pair has as many bits as a lane: narrow blocks fill a part of a vector.
    bytes_at_once = WORDS * min(geometry.pairs, cpu.lanes("uint16"))
    copied = SPLIT_CYCLES * read / bytes_at_once
    if not geometry.flags_tiles:
        pixels = conv.batch * math.prod(geometry.copied_extent)
        copied += (WINDOW_CYCLES + config.reg_n) * pixels * geometry.in_blocks
    return copied


def _step_of_single_words(cpu: Cpu) -> float:
    """The time of a step that widens each word, over that of one that adds both in 16 bits."""
    single = cpu.dot_of(ELEMENTS, 1, PAIRS_FIT)
    return WORDS * product(cpu).rate / single.rate
