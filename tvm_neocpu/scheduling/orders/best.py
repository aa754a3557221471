"""Beyond the paper: the best of the simple orders, improved by searches over ideals.

A search looks for an order below the best peak so far; paths up to a target, half way to the lower
bound, count as equal, so that it goes straight for the end. The zoo's irregular networks are solved
so, within a thousand ideals and proven. Where a search is cut, the target rises. At last windows
around the step with the largest live set are solved anew, everything outside of them fixed; they
grow until one helps. All searches together have an allowance of looks; where it is used up, the
best order so far is the answer.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_neocpu.scheduling.graph.live import live_bytes, peak_bytes, step_bound
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.orders.backtracking import backtracking
from tvm_neocpu.scheduling.orders.file_order import file_order
from tvm_neocpu.scheduling.orders.ideals import IdealSearch
from tvm_neocpu.scheduling.orders.walks import breadth_first, depth_first

SIMPLE: tuple[Callable[[ScheduleGraph], tuple[int, ...]], ...] = (
    file_order,
    backtracking,
    depth_first,
    breadth_first,
)
# What one search may expand, a fraction of a second: so many ideals, or more of small graphs, whose
# ideals take less time (those times nodes).
STATES, WORK = 2_000, 400_000
# What all searches may look at: some ten seconds. RandWire small takes 4 million looks, the other
# networks of the zoo take less than half a million.
LOOKS = 10_000_000
# Searches for targets closer than this share of the peak do not pay.
TARGET_STEP = 0.005
FIRST_WINDOW = 8


def best(graph: ScheduleGraph, looks: float = LOOKS) -> tuple[int, ...]:
    """The order with the smallest peak that was found; on a tie the file's, then the paper's.

    ``looks``: the allowance of all searches (`IdealSearch`).
    """
    search, floor = IdealSearch(graph, looks), step_bound(graph)
    start = min((order(graph) for order in SIMPLE), key=lambda order: peak_bytes(graph, order))
    return improved(graph, search, _below_targets(graph, search, floor, start))


def _below_targets(
    graph: ScheduleGraph, search: IdealSearch, floor: int, order: tuple[int, ...]
) -> tuple[int, ...]:
    """The order, or one with a smaller peak."""
    peak, states = peak_bytes(graph, order), _states(graph)
    while peak > floor and search.looks > 0:
        target = (floor + peak) // 2
        found = search.best((), order, target, peak, states)
        if found.order is not None:
            order, peak = found.order, peak_bytes(graph, found.order)
            floor = max(floor, found.bound if found.bound > target else 0)
        elif not found.is_cut:
            return order  # there is none below it
        elif peak - target < TARGET_STEP * peak:
            return order
        else:
            floor = target
    return order


def improved(graph: ScheduleGraph, search: IdealSearch, order: tuple[int, ...]) -> tuple[int, ...]:
    """An order whose peak is that of ``order`` or smaller."""
    floor = step_bound(graph)
    while True:
        better = _step(graph, search, order, floor)
        if better is None:
            return order
        order = better


def _step(
    graph: ScheduleGraph, search: IdealSearch, order: tuple[int, ...], floor: int
) -> tuple[int, ...] | None:
    """An order with a smaller peak, or with fewer steps at the peak; ``None`` if none was found."""
    alive = live_bytes(graph, order)
    peak = max(alive, default=0)
    if peak <= floor:
        return None
    at, size, states = alive.index(peak), FIRST_WINDOW, _states(graph)
    while True:
        begin, end = max(0, at - size // 2), min(len(order), at + size // 2)
        found = search.best(order[:begin], order[begin:end], floor, peak, states)
        if found.order is not None:
            return (*order[:begin], *found.order, *order[end:])
        if end - begin == len(order) or found.is_cut:
            return None
        size *= 2


def _states(graph: ScheduleGraph) -> int:
    return max(STATES, WORK // max(1, len(graph.nodes)))
