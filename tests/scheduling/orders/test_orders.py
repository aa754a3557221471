"""Every order of the table runs the same tests; all meet brute force on tiny graphs."""

from __future__ import annotations

import pytest
from how_many import examples
from hypothesis import given, settings
from random_dags import dags, random_dag

from tvm_neocpu.core.errors import SearchCutError
from tvm_neocpu.scheduling.graph.live import peak_bytes, step_bound
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.orders import best as best_order
from tvm_neocpu.scheduling.orders import exact as exact_order
from tvm_neocpu.scheduling.orders.best import SIMPLE, best, improved
from tvm_neocpu.scheduling.orders.brute import all_orders, brute
from tvm_neocpu.scheduling.orders.exact import exact, search_exact
from tvm_neocpu.scheduling.orders.ideals import IdealSearch
from tvm_neocpu.scheduling.orders.table import ORDERS

every_order = pytest.mark.parametrize("name", ORDERS)


def graph_of(sizes: dict[str, int], *edges: str) -> ScheduleGraph:
    """Edges as pairs of letters: ``"ab"``."""
    nodes = tuple(ScheduleNode(name, name, OpKind.CONV, size) for name, size in sizes.items())
    return ScheduleGraph(nodes, tuple((edge[0], edge[1]) for edge in edges))


@every_order
@settings(max_examples=examples(60))
@given(dags(14))
def test_every_node_comes_once_behind_what_it_reads(name: str, graph: ScheduleGraph) -> None:
    order = ORDERS[name](graph)
    assert graph.is_order(order)
    assert order == ORDERS[name](graph)


@every_order
@settings(max_examples=examples(40))
@given(dags(8))
def test_no_order_beats_brute_force(name: str, graph: ScheduleGraph) -> None:
    peak = peak_bytes(graph, ORDERS[name](graph))
    assert peak >= peak_bytes(graph, brute(graph)) >= step_bound(graph)


@settings(max_examples=examples(150))
@given(dags(9))
def test_exact_is_the_best_of_all_orders(graph: ScheduleGraph) -> None:
    found = search_exact(graph)
    assert found.order is not None
    assert peak_bytes(graph, found.order) == found.bound == peak_bytes(graph, brute(graph))


@settings(max_examples=examples(60))
@given(dags(24))
def test_best_is_as_good_as_exact_on_small_graphs(graph: ScheduleGraph) -> None:
    assert peak_bytes(graph, best(graph)) == peak_bytes(graph, exact(graph))


@every_order
def test_an_empty_graph_and_a_single_node(name: str) -> None:
    assert ORDERS[name](ScheduleGraph((), ())) == ()
    assert ORDERS[name](graph_of({"a": 3})) == (0,)


def test_backtracking_completes_a_consumer_before_it_begins_a_branch() -> None:
    """Two branches of large maps that end in small ones: one after the other."""
    graph = graph_of(
        {"a": 2, "b": 9, "c": 9, "d": 1, "e": 1, "f": 1}, "ab", "ac", "bd", "ce", "df", "ef"
    )
    names = "".join(graph.nodes[at].id for at in ORDERS["backtracking"](graph))
    assert names == "abdcef"
    assert peak_bytes(graph, ORDERS["breadth-first"](graph)) > peak_bytes(
        graph, ORDERS["backtracking"](graph)
    )


def test_the_walks() -> None:
    graph = graph_of(dict.fromkeys("abcde", 1), "ab", "ac", "bd", "ce")
    assert ORDERS["depth-first"](graph) == (0, 1, 3, 2, 4)
    assert ORDERS["breadth-first"](graph) == (0, 1, 2, 3, 4)
    assert ORDERS["file"](graph) == (0, 1, 2, 3, 4)


def test_orders_of_a_chain_of_three() -> None:
    assert list(all_orders(graph_of(dict.fromkeys("abc", 1), "ab"))) == [
        (0, 1, 2),
        (0, 2, 1),
        (2, 0, 1),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_windows_alone_never_make_an_order_worse(seed: int) -> None:
    graph = random_dag(60, seed, near=12)
    for simple in SIMPLE:
        order = simple(graph)
        better = improved(graph, IdealSearch(graph, best_order.LOOKS), order)
        assert graph.is_order(better)
        assert peak_bytes(graph, better) <= peak_bytes(graph, order)


@pytest.mark.parametrize("seed", range(4))
def test_best_beats_the_simple_orders_on_large_graphs(seed: int) -> None:
    graph = random_dag(300, seed, near=20)
    simple = min(peak_bytes(graph, order(graph)) for order in SIMPLE)
    assert peak_bytes(graph, best(graph)) <= simple


@pytest.mark.parametrize("looks", [0, 100, 3_000])
def test_best_ends_where_its_looks_are_used_up(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide graph, whose searches would look at millions of ready nodes."""
    graph = random_dag(80, 2, near=40)
    seen: list[IdealSearch] = []

    class Watched(IdealSearch):
        def __init__(self, *options) -> None:
            super().__init__(*options)
            seen.append(self)

    monkeypatch.setattr(best_order, "IdealSearch", Watched)
    order = best(graph, looks)
    assert graph.is_order(order)
    assert peak_bytes(graph, order) <= min(peak_bytes(graph, each(graph)) for each in SIMPLE)
    # What one ideal takes is looked at to its end.
    (search,) = seen
    assert search.looks > -(len(graph) ** 2)


def test_a_search_that_is_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_dag(60, 1, near=30)
    monkeypatch.setattr(exact_order, "MAX_STATES", 3)
    with pytest.raises(SearchCutError, match="60 nodes is proven best within 3 sets"):
        exact(graph)


@pytest.mark.parametrize("limit", [1, 10, 100])
def test_a_search_that_is_cut_still_bounds_every_order(limit: int) -> None:
    graph = random_dag(18, 7, near=9)
    whole = search_exact(graph)
    assert step_bound(graph) <= search_exact(graph, limit=limit).bound <= whole.bound
