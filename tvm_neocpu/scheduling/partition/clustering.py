"""The paper's partition: intervals of a line of nodes, chosen by dynamic programming.

Elementwise operations fuse into their producers first. Each unit is labelled with its longest
distance from the input and indexed by label: a line on which everything reads to the left. A group
is an interval of the line, so it is convex, and the cheapest intervals end at j as

    best[j] = min over i < j of best[i] + price(units i .. j - 1)

with at most N (N + 1) / 2 prices; N k where a group has at most k units. An interval that costs no
less than its units alone cannot win. After PATIENCE such intervals with one end, longer ones are
not asked for. Intervals longer than LONGEST are not either: in the zoo's networks the buffer ends
groups before that, but where a whole network fits it, 5,000 nodes would ask for 12 million prices.

`lines` goes beyond the paper: the same over several lines, and the cheapest of these. The paper's
line cuts parallel branches into slices; a depth-first line, or the one that keeps least alive,
takes one branch after the other. Last, neighbouring groups merge where that pays with their nodes
in file order: a group that fits the buffer in one order may not fit it in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf

from tvm_neocpu.scheduling.graph.price import Profiler
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.orders.backtracking import backtracking
from tvm_neocpu.scheduling.orders.walks import depth_first
from tvm_neocpu.scheduling.partition.partition import Group, Partition, Partitioner
from tvm_neocpu.scheduling.partition.units import Units, fused_units

PATIENCE = 6
LONGEST = 48


def clustering(graph: ScheduleGraph, profiler: Profiler) -> Partition:
    """The paper's: the line by longest distance, intervals of any length."""
    return _on_lines(graph, profiler, [_by_depth], LONGEST)


def bounded(most: int) -> Partitioner:
    """Intervals of the paper's line with at most ``most`` units."""
    return partial(_on_lines, lines=[_by_depth], most=most)


def lines(graph: ScheduleGraph, profiler: Profiler) -> Partition:
    """The cheapest of several lines; then neighbours merged where file order makes that pay."""
    found = _on_lines(graph, profiler, [_by_depth, _depth_first, _least_alive], LONGEST)
    return _merged(profiler, found)


def _merged(profiler: Profiler, found: Partition) -> Partition:
    """Groups merged with the one before, nodes in file order, as long as that saves something."""
    groups: list[Group] = []
    costs: list[float] = []
    asked = found.evaluations
    for group in found.groups:
        groups.append(group)
        costs.append(profiler.price(group).cost)
        for reach in (2, 3):
            if len(groups) < reach or sum(map(len, groups[-reach:])) > LONGEST:
                continue
            both = tuple(sorted(node for each in groups[-reach:] for node in each))
            cost = profiler.price(both).cost
            asked += 1
            if cost < sum(costs[-reach:]):
                groups[-reach:], costs[-reach:] = [both], [cost]
    return Partition(tuple(groups), asked)


Line = Callable[[ScheduleGraph, Units], Sequence[int]]


def _on_lines(
    graph: ScheduleGraph, profiler: Profiler, lines: Iterable[Line], most: int
) -> Partition:
    units = fused_units(graph)
    found: list[tuple[float, tuple[Group, ...]]] = []
    evaluations = 0
    alone: dict[Group, float] = {}
    for line in lines:
        groups = [units.groups[unit] for unit in line(graph, units)]
        if any(groups == list(other) for _, other in found):
            continue
        cost, chosen, asked = _intervals(profiler, groups, most, alone)
        evaluations += asked
        found.append((cost, chosen))
    _, best = min(found, key=lambda each: each[0])
    return Partition(best, evaluations)


def _intervals(
    profiler: Profiler, line: Sequence[Group], most: int, alone: dict[Group, float]
) -> tuple[float, tuple[Group, ...], int]:
    """The least cost, the intervals as groups of nodes, and how many were priced."""
    best, begins, asked = [0.0], [0], 0
    for end in range(1, len(line) + 1):
        growing = profiler.growing()
        best.append(inf)
        begins.append(end - 1)
        apart, patience = 0.0, PATIENCE
        for begin in range(end - 1, max(0, end - most) - 1, -1):
            for node in reversed(line[begin]):
                growing.prepend(node)
            cost = growing.price().cost
            asked += 1
            if begin == end - 1:
                alone[line[begin]] = cost
            apart += alone[line[begin]]
            if best[begin] + cost < best[end]:
                best[end], begins[end] = best[begin] + cost, begin
            patience = PATIENCE if cost < apart else patience - 1
            if not patience:
                break
    return best[-1], _cut(line, begins), asked


def _cut(line: Sequence[Group], begins: Sequence[int]) -> tuple[Group, ...]:
    groups: list[Group] = []
    end = len(line)
    while end:
        groups.append(tuple(node for unit in line[begins[end] : end] for node in unit))
        end = begins[end]
    return tuple(reversed(groups))


def _by_depth(graph: ScheduleGraph, units: Units) -> Sequence[int]:
    return range(len(units))


def _depth_first(graph: ScheduleGraph, units: Units) -> Sequence[int]:
    return depth_first(_quotient(graph, units))


def _least_alive(graph: ScheduleGraph, units: Units) -> Sequence[int]:
    return backtracking(_quotient(graph, units))


def _quotient(graph: ScheduleGraph, units: Units) -> ScheduleGraph:
    """The units as a graph, each with the bytes of its last node."""
    nodes = []
    for at, group in enumerate(units.groups):
        last = graph.nodes[group[-1]]
        nodes.append(ScheduleNode(str(at), last.label, last.kind, last.out_bytes))
    edges = ((str(source), str(at)) for at, found in enumerate(units.preds) for source in found)
    return ScheduleGraph(tuple(nodes), tuple(edges))
