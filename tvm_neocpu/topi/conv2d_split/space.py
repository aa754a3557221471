"""The configuration space of products of split data."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import ANY_WEIGHTS, PAIRS_FIT
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import in_blocks, schedules
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig, misfit, temporaries_of

# Narrower blocks are copied in part of a vector; C has to be a multiple of the least.
BLOCKS = (8, 16, 32, 64)
# Data around a larger zero point have high parts all over.
MAX_ZERO = 32


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Any int8 weights, where small ones would be multiplied faster."""
    if conv.types != U8S8 or conv.weight_bits != ANY_WEIGHTS or conv.pad_value > MAX_ZERO:
        return False
    if conv.groups != 1:
        return False
    return gains_on(cpu) and conv.in_channels % min(BLOCKS) == 0


def gains_on(cpu: Cpu) -> bool:
    """Whether small weights are multiplied faster; with VNNI all are multiplied at one rate."""
    return cpu.dot(U8S8, PAIRS_FIT) != cpu.dot(U8S8)


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[SplitConfig, ...]:
    """All combinations of channel factors, tile sizes and parallel axes that fit."""
    unit = cpu.unit(conv.types.accumulator)
    blocks = [block for block in in_blocks(conv) if block in BLOCKS]

    def holds(pixels: int, vectors: int) -> bool:
        return unit.holds_tile(pixels, vectors, 1 + temporaries_of(vectors, cpu)) or pixels == 1

    found = schedules(conv, cpu, blocks, holds, SplitConfig)
    return tuple(config for config in found if misfit(conv, config) is None)
