"""What layout transforms cost: measured where a log has it, else interpolated by bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import Shape4
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.record import Record, best_seconds
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

# Schemes slower than this share of a convolution's best do not decide which transforms to time.
PLAUSIBLE = 1.25

# (out of blocks, into blocks).
Kind: TypeAlias = tuple[bool, bool]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class TransformCosts:
    """A price for every transform; called with (shape, before, after, dtype), returns seconds."""

    cpu: Cpu
    measured: Mapping[TransformWorkload, float] = field(default_factory=dict)

    @classmethod
    def from_records(cls, cpu: Cpu, records: Mapping[Workload, Sequence[Record]]) -> TransformCosts:
        return cls(cpu, best_seconds(records, TransformWorkload))

    def __call__(
        self, shape: Shape4, before: Layout, after: Layout, dtype: str = "float32"
    ) -> float:
        move = TransformWorkload(*shape, before.block, after.block, uniform(dtype))
        if move.is_free:
            return 0.0
        if move in self.measured:
            return self.measured[move]
        return self._predicted(move) * self._correction(move)

    def _correction(self, move: TransformWorkload) -> float:
        """Measured over predicted, between those of the transforms next in bytes of its kind.

        Outside the measured sizes the correction is that of the nearest one.
        """
        if _kind(move) not in self._corrections:
            return 1.0
        sizes, factors = self._corrections[_kind(move)]
        return float(np.exp(np.interp(np.log(move.min_bytes), sizes, factors)))

    @cached_property
    def _corrections(self) -> dict[Kind, tuple[Floats, Floats]]:
        """By kind, logarithms of the measured sizes, ascending, and of the mean factor at each."""
        factors: dict[Kind, dict[int, list[float]]] = {}
        for move, seconds in self.measured.items():
            at = factors.setdefault(_kind(move), {}).setdefault(move.min_bytes, [])
            at.append(log(seconds / self._predicted(move)))
        return {
            kind: (np.log(sorted(by_size)), np.array([fmean(by_size[n]) for n in sorted(by_size)]))
            for kind, by_size in factors.items()
        }

    def _predicted(self, move: TransformWorkload) -> float:
        return predict_seconds(move, TransformConfig(), self.cpu)


def _kind(move: TransformWorkload) -> Kind:
    """Between blocks vectors move; into or out of plain NCHW single elements do."""
    return bool(move.before), bool(move.after)
