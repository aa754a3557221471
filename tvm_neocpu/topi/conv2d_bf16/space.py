"""The configuration space of the bf16 template: the direct one's, in blocks of whole words."""

from __future__ import annotations

from collections.abc import Callable

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_direct.space import blocks_of, part_of_schedules, schedules
from tvm_neocpu.topi.conv2d_integer.space import tiles_beside, word_blocks
from tvm_neocpu.topi.operator import Blocks


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Everything but depthwise, on a CPU with the instruction."""
    return not conv.is_depthwise and cpu.bf16 is not None


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[Bf16Config, ...]:
    """All combinations of channel factors, tile sizes, unrolling and parallel axes that fit."""
    return tuple(schedules(conv, cpu, *_blocks_and_tiles(conv, cpu), Bf16Config))


def blocks(conv: ConvWorkload, cpu: Cpu) -> Blocks:
    """The blocks of channels (read, written) of the space, which has all pairs of them."""
    return blocks_of(conv, cpu, *_blocks_and_tiles(conv, cpu))


def part_of_space(conv: ConvWorkload, cpu: Cpu, wanted: Blocks) -> tuple[Bf16Config, ...]:
    """The configs of the space whose blocks are among those wanted, in its order."""
    return tuple(part_of_schedules(conv, cpu, *_blocks_and_tiles(conv, cpu), Bf16Config, wanted))


def _blocks_and_tiles(
    conv: ConvWorkload, cpu: Cpu
) -> tuple[tuple[int, ...], Callable[[int, int], bool]]:
    """Blocks of input channels, and whether a tile is offered."""
    unit, dot = cpu.unit(conv.types.accumulator), cpu.bf16
    assert dot is not None, "only a CPU with the instruction has a space"
    return word_blocks(conv, dot.elements), tiles_beside(dot, unit)
