"""The smallest peak over all orders, by search over ideals."""

from __future__ import annotations

from tvm_neocpu.core.errors import SearchCutError
from tvm_neocpu.scheduling.graph.live import peak_bytes, step_bound
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.orders.ideals import Found, IdealSearch

# Some ten seconds. A count and no clock: the same graph gets the same order on every machine.
MAX_STATES = 200_000


def search_exact(
    graph: ScheduleGraph, ceiling: int | None = None, limit: int = MAX_STATES
) -> Found:
    """The best order with a peak below ``ceiling``, by default that of the file order or less.

    A lower bound for every order, where none is below the ceiling or the search is cut at ``limit``
    ideals.
    """
    nodes = range(len(graph))
    if ceiling is None:
        ceiling = peak_bytes(graph, nodes) + 1
    return IdealSearch(graph).best((), nodes, step_bound(graph), ceiling, limit)


def exact(graph: ScheduleGraph) -> tuple[int, ...]:
    """An order with the smallest peak. Raises SearchCutError where the search is cut."""
    found = search_exact(graph, limit=MAX_STATES)
    if found.order is None:
        raise SearchCutError(
            f"no order of {len(graph)} nodes is proven best within {MAX_STATES} sets of nodes; "
            "use the order 'best'"
        )
    return found.order
