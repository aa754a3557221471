"""Elementwise operations fused into their producers: what adds no redundancy needs no search.

An elementwise operation joins the unit of the producer that is deepest, by longest distance from
the input over units. No path can leave that unit and come back: all other producers are at most as
deep. Movements (concat, slice) stay: what they move may be larger than what their producers make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph
from tvm_neocpu.scheduling.partition.partition import Group

_JOINED = (OpKind.CONV, OpKind.POOL, OpKind.ELEMENTWISE)


@dataclass(frozen=True)
class Units:
    """Groups of nodes, in a topological order; between them, by place: who reads whom; depths."""

    groups: tuple[Group, ...]
    preds: tuple[tuple[int, ...], ...]
    depths: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.groups)


def single_units(graph: ScheduleGraph) -> Units:
    """Each node by itself."""
    return _units(graph, list(range(len(graph))))


def fused_units(graph: ScheduleGraph) -> Units:
    """Elementwise operations with the deepest of their producers."""
    leader = list(range(len(graph)))
    depth = [0] * len(graph)  # of units, at their leaders
    for node, kind in enumerate(each.kind for each in graph.nodes):
        before = [leader[source] for source in graph.preds[node]]
        deepest = max(before, key=lambda unit: depth[unit], default=node)
        others = [unit for unit in before if unit != deepest]
        # Equally deep ones would make the unit deeper, and with it all that reads it.
        is_clear = all(depth[unit] < depth[deepest] for unit in others)
        joins = kind is OpKind.ELEMENTWISE and graph.nodes[deepest].kind in _JOINED
        if joins and before and is_clear:
            leader[node] = deepest
        else:
            depth[node] = 1 + max((depth[unit] for unit in before), default=-1)
    return _units(graph, leader)


def _units(graph: ScheduleGraph, leader: Sequence[int]) -> Units:
    members: dict[int, list[int]] = {}
    for node, unit in enumerate(leader):
        members.setdefault(unit, []).append(node)
    before = {
        unit: {leader[s] for node in nodes for s in graph.preds[node]} - {unit}
        for unit, nodes in members.items()
    }
    depth: dict[int, int] = {}
    for unit in _topological(before):
        depth[unit] = 1 + max((depth[other] for other in before[unit]), default=-1)
    line = sorted(members, key=lambda unit: (depth[unit], unit))
    at = {unit: place for place, unit in enumerate(line)}
    return Units(
        tuple(tuple(members[unit]) for unit in line),
        tuple(tuple(sorted(at[other] for other in before[unit])) for unit in line),
        tuple(depth[unit] for unit in line),
    )


def _topological(before: dict[int, set[int]]) -> list[int]:
    after: dict[int, list[int]] = {unit: [] for unit in before}
    missing = {unit: len(sources) for unit, sources in before.items()}
    for unit, sources in before.items():
        for source in sources:
            after[source].append(unit)
    order = [unit for unit, count in missing.items() if not count]
    for unit in order:
        for reader in after[unit]:
            missing[reader] -= 1
            if not missing[reader]:
                order.append(reader)
    return order
