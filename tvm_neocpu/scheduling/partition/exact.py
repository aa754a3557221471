"""The cheapest partition into convex groups, by dynamic programming over ideals.

An ideal is a set of nodes with all that they read. Groups that can run one after the other are the
steps of a chain of ideals, so

    best[I] = min over ideals J inside I of best[J] + price(I without J)

A graph of 20 nodes has some thousand ideals, a wide one many more: for small graphs only.
"""

from __future__ import annotations

from math import inf

from tvm_neocpu.core.errors import SearchCutError
from tvm_neocpu.scheduling.graph.price import Profiler
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.partition.partition import Group, Partition

# Pairs of ideals: a minute.
MAX_PAIRS = 500_000


def exact(graph: ScheduleGraph, profiler: Profiler) -> Partition:
    """Raises SearchCutError on a graph that is too large."""
    preds = [sum(1 << source for source in found) for found in graph.preds]
    prices: dict[int, float] = {}
    best: dict[int, tuple[float, int]] = {0: (0.0, 0)}
    pairs = 0
    # By size: all ideals inside of an ideal come before it, and each begins groups.
    level = [0]
    while level:
        found: set[int] = set()
        for ideal in level:
            found |= {ideal | 1 << node for node in _ready(preds, ideal)}
        for ideal in found:
            best.setdefault(ideal, (inf, 0))
        level = sorted(found)
        if len(best) ** 2 > 400 * MAX_PAIRS:
            raise _too_large(graph)
    for ideal in sorted(best, key=int.bit_count):
        cost = best[ideal][0]
        pending, seen = [ideal], {ideal}
        while pending:
            larger = pending.pop()
            for node in _ready(preds, larger):
                after = larger | 1 << node
                if after in seen:
                    continue
                seen.add(after)
                pending.append(after)
                pairs += 1
                group = after & ~ideal
                if group not in prices:
                    prices[group] = profiler.price(_nodes(group)).cost
                if cost + prices[group] < best[after][0]:
                    best[after] = cost + prices[group], ideal
        if pairs > MAX_PAIRS:
            raise _too_large(graph)
    return Partition(_unwound(best, (1 << len(graph)) - 1), len(prices))


def _too_large(graph: ScheduleGraph) -> SearchCutError:
    return SearchCutError(
        f"{len(graph)} nodes have too many convex groups for an exact partition; use 'lines'"
    )


def _ready(preds: list[int], ideal: int) -> list[int]:
    return [n for n, found in enumerate(preds) if not ideal >> n & 1 and not found & ~ideal]


def _nodes(mask: int) -> Group:
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)


def _unwound(best: dict[int, tuple[float, int]], ideal: int) -> tuple[Group, ...]:
    groups: list[Group] = []
    while ideal:
        before = best[ideal][1]
        groups.append(_nodes(ideal & ~before))
        ideal = before
    return tuple(reversed(groups))
