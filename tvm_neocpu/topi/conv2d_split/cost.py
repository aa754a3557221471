"""What the cost model says of products of split data: the integer template's terms, a copy."""

from __future__ import annotations

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import seconds_of
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig, SplitGeometry

# Cycles to split 32 bytes and to look for high parts, beside what a copy takes.
SPLIT_CYCLES = 8.0
# The share of blocks that have high parts (ResNet-50 and MobileNet-v2 behind ReLU: 0-3 %).
HIGH_SHARE = 0.03


def predict_seconds(conv: ConvWorkload, config: SplitConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry = SplitGeometry(conv, config)
    share = min(cpu.cores, geometry.chunks)
    read = conv.in_bytes / (conv.stride[0] * conv.stride[1])
    split = SPLIT_CYCLES * read / 32 / share / (cpu.ghz * 1e9)
    return seconds_of(geometry, cpu) * (1 + HIGH_SHARE) + split
