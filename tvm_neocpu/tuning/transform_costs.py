"""What layout transforms cost: measured where a log has it, else interpolated by bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import log
from statistics import fmean
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.core.candidate import Candidate, layouts_of
from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode, Shape4
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import NCHW, Layout
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import Workload
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
    """A price for every transform; called with (shape, before, after), returns seconds."""

    cpu: Cpu
    measured: Mapping[TransformWorkload, float] = field(default_factory=dict)

    @classmethod
    def from_records(cls, cpu: Cpu, records: Mapping[Workload, Sequence[Record]]) -> TransformCosts:
        seconds = {
            workload: found[0].seconds
            for workload, found in records.items()
            if isinstance(workload, TransformWorkload) and found and found[0].ok
        }
        return cls(cpu, seconds)

    def __call__(self, shape: Shape4, before: Layout, after: Layout) -> float:
        move = TransformWorkload(*shape, before.block, after.block)
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


def transforms_of(
    graph: ConvGraph, candidates: Mapping[Workload, Sequence[Candidate]]
) -> tuple[TransformWorkload, ...]:
    """The transforms that plausible schemes on both ends of some edge would ask for, once each."""
    layouts = {node.id: _plausible(node, candidates) for node in graph.nodes}
    for join in graph.joins:
        near = [layouts[id] for id in graph.neighbours[join] if id not in graph.joins]
        around = {layout for reads, writes in near for layout in reads | writes}
        layouts[join] = (around, around)
    found: dict[TransformWorkload, None] = {}
    for edge in graph.edges:
        _, writes = layouts[edge.src]
        reads, _ = layouts[edge.dst]
        for before, after in sorted(product(writes, reads)):
            found[TransformWorkload(*edge.shape, before.block, after.block)] = None
    return tuple(move for move in found if not move.is_free and _fits(move))


def transforms_in(graph: ConvGraph, plan: Plan) -> tuple[TransformWorkload, ...]:
    """The transforms that a plan pays for, once each."""
    shapes: dict[tuple[str, str], Shape4] = {}
    found: dict[TransformWorkload, None] = {}
    for edge in graph.edges:
        # Consumers of one tensor share its transforms, which sit where the first one reads it.
        shape = shapes.setdefault((edge.src, edge.tensor), edge.shape)
        _, before = _layouts_in(graph.by_id[edge.src], plan)
        after, _ = _layouts_in(graph.by_id[edge.dst], plan)
        found[TransformWorkload(*shape, before.block, after.block)] = None
    # A single channel fits no block: it broadcasts over any just as it is stored.
    return tuple(move for move in found if not move.is_free and _fits(move))


def _layouts_in(node: GraphNode, plan: Plan) -> tuple[Layout, Layout]:
    """(layout that a node reads, layout that it writes) under a plan."""
    if node.id in plan.joins:
        return plan.joins[node.id], plan.joins[node.id]
    return layouts_of(plan.configs[node.id]) if node.id in plan.configs else (NCHW, NCHW)


def _plausible(
    node: GraphNode, candidates: Mapping[Workload, Sequence[Candidate]]
) -> tuple[set[Layout], set[Layout]]:
    """(layouts that good schemes read, layouts that they write); plain for a boundary."""
    if node.workload is None:
        return {NCHW}, {NCHW}
    schemes = candidates[node.workload]
    limit = PLAUSIBLE * min(scheme.seconds for scheme in schemes)
    good = [scheme for scheme in schemes if scheme.seconds <= limit]
    return {scheme.reads for scheme in good}, {scheme.writes for scheme in good}


def _fits(move: TransformWorkload) -> bool:
    return all(Layout(block).fits(move.channels) for block in (move.before, move.after))


def _kind(move: TransformWorkload) -> Kind:
    """Between blocks vectors move; into or out of plain NCHW single elements do."""
    return bool(move.before), bool(move.after)
