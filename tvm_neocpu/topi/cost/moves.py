"""What moving a convolution's maps costs beside it."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload


def moving_seconds(conv: ConvWorkload, bytes_per_cycle: float, cpu: Cpu) -> float:
    """Seconds of a pass over its input and its output, at so many bytes a cycle and core."""
    return (conv.in_bytes + conv.out_bytes) / bytes_per_cycle / cpu.cores / (cpu.ghz * 1e9)


__all__ = ["moving_seconds"]
