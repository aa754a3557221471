"""Which groups of layers run faster than their layers one by one, measured in the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layer_group import LayerGroup, Members
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.processes.machine import Run, Scheme
from tvm_neocpu.tuning.pool_candidates import pool_behind


@dataclass(frozen=True)
class TimedPlan:
    """``ours`` are runs of the plan's network, ``theirs`` those of the incumbent in turn."""

    plan: Plan
    ours: Sequence[Run]
    theirs: Sequence[Run]

    def share(self, computed: Iterable[object]) -> float:
        """The time of some functions, as a share of the incumbent's run beside it."""
        wanted = set(computed)
        pairs = zip(self.ours, self.theirs, strict=True)
        return median(
            sum(seconds for key, seconds in run.items() if key in wanted) / sum(other.values())
            for run, other in pairs
        )


def faster_groups(grouped: TimedPlan, apart: TimedPlan, graph: ConvGraph) -> tuple[LayerGroup, ...]:
    """The groups of a plan that took less time than their layers in the same plan without groups.

    Groups that share a layer's function are kept or left together: a run tells its time in all.
    """
    winners: set[Members] = set()
    for together in _clusters(grouped.plan.group_bands(graph)):
        layers = {scheme for members in together for scheme in _computed(members, graph)}
        if grouped.share({*together, *layers}) < apart.share(layers):
            winners |= together
    return tuple(
        group
        for group in grouped.plan.groups or ()
        if grouped.plan.members_of(group, graph) in winners
    )


def _computed(members: Members, graph: ConvGraph) -> Iterator[Scheme]:
    """The schemes of a group's layers, and of the pool behind a group of one layer."""
    yield from members
    pool = pool_behind(*members[0], graph) if len(members) == 1 else None
    if pool is not None:
        yield pool


def _clusters(groups: Iterable[Members]) -> list[set[Members]]:
    """Sets of groups such that no two sets share a layer's scheme."""
    found: list[set[Members]] = []
    for members in groups:
        shared = [each for each in found if any(set(members) & set(other) for other in each)]
        found = [each for each in found if each not in shared]
        found.append({members}.union(*shared))
    return found
