"""What sweeps cost (pools, concats that copy, means): measured where a log has it, else predicted.

The cost model's seconds are scaled by what the measured ones of the same kind took of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, log
from statistics import fmean
from typing import TypeAlias

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import GraphNode, Sweep
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.record import Record, best_seconds
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.topi.table import find_implementation

# (what it does, whether channels are blocked).
Kind: TypeAlias = tuple[str, bool]


@dataclass(frozen=True)
class SweepCosts:
    """A price for what runs at a node beside its template, in seconds."""

    cpu: Cpu
    measured: Mapping[SweepWorkload, float] = field(default_factory=dict)

    @classmethod
    def from_records(cls, cpu: Cpu, records: Mapping[Workload, Sequence[Record]]) -> SweepCosts:
        return cls(cpu, best_seconds(records, SweepWorkload))

    def __call__(
        self, node: GraphNode, reads: Layout, writes: Layout, config: Config | None
    ) -> float:
        """Seconds of a node's sweeps, where it reads and writes these layouts.

        What it reads through costs nothing more where the config's template computes it as it
        reads: that is in the template's own time.
        """
        seconds = sum(self.price(sweep, writes) for sweep in node.sweeps)
        if node.read_sweeps and not _takes_prologue(config):
            seconds += sum(self.price(sweep, reads) for sweep in node.read_sweeps)
        return seconds

    def price(self, sweep: Sweep, layout: Layout) -> float:
        """Seconds of one sweep in a layout."""
        workload = SweepWorkload.of(sweep, layout)
        if workload in self.measured:
            return self.measured[workload]
        return self._predicted(workload) * self._corrections.get(_kind(workload), 1.0)

    @cached_property
    def _corrections(self) -> dict[Kind, float]:
        """Measured over predicted, the geometric mean of each kind."""
        factors: dict[Kind, list[float]] = {}
        for sweep, seconds in self.measured.items():
            factors.setdefault(_kind(sweep), []).append(log(seconds / self._predicted(sweep)))
        return {kind: exp(fmean(found)) for kind, found in factors.items()}

    def _predicted(self, sweep: SweepWorkload) -> float:
        return predict_seconds(sweep, SweepConfig(), self.cpu)


def _kind(sweep: SweepWorkload) -> Kind:
    return sweep.kind, bool(sweep.block)


def _takes_prologue(config: Config | None) -> bool:
    entry = None if config is None else find_implementation(config.template)
    return entry is not None and entry.takes_prologue
