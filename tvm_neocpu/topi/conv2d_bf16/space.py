"""The configuration space of the bf16 template: the direct one's, in blocks of whole words."""

from __future__ import annotations

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_direct.space import schedules
from tvm_neocpu.topi.conv2d_integer.space import word_blocks


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Everything but depthwise, on a CPU with the instruction."""
    return not conv.is_depthwise and cpu.bf16 is not None


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[Bf16Config, ...]:
    """All combinations of channel factors, tile sizes, unrolling and parallel axes that fit."""
    unit, dot = cpu.unit(conv.types.accumulator), cpu.bf16
    assert dot is not None, "only a CPU with the instruction has a space"
    temporaries = dot.temporaries

    def holds(pixels: int, vectors: int) -> bool:
        return pixels == 1 or unit.holds_tile(pixels, vectors, 1 + temporaries)

    return tuple(schedules(conv, cpu, word_blocks(conv, dot.elements), holds, Bf16Config))
