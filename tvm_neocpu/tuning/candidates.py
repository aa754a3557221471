"""What the global search may choose among: measured schemes first, the cost model for the rest.

What these seconds leave out: operations on plain NCHW alone (a softmax), and what a plan does to
fusion, where it puts a transform between a convolution and its epilogue. Pools, concats that copy
and prologues that a template does not take along have prices of their own (:mod:`.sweep_costs`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import TypeAlias

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.candidate import Candidate, layouts_of
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, Shape4
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_MAPS, BF16_WEIGHTS
from tvm_neocpu.topi.cost.ranking import best_per_layout, predict_seconds
from tvm_neocpu.topi.table import fits, implementation_of, refusal
from tvm_neocpu.tuning.database.log import TuningLogWarning
from tvm_neocpu.tuning.offered_blocks import offered_blocks
from tvm_neocpu.tuning.sweep_costs import SweepCosts
from tvm_neocpu.tuning.transform_costs import TransformCosts

# A convolution, and the shapes of the tensors that it reads and writes.
Around: TypeAlias = tuple[GraphNode, Sequence[Shape4], Sequence[Shape4]]

# NeoCPU, section 3.3.2, keeps at most about 100 schemes a convolution.
MAX_SCHEMES = 100
# A scheme that takes so many times what the best one takes is kept only if it may save transforms.
# The margin is for prices of transforms that are off; see `_worth_keeping`.
HOPELESS = 2.0
# A scheme nobody measured is not believed to beat the best one that somebody did.
UNMEASURED_PENALTY = 1.05


def candidates_of(
    graph: ConvGraph,
    cpu: Cpu,
    records: Mapping[Workload, Sequence[Record]],
    transform_seconds: TransformCosts | None = None,
    sweep_seconds: SweepCosts | None = None,
) -> dict[Workload, tuple[Candidate, ...]]:
    """Schemes for every workload of the graph; ``records`` are all of a workload's, ascending.

    A slow scheme is kept if its excess over the best one is less than the transforms that the best
    one may need in its place (``transform_seconds``, by default the cost model's), and less than
    what sweeps take longer in the best one's layouts (``sweep_seconds``, likewise).

    Records whose config may not be used here do not count: a tile of Winograd's that the
    environment forbids, a template that nobody registered.
    """
    prices = transform_seconds or TransformCosts(cpu)
    sweeps = sweep_seconds or SweepCosts(cpu)
    around, offered = _edges_around(graph), offered_blocks(graph, cpu)
    found = {}
    for workload in graph.workloads:
        usable = _usable(workload, cpu, records.get(workload, ()))
        saved = _Savings(around[workload], prices, sweeps)
        computes_data = any(node.read_sweeps for node, *_ in around[workload])
        data = _Data(computes_data, offered.get(workload, frozenset()))
        kept = _worth_keeping(_schemes(workload, cpu, usable, data), saved)
        found[workload] = tuple(_with_rounding(workload, scheme, cpu) for scheme in kept)
    return found


def _with_rounding(workload: Workload, scheme: Candidate, cpu: Cpu) -> Candidate:
    """The scheme, and what it spends on rounding its data if another one could do that."""
    entry = implementation_of(scheme.config)
    if (
        workload.types != BF16_WEIGHTS
        or BF16_MAPS not in entry.types
        or not scheme.reads.is_blocked
    ):
        return scheme
    stored: Workload = replace(workload, types=BF16_MAPS)  # type: ignore[type-var]
    before, after = (predict_seconds(each, scheme.config, cpu) for each in (workload, stored))
    share = max(0.0, 1 - after / before)
    return replace(scheme, rounding=share * scheme.seconds)


@dataclass(frozen=True)
class _Data:
    """What a workload reads: whether a sweep computes it, and blocks in which it comes."""

    is_computed: bool
    offered: frozenset[int]


@dataclass(frozen=True)
class _Savings:
    """What a scheme may save: transforms that put another one in its place, and slower sweeps.

    ``around`` are the convolutions of the workload with the shapes that each reads and writes; of
    several the dearest counts.
    """

    around: Sequence[Around]
    prices: TransformCosts
    sweeps: SweepCosts

    def __call__(self, scheme: Candidate, other: Candidate) -> float:
        """Seconds of the transforms that ``other`` needs where the neighbours fit ``scheme``."""
        return max(
            sum(self.prices(shape, scheme.reads, other.reads) for shape in reads)
            + sum(self.prices(shape, other.writes, scheme.writes) for shape in writes)
            + self._beside(node, other, behind_transform=other.reads != scheme.reads)
            - self._beside(node, scheme)
            for node, reads, writes in self.around
        )

    def _beside(self, node: GraphNode, scheme: Candidate, behind_transform: bool = False) -> float:
        """Seconds of the sweeps; a transform reads copies of what the scheme would read through."""
        config = None if behind_transform else scheme.config
        return self.sweeps(node, scheme.reads, scheme.writes, config)


def _edges_around(graph: ConvGraph) -> dict[Workload, list[Around]]:
    """By workload, each of its convolutions with the shapes that it reads and writes."""
    reads: dict[str, list[Shape4]] = {node.id: [] for node in graph.nodes}
    writes: dict[str, list[Shape4]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        reads[edge.dst].append(edge.shape)
        writes[edge.src].append(edge.shape)
    found: dict[Workload, list[Around]] = {}
    for node in graph.convs:
        if node.workload is not None:
            found.setdefault(node.workload, []).append((node, reads[node.id], writes[node.id]))
    return found


def _usable(workload: Workload, cpu: Cpu, records: Sequence[Record]) -> list[Record]:
    return [record for record in records if fits(workload, record.config, cpu)]


def usable_plan(plan: Plan | None, graph: ConvGraph, cpu: Cpu) -> Plan | None:
    """A logged plan, if every config of it may be used here; else ``None``, with a warning."""
    if plan is None:
        return None
    for node in graph.convs:
        config = plan.configs.get(node.id)
        if config is None or node.workload is None:
            continue
        reason = refusal(node.workload, config, cpu)
        if reason is None:
            continue
        warnings.warn(
            f"the log's plan is not used: {config} cannot compute {node.workload} here: {reason}",
            TuningLogWarning,
            stacklevel=3,
        )
        return None
    return plan


def _schemes(
    workload: Workload, cpu: Cpu, records: Sequence[Record], data: _Data
) -> list[Candidate]:
    worked = [record for record in records if record.ok]
    predicted = _not_failed(workload, cpu, records, data)
    if not worked:
        return list(predicted)
    # What was read once is not believed to beat what was read again.
    least = min((record.seconds for record in worked if record.confirmed), default=0.0)
    known: dict[tuple[Layout, Layout], Candidate] = {}
    for record in sorted(worked, key=lambda record: (record.seconds, not record.confirmed)):
        seconds = record.seconds if record.confirmed else max(record.seconds, least)
        before = known.get(layouts_of(record.config))
        if before is None or seconds < before.seconds:
            known[layouts_of(record.config)] = Candidate(record.config, seconds)
    scale = _scale(workload, cpu, worked)
    floor = min(scheme.seconds for scheme in known.values()) * UNMEASURED_PENALTY
    schemes = list(known.values())
    schemes += [
        Candidate(c.config, max(c.seconds * scale, floor))
        for c in predicted
        if layouts_of(c.config) not in known
    ]
    return schemes


def _scale(workload: Workload, cpu: Cpu, worked: Sequence[Record]) -> float:
    """Measured over predicted seconds, the median of all records.

    Not the fastest one's: it may be the fastest because the model was too pessimistic there.
    """
    pairs = [(r.read_seconds, predict_seconds(workload, r.config, cpu)) for r in worked]
    ratios = [seconds / guess for seconds, guess in pairs if 0 < guess < inf]
    return median(ratios) if ratios else 1.0


def _not_failed(
    workload: Workload, cpu: Cpu, records: Sequence[Record], data: _Data
) -> tuple[Candidate, ...]:
    failed = frozenset(record.config for record in records if not record.ok)
    found = best_per_layout(workload, cpu, failed, data.is_computed, data.offered)
    # Where all has failed there must be something to build nevertheless.
    return found or best_per_layout(workload, cpu, frozenset(), data.is_computed, data.offered)


def _worth_keeping(schemes: list[Candidate], saved: _Savings) -> tuple[Candidate, ...]:
    """Those that some network may need: every other one can be replaced by the best at a gain.

    With the best in its place, and transforms around it, the neighbours may stay as they are. So no
    plan is lost while a transform costs no more than a detour through a third layout. Prices that
    are measured or guessed one by one do not keep to that: hence :data:`HOPELESS`.
    """
    best, *others = sorted(schemes, key=lambda scheme: scheme.seconds)[:MAX_SCHEMES]
    kept = [
        scheme
        for scheme in others
        if scheme.seconds <= HOPELESS * best.seconds
        or scheme.seconds - best.seconds < saved(scheme, best)
    ]
    return best, *kept
