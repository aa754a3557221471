"""The configuration space of the depthwise template and what the cost model says of it."""

from __future__ import annotations

import math

from tvm_neocpu.core.config import DepthwiseConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import factors, largest_factor
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.roofline import Work, seconds, vector_registers


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
    """Rows of tiles in a chunk: all, or a half where channel blocks alone leave a core idle."""
    rows = math.ceil(conv.out_height / reg_m)
    blocks = conv.batch * conv.out_channels // block
    halves = [f for f in factors(rows) if f < rows and rows // f <= 2 * cpu.cores]
    return (0, *halves) if blocks % cpu.cores and blocks < 8 * cpu.cores else (0,)


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
    per_tile = loads / cpu.load_per_cycle + spilled * taps + control + pixels * vectors + 8
    blocks = conv.batch * conv.out_channels // config.oc_bn
    row_chunks = rows // largest_factor(rows, config.oh_bn or rows)
    in_bytes, out_bytes = 4 * math.prod(conv.in_shape), 4 * math.prod(conv.out_shape)
    padding = (in_bytes / 4 / cpu.lanes * 3) if any(conv.padding) else 0
    # Repeated channels are gathered one by one.
    padding = padding if config.multiplier == 1 else 2 * config.multiplier * in_bytes / 4
    cycles = rows * cols * blocks * per_tile + padding
    resident = in_bytes + out_bytes < 0.5 * cpu.l3
    moved = in_bytes + out_bytes
    return seconds(Work(cycles, blocks * row_chunks, moved, moved, 0 if resident else moved), cpu)
