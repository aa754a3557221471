"""What a layout transform moves at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.topi.layout_transform.workload import TransformWorkload


@dataclass(frozen=True, order=True)
class TransformConfig:
    """A layout transform has one schedule: its widest contiguous run of channels is a vector."""

    template: ClassVar[str] = "layout_transform"


def contiguous_run(move: TransformWorkload) -> int:
    """Channels that lie side by side before and after; 0 where the result is plain NCHW."""
    return math.gcd(move.before, move.after) if move.before and move.after else move.after
