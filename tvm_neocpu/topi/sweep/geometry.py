"""How much of a sweep one instruction takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.topi.sweep.workload import SweepWorkload


@dataclass(frozen=True, order=True)
class SweepConfig:
    """A sweep has one schedule, which TVM's passes or ours of whole functions give it."""

    template: ClassVar[str] = "sweep"


def contiguous_run(sweep: SweepWorkload, lanes: int) -> int:
    """Elements side by side that one instruction of ``lanes`` takes.

    A copy moves rows, which are contiguous in every layout. A window reads the channels of a block
    at once; in plain NCHW a stride or a border tears the pixels of a row apart.
    """
    return lanes if sweep.kind == "move" else min(lanes, max(1, sweep.block))
