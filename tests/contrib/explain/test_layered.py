"""The drawing: no two boxes overlap, every edge leads down, few edges cross."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.contrib.explain.layered import GAP_X, closest_with_gaps, draw

BOX = (100.0, 40.0)


@st.composite
def graphs(draw_: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Up to twelve nodes in topological order and edges between them, some of them parallel."""
    nodes = [f"n{i}" for i in range(draw_(st.integers(1, 12)))]
    pairs = list(itertools.combinations(nodes, 2))
    return nodes, draw_(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []


@given(graphs())
def test_boxes_keep_apart_and_edges_lead_down(graph):
    nodes, links = graph
    drawing = draw(nodes, links, BOX)
    assert drawing.centres.keys() == set(nodes)
    assert drawing.routes.keys() == set(links)
    for one, other in itertools.combinations(drawing.centres.values(), 2):
        apart = abs(one[0] - other[0]) >= BOX[0] + GAP_X - 1e-6
        assert apart or abs(one[1] - other[1]) > BOX[1]
    for (source, target), points in drawing.routes.items():
        (x, y), (to_x, to_y) = drawing.centres[source], drawing.centres[target]
        assert points[0] == pytest.approx((x, y + BOX[1] / 2))
        assert points[-1] == pytest.approx((to_x, to_y - BOX[1] / 2))
        heights = [point[1] for point in points]
        assert heights == sorted(heights)
    for x, y in drawing.centres.values():
        assert -1e-6 <= x - BOX[0] / 2 <= drawing.width - BOX[0] + 1e-6
        assert -1e-6 <= y - BOX[1] / 2 <= drawing.height - BOX[1] + 1e-6


def test_the_same_network_is_drawn_the_same_way():
    nodes, links = list("abcd"), [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")]
    assert draw(nodes, links, BOX) == draw(nodes, links, BOX)


def test_a_chain_is_a_line():
    nodes = [f"n{i}" for i in range(50)]
    drawing = draw(nodes, itertools.pairwise(nodes), BOX)
    assert {x for x, _ in drawing.centres.values()} == {BOX[0] / 2}


def test_a_deep_residual_network_does_not_lean():
    nodes, links = ["s0"], []
    for k in range(40):
        nodes += [f"a{k}", f"b{k}", f"s{k + 1}"]
        chain = [f"s{k}", f"a{k}", f"b{k}", f"s{k + 1}"]
        links += [*itertools.pairwise(chain), (chain[0], chain[3])]
    drawing = draw(nodes, links, BOX)
    assert all(x == pytest.approx(BOX[0] / 2, abs=0.01) for x, _ in drawing.centres.values())
    assert drawing.width < 2 * BOX[0]


def test_parallel_branches_do_not_cross():
    nodes = ["top", *"abc", *"xyz", "end"]
    links = [("top", name) for name in "abc"] + [("a", "z"), ("b", "y"), ("c", "x")]
    links += [(name, "end") for name in "xyz"]
    drawing = draw(nodes, links, BOX)
    for upper, lower in (("a", "z"), ("b", "y"), ("c", "x")):
        assert drawing.centres[upper][0] == pytest.approx(drawing.centres[lower][0])


def test_parts_stand_below_one_another():
    drawing = draw(list("abcd"), [("a", "b"), ("c", "d")], BOX)
    heights = [drawing.centres[name][1] for name in "abcd"]
    assert heights == sorted(heights)
    assert drawing.width == BOX[0]


def test_nothing_to_draw():
    drawing = draw([], [], BOX)
    assert (drawing.width, drawing.height) == (0.0, 0.0)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 5), st.floats(0.1, 4)), min_size=1))
def test_places_keep_their_gaps(entries):
    wished, gaps, weights = zip(*entries, strict=True)
    places = closest_with_gaps(wished, gaps[1:], weights)
    for (a, b), gap in zip(itertools.pairwise(places), gaps[1:], strict=True):
        assert b - a >= gap - 1e-9


def test_places_are_as_wished_where_that_is_possible():
    assert closest_with_gaps([0, 5, 9], [2, 2], [1, 1, 1]) == [0, 5, 9]
    assert closest_with_gaps([1, 1], [2], [1, 1]) == [0, 2]
    assert closest_with_gaps([1, 1], [2], [3, 1]) == [0.5, 2.5]
