"""The configuration space of layout transforms: one config."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload


def accepts(move: TransformWorkload, cpu: Cpu) -> bool:
    """Blocks that divide the channels."""
    return move.fits


def space(move: TransformWorkload, cpu: Cpu) -> tuple[TransformConfig, ...]:
    return (TransformConfig(),)
