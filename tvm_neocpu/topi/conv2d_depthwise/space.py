"""The configuration space of the depthwise template."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig, padded_bytes

# A pixel vector is multiplied from memory: no register holds it.
STREAMED = 0


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Filters over one input channel each: as many groups as there are."""
    return conv.is_depthwise


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[DepthwiseConfig, ...]:
    """Channel factors up to four vectors, tiles of pixels, chunks, kernel unrolled or not."""
    unit = cpu.unit(conv.types.accumulator)
    widest = min(conv.out_width, unit.max_pixels)
    widths = {w for w in (*factors(conv.out_width), 4, 6, 7, 8, 14) if w <= widest}

    def holds(pixels: int, channels: int) -> bool:
        return unit.holds_tile(pixels, unit.registers_of(channels), STREAMED)

    return tuple(
        DepthwiseConfig(ic_bn, oc_bn, reg_n, unroll_ker, reg_m, oh_bn, reg_c)
        for ic_bn, oc_bn in blocks(conv, cpu)
        for reg_c in tile_channels(oc_bn, unit)
        for reg_m in (1, 2, 4)
        if reg_m <= conv.out_height
        for reg_n in sorted(widths)
        if reg_m * reg_n == 1 or holds(reg_m * reg_n, reg_c or oc_bn)
        for oh_bn in chunk_heights(conv, reg_m, oc_bn, cpu)
        for unroll_ker in (True, False)
    )


def blocks(conv: ConvWorkload, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(ic_bn, oc_bn): factors of the input channels, whose outputs take up to four vectors."""
    widest = 4 * cpu.lanes(conv.types.accumulator)
    pairs = [(f, f * conv.multiplier) for f in factors(conv.in_channels)]
    return tuple((f, outputs) for f, outputs in pairs if f == 1 or outputs <= widest)


def tile_channels(oc_bn: int, unit: VectorUnit) -> tuple[int, ...]:
    """Channels of a register tile: all of a block (0), or a vector of them.

    Tiles of fewer channels have more pixels, which share weights: 16 registers hold 7 pixels x 8
    channels, or 2 pixels x 24.
    """
    lanes = unit.full_rate_lanes if oc_bn % unit.lanes else unit.lanes
    return (0,) if oc_bn % lanes or oc_bn == lanes else (0, lanes)


def chunk_heights(conv: ConvWorkload, reg_m: int, oc_bn: int, cpu: Cpu) -> tuple[int, ...]:
    """Rows of tiles in a chunk: all (0); so few that what a chunk reads stays in L1, or in L2.

    Fewer too where the blocks of channels alone would leave a core idle.
    """
    rows = math.ceil(conv.out_height / reg_m)
    parts = [f for f in factors(rows) if f < rows]
    found = {0}
    for cache in (cpu.l1 / 2, cpu.l2 / 4):
        small = [f for f in parts if padded_bytes(conv, reg_m * f, oc_bn) <= cache]
        if small and padded_bytes(conv, conv.out_height, oc_bn) > cache:
            found.add(small[-1])
    return tuple(sorted(found | heights_for_cores(conv, rows, oc_bn, cpu)))


def heights_for_cores(conv: ConvWorkload, rows: int, oc_bn: int, cpu: Cpu) -> set[int]:
    """Chunk heights, factors of ``rows``, for workloads whose blocks alone leave a core idle."""
    count = conv.batch * conv.out_channels // oc_bn
    if count % cpu.cores == 0 or count >= 8 * cpu.cores:
        return set()
    return {f for f in factors(rows) if f < rows and rows // f <= 2 * cpu.cores}
