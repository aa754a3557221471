"""The configuration space of the depthwise template and what the cost model says of it."""

from __future__ import annotations

import math

from tvm_neocpu.core.config import DepthwiseConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import factors
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.roofline import Work, seconds, vector_registers


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """One filter a channel: as many groups as input and output channels."""
    return conv.is_depthwise and conv.out_channels == conv.in_channels


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[DepthwiseConfig, ...]:
    """Channel factors up to four vectors, tiles of rows x columns, kernel unrolled or not."""
    widths = {w for w in (*factors(conv.out_width), 4, 6, 7, 8, 14) if w <= min(conv.out_width, 28)}
    return tuple(
        DepthwiseConfig(block, reg_n, unroll_ker, reg_m)
        for block in factors(conv.out_channels)
        if block <= 4 * cpu.lanes
        for reg_m in (1, 2, 4)
        if reg_m <= conv.out_height
        for reg_n in sorted(widths)
        if reg_m * reg_n * vector_registers(block, cpu) <= cpu.accumulators
        for unroll_ker in (True, False)
    )


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
    in_bytes, out_bytes = 4 * math.prod(conv.in_shape), 4 * math.prod(conv.out_shape)
    padding = (in_bytes / 4 / cpu.lanes * 3) if any(conv.padding) else 0
    cycles = rows * cols * blocks * per_tile + padding
    resident = in_bytes + out_bytes < 0.5 * cpu.l3
    moved = in_bytes + out_bytes
    return seconds(Work(cycles, blocks, moved, moved, 0 if resident else moved), cpu)
