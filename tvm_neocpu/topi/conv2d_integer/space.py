"""The configuration space of the integer template: the direct one's, for the CPU's instruction."""

from __future__ import annotations

from itertools import product

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import chunkings, in_blocks, out_blocks, register_tiles
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Everything but depthwise, which has no channels to put into a word."""
    return not conv.is_depthwise


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[IntegerConfig, ...]:
    """All combinations of channel factors, tile sizes, unrolling and parallel axes that fit."""
    unit, dot = cpu.unit(conv.types.accumulator), cpu.dot(conv.types)
    unroll = (True, False) if conv.kernel[1] > 1 else (True,)
    return tuple(
        IntegerConfig(
            ic_bn, oc_bn, reg_n, unroll_ker, reg_m, oh_bn, parallel_oc, oc_lanes, dot.elements
        )
        for oc_bn, oc_lanes in out_blocks(conv, cpu)
        for reg_m, reg_n in register_tiles(conv, cpu)
        if reg_m * reg_n == 1
        or unit.holds_tile(reg_m * reg_n, unit.registers_of(oc_lanes or oc_bn), 1 + dot.temporaries)
        for oh_bn, parallel_oc in chunkings(conv, reg_m, cpu)
        for ic_bn, unroll_ker in product(word_blocks(conv, dot.elements), unroll)
    )


def word_blocks(conv: ConvWorkload, elements: int) -> tuple[int, ...]:
    """Blocks of whole words, and plain NCHW; the widest block where no word divides the channels.

    Channels that fill up the last word of a block multiply zeros.
    """
    blocks = in_blocks(conv)
    whole = tuple(block for block in blocks if block % elements == 0)
    return whole if any(whole) else (*whole, blocks[-1])
