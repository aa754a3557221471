"""The graph that is scheduled, and what lives when it runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_dags import dags

from tvm_neocpu.core.arena import Lifetime, largest_live_set
from tvm_neocpu.core.errors import ScheduleError
from tvm_neocpu.scheduling.graph.live import lifetimes, live_bytes, step_bound, workspaces
from tvm_neocpu.scheduling.graph.schedule_graph import (
    OpKind,
    ScheduleGraph,
    ScheduleNode,
    Window,
)


def node(name: str, out_bytes: int = 1, work_bytes: int = 0) -> ScheduleNode:
    return ScheduleNode(name, name, OpKind.CONV, out_bytes, work_bytes=work_bytes)


DIAMOND = ScheduleGraph(
    (node("a", 4), node("b", 3, work_bytes=9), node("c", 2), node("d", 1)),
    (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "c")),
)


def test_neighbours_are_places_each_once() -> None:
    assert DIAMOND.preds == ((), (0,), (0,), (1, 2))
    assert DIAMOND.succs == ((1, 2), (3,), (3,), ())
    assert DIAMOND.is_output == (False, False, False, True)


def test_live_ranges_and_bytes() -> None:
    assert lifetimes(DIAMOND, (0, 2, 1, 3)) == (
        Lifetime(4, 0, 2),
        Lifetime(3, 2, 3),
        Lifetime(2, 1, 3),
        Lifetime(1, 3, 3),
    )
    assert workspaces(DIAMOND, (0, 2, 1, 3)) == (Lifetime(9, 2, 2),)
    assert live_bytes(DIAMOND, (0, 2, 1, 3)) == (4, 6, 18, 6)
    assert step_bound(DIAMOND) == 4 + 3 + 9


def test_outputs_live_to_the_end() -> None:
    kept = ScheduleGraph(DIAMOND.nodes, DIAMOND.edges, frozenset({"b"}))
    assert lifetimes(kept, (0, 1, 2, 3))[1].last == 3
    assert live_bytes(ScheduleGraph((node("a", 5), node("b", 1)), ()), (0, 1)) == (5, 6)


@given(dags(12), st.data())
def test_the_bytes_are_those_of_the_live_ranges(graph: ScheduleGraph, data: st.DataObject) -> None:
    order = range(len(graph))
    found = [*lifetimes(graph, order), *workspaces(graph, order)]
    assert max(live_bytes(graph, order)) == largest_live_set(found) >= step_bound(graph)


@pytest.mark.parametrize(
    ("nodes", "edges", "text"),
    [
        ("aa", [], "same id"),
        ("ab", [("a", "z")], "'z', which is no node"),
        ("ab", [("b", "a")], "against the order"),
    ],
)
def test_what_is_no_graph(nodes: str, edges: list[tuple[str, str]], text: str) -> None:
    with pytest.raises(ScheduleError, match=text):
        ScheduleGraph(tuple(map(node, nodes)), tuple(edges))


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ScheduleError, match="negative"):
        ScheduleGraph((node("a", -1),), ())


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        (Window(), 4),
        (Window((3, 3)), 6),
        (Window((3, 3), (2, 2)), 9),
        (Window((3, 3), dilation=(2, 2)), 8),
        (Window((2, 2), upscale=2), 3),
        (Window((4, 4), upscale=2), 4),
    ],
)
def test_rows_that_a_band_of_four_rows_reads(window: Window, rows: int) -> None:
    assert window.rows_for(4) == rows


def test_an_order_has_every_node_behind_what_it_reads() -> None:
    assert DIAMOND.is_order((0, 2, 1, 3))
    assert not DIAMOND.is_order((0, 1, 3, 2))
    assert not DIAMOND.is_order((0, 1, 2))
