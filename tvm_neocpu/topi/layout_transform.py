"""What a layout transform costs when nobody measured it."""

from __future__ import annotations

import math

from tvm_neocpu.core.conv_graph import Shape4
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.topi.roofline import FORK_JOIN

# A transform's loads or stores are strided; it reaches this share of the streaming bandwidth.
STRIDED_EFFICIENCY = 0.35


def predict_transform_seconds(shape: Shape4, before: Layout, after: Layout, cpu: Cpu) -> float:
    """Seconds to store a (N, C, H, W) tensor in another layout; 0 where no element moves."""
    batch, channels, height, width = shape
    if max(before.block, 1) == max(after.block, 1) or height * width == 1:
        return 0.0
    moved = 2 * 4 * math.prod((batch, channels, height, width))
    resident = moved < 0.5 * cpu.l3
    bandwidth = cpu.l3_bytes_per_cycle if resident else cpu.dram_bytes_per_cycle
    cycles = moved / (bandwidth * STRIDED_EFFICIENCY) / cpu.cores
    return cycles / (cpu.ghz * 1e9) + FORK_JOIN
