"""What moving a convolution's maps, or copying one, costs beside it."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload


def moving_seconds(conv: ConvWorkload, bytes_per_cycle: float, cpu: Cpu) -> float:
    """Seconds of a pass over its input and its output, at so many bytes a cycle and core."""
    return (conv.in_bytes + conv.out_bytes) / bytes_per_cycle / cpu.cores / (cpu.ghz * 1e9)


# Bytes of maps that a core moves in a cycle while they stay in L2, and where they do not.
NEAR_BYTES_PER_CYCLE, FAR_BYTES_PER_CYCLE = 16.0, 4.0


def copying_seconds(workload: Workload, cpu: Cpu) -> float:
    """Seconds of a pass over the first operand that writes as much as it reads."""
    data = workload.operands[0]
    size = math.prod(data.shape) * item_bytes(data.dtype)
    rate = NEAR_BYTES_PER_CYCLE if size <= cpu.l2 else FAR_BYTES_PER_CYCLE
    forked = cpu.fork_join if cpu.cores > 1 else 0.0
    return 2 * size / rate / cpu.cores / (cpu.ghz * 1e9) + forked


__all__ = ["copying_seconds", "moving_seconds"]
