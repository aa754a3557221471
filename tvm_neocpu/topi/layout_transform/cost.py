"""What a layout transform costs unmeasured."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.cost.roofline import streamed_bytes_per_cycle
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

# A transform to or from plain NCHW loads or stores element by element; one between blocks moves
# whole vectors. Shares of the streaming bandwidth that they reach.
STRIDED, CONTIGUOUS = 0.15, 0.7


def predict_seconds(move: TransformWorkload, config: TransformConfig, cpu: Cpu) -> float:
    """Bytes over the bandwidth of the level that holds the tensor; 0 where no element moves."""
    if move.is_free:
        return 0.0
    bandwidth = streamed_bytes_per_cycle(move.min_bytes, cpu)
    share = CONTIGUOUS if move.before and move.after else STRIDED
    return move.min_bytes / (bandwidth * share) / (cpu.ghz * 1e9) + cpu.fork_join
