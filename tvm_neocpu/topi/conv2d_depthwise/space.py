"""The configuration space of the depthwise template and what the cost model says of it."""

from __future__ import annotations

import math

from tvm_neocpu.core.config import DepthwiseConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import factors, largest_factor
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.cost.roofline import PANEL_SHARE, Work, seconds, vector_registers


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Filters over one input channel each: as many groups as there are."""
    return conv.is_depthwise


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[DepthwiseConfig, ...]:
    """Channel factors up to four vectors, tiles of pixels, chunks, kernel unrolled or not."""
    widths = {w for w in (*factors(conv.out_width), 4, 6, 7, 8, 14) if w <= min(conv.out_width, 28)}
    multiplier = conv.out_channels // conv.in_channels
    return tuple(
        DepthwiseConfig(block * multiplier, reg_n, unroll_ker, reg_m, oh_bn, multiplier)
        for block in factors(conv.in_channels)
        if block == 1 or block * multiplier <= 4 * cpu.lanes
        for reg_m in (1, 2, 4)
        if reg_m <= conv.out_height
        for reg_n in sorted(widths)
        if _fits(reg_m * reg_n, block * multiplier, cpu)
        for oh_bn in chunk_heights(conv, reg_m, block * multiplier, cpu)
        for unroll_ker in (True, False)
    )


def _fits(pixels: int, block: int, cpu: Cpu) -> bool:
    return pixels == 1 or pixels * vector_registers(block, cpu) <= cpu.accumulators


def chunk_heights(conv: ConvWorkload, reg_m: int, block: int, cpu: Cpu) -> tuple[int, ...]:
    """Rows of tiles in a chunk: all (0); so few that what a chunk pads stays in L1, or in L2.

    Fewer too where the blocks of channels alone would leave a core idle.
    """
    rows = math.ceil(conv.out_height / reg_m)
    parts = [f for f in factors(rows) if f < rows]
    found = {0}
    for cache in (cpu.l1 / 2, cpu.l2 / 4):
        small = [f for f in parts if padded_bytes(conv, reg_m * f, block) <= cache]
        if small and padded_bytes(conv, conv.out_height, block) > cache:
            found.add(small[-1])
    blocks = conv.batch * conv.out_channels // block
    if blocks % cpu.cores and blocks < 8 * cpu.cores:
        found |= {f for f in parts if rows // f <= 2 * cpu.cores}
    return tuple(sorted(found))


def padded_bytes(conv: ConvWorkload, out_rows: int, block: int) -> int:
    """Input of one block of channels for so many output rows, as the padding stage stores it."""
    _, left, _, right = conv.padding
    rows = (out_rows - 1) * conv.stride[0] + conv.dilation[0] * (conv.kernel[0] - 1) + 1
    return 4 * block * rows * (conv.width + left + right)


def predict_seconds(conv: ConvWorkload, config: DepthwiseConfig, cpu: Cpu) -> float:
    """Loads bound it: every tap reads a pixel vector; weights stay in registers while they fit."""
    vectors = vector_registers(config.oc_bn, cpu)
    taps = conv.kernel[0] * conv.kernel[1]
    rows = math.ceil(conv.out_height / config.reg_m)
    cols = math.ceil(conv.out_width / config.reg_n)
    pixels = config.reg_m * config.reg_n
    live = pixels * vectors + (taps * vectors if config.unroll_ker else vectors)
    spilled = max(0, pixels * vectors + vectors + 2 - cpu.isa.vector_registers // 2) * 0.5
    fmas = pixels * vectors * taps
    loads = fmas + (0 if live <= cpu.isa.vector_registers else taps * vectors)
    control = 0 if config.unroll_ker else 2 * taps
    per_tile = loads / cpu.load_per_cycle + spilled * taps + control + 1.0 * pixels * vectors + 6
    blocks = conv.batch * conv.out_channels // config.oc_bn
    chunk_rows = largest_factor(rows, config.oh_bn or rows)
    chunks = blocks * (rows // chunk_rows)
    cycles = rows * cols * blocks * per_tile
    in_bytes, out_bytes = 4 * math.prod(conv.in_shape), 4 * math.prod(conv.out_shape)
    from_l2 = float(in_bytes + out_bytes)
    # What the layer before wrote is still in L2 where it fits.
    from_l3 = from_l2 if from_l2 > PANEL_SHARE * cpu.l2 * cpu.cores else 0.0
    if any(conv.padding) or config.multiplier > 1:
        a_chunk = padded_bytes(conv, config.reg_m * chunk_rows, config.oc_bn)
        copied = float(a_chunk * chunks)
        # Repeated channels are gathered one by one.
        width = 4 * cpu.lanes if config.multiplier == 1 else 4
        cycles += 1.5 * copied / width
        from_l2 += copied if a_chunk > cpu.l1 / 2 else 0.0
        from_l3 += 2 * copied if a_chunk > PANEL_SHARE * cpu.l2 else 0.0
    resident = in_bytes + out_bytes < 0.5 * cpu.l3
    from_dram = 0.0 if resident else float(in_bytes + out_bytes)
    return seconds(Work(cycles, chunks, from_l2, from_l3, from_dram), cpu)
