"""The configuration space of the integer template: the direct one's, for the CPU's instruction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.core.machine.dot import SIGNED_BYTES, DotProduct
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import (
    blocks_of,
    in_blocks,
    part_of_schedules,
    schedules,
)
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.operator import Blocks


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Everything but depthwise, which has no channels to put into a word."""
    return not conv.is_depthwise


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[IntegerConfig, ...]:
    """All combinations of channel factors, tile sizes, unrolling and parallel axes that fit."""
    return tuple(schedules(conv, cpu, *_blocks_and_tiles(conv, cpu), _maker(conv, cpu)))


def blocks(conv: ConvWorkload, cpu: Cpu) -> Blocks:
    """The blocks of channels (read, written) of the space, which has all pairs of them."""
    return blocks_of(conv, cpu, *_blocks_and_tiles(conv, cpu))


def part_of_space(conv: ConvWorkload, cpu: Cpu, wanted: Blocks) -> tuple[IntegerConfig, ...]:
    """The configs of the space whose blocks are among those wanted, in its order."""
    offered = _blocks_and_tiles(conv, cpu)
    return tuple(part_of_schedules(conv, cpu, *offered, _maker(conv, cpu), wanted))


def _blocks_and_tiles(
    conv: ConvWorkload, cpu: Cpu
) -> tuple[tuple[int, ...], Callable[[int, int], bool]]:
    """Blocks of input channels, and whether a tile is offered."""
    unit, dot = cpu.unit(conv.types.accumulator), instruction(conv, cpu)
    return word_blocks(conv, dot.elements * dot.words), tiles_beside(dot, unit)


def _maker(conv: ConvWorkload, cpu: Cpu) -> Callable[..., IntegerConfig]:
    dot = instruction(conv, cpu)
    signed = dot.data == SIGNED_BYTES
    return partial(IntegerConfig, dot=dot.elements, words=dot.words, signed=signed)


def tiles_beside(dot: DotProduct, unit: VectorUnit) -> Callable[[int, int], bool]:
    """Whether a tile of (pixels, vectors) is offered: the registers of a step have room beside it.

    A tile of one pixel is always offered.
    """

    def holds(pixels: int, vectors: int) -> bool:
        return pixels == 1 or unit.holds_tile(pixels, vectors, 1 + dot.temporaries)

    return holds


def instruction(conv: ConvWorkload, cpu: Cpu) -> DotProduct:
    """The fastest; one that takes two words a step only where blocks have two."""
    best = cpu.dot(conv.types, conv.weight_bits)
    step = best.elements * best.words
    if best.words > 1 and (conv.reads_plain or conv.in_channels // conv.groups % step):
        return cpu.dot_of(best.elements, 1, conv.weight_bits)
    return best


def word_blocks(conv: ConvWorkload, elements: int) -> tuple[int, ...]:
    """Blocks of whole words, and plain NCHW; the widest block where no word divides the channels.

    Channels that fill up the last word of a block multiply zeros.
    """
    blocks = in_blocks(conv)
    whole = tuple(block for block in blocks if block % elements == 0)
    return whole if any(whole) else (*whole, blocks[-1])
