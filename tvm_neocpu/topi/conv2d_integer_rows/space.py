"""The configuration space of the row template: the integer one's of plain data."""

from __future__ import annotations

from functools import partial

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import schedules
from tvm_neocpu.topi.conv2d_integer.space import instruction, tiles_beside
from tvm_neocpu.topi.conv2d_integer_rows.geometry import ELEMENTS, ImageRowsConfig, saves_words


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """First convolutions whose rows take fewer words, where one instruction adds up a word.

    Not timed without such an instruction.
    """
    dot = instruction(conv, cpu)
    single = dot.elements == ELEMENTS and dot.words == 1 and dot.data == "uint8"
    return single and dot.temporaries == 0 and saves_words(conv)


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[ImageRowsConfig, ...]:
    """All combinations of tile sizes and parallel axes that fit; there are no columns to unroll."""
    holds = tiles_beside(instruction(conv, cpu), cpu.unit(conv.types.accumulator))
    made = schedules(conv, cpu, (0,), holds, partial(ImageRowsConfig, dot=ELEMENTS))
    return tuple(config for config in made if not config.unroll_ker)
