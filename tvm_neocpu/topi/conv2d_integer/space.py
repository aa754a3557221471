"""The configuration space of the integer template: the direct one's, for the CPU's instruction."""

from __future__ import annotations

from functools import partial

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import in_blocks, schedules
from tvm_neocpu.topi.conv2d_integer.geometry import SIGNED_BYTES, IntegerConfig


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Everything but depthwise, which has no channels to put into a word."""
    return not conv.is_depthwise


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[IntegerConfig, ...]:
    """All combinations of channel factors, tile sizes, unrolling and parallel axes that fit."""
    unit, dot = cpu.unit(conv.types.accumulator), cpu.dot(conv.types)
    blocks, make = word_blocks(conv, dot.elements), partial(IntegerConfig, dot=dot.elements)
    if dot.data == SIGNED_BYTES:
        make = partial(make, signed=True)

    def holds(pixels: int, vectors: int) -> bool:
        return pixels == 1 or unit.holds_tile(pixels, vectors, 1 + dot.temporaries)

    return tuple(schedules(conv, cpu, blocks, holds, make))


def word_blocks(conv: ConvWorkload, elements: int) -> tuple[int, ...]:
    """Blocks of whole words, and plain NCHW; the widest block where no word divides the channels.

    Channels that fill up the last word of a block multiply zeros.
    """
    blocks = in_blocks(conv)
    whole = tuple(block for block in blocks if block % elements == 0)
    return whole if any(whole) else (*whole, blocks[-1])
