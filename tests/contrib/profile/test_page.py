"""The plan's page with a profile's times: its structure, and what Chromium draws of it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from chromium import seen_in_chromium

from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork
from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.profile.page import render
from tvm_neocpu.contrib.profile.profile_network import PLAIN, Profile, ProfileRow
from tvm_neocpu.contrib.profile.watch_calls import Call
from tvm_neocpu.core.messages.fallback import Coverage
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.global_search import solve
from tvm_neocpu.global_search.network.explain import explain
from tvm_neocpu.global_search.network.layout_graph import build_layout_graph
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

SHAPE = (1, 8, 6, 6)
CONV = ConvWorkload(1, 8, 6, 6, 8, (1, 1))


def row(name: str, seconds: float) -> ProfileRow:
    return ProfileRow(Call(name, 0.0, seconds, 8), "8x6x6->8", PLAIN, "", "", 1, name)


@pytest.fixture
def plan() -> ExplainedNetwork:
    """<a> and b are convolutions, sum joins them."""
    nodes = (
        GraphNode("1", NodeKind.CONV, str(CONV), SHAPE, CONV),
        GraphNode("2", NodeKind.CONV, str(CONV), SHAPE, CONV),
        GraphNode("3", NodeKind.JOIN, "add", SHAPE, join_channels=(8,)),
    )
    edges = (GraphEdge("1", "3", SHAPE, "a"), GraphEdge("2", "3", SHAPE, "b"))
    candidates = {CONV: (Candidate(ConvConfig(8, 8, 6), 1e-5),)}
    layout_graph = build_layout_graph(ConvGraph(nodes, edges), candidates, lambda *_: 0.0)
    found = explain(layout_graph, solve(layout_graph.problem))
    names = {"1": "<a>", "2": "b"}
    return ExplainedNetwork("net", "znver3", 1, "a search", found, Coverage(1), names)


@pytest.fixture
def profile() -> Profile:
    rows = {"1": row("<a>", 0.004), "2": row("b", 0.001)}
    whole = tuple(rows.values())
    return Profile("net", "znver3", 1, Ceilings(100.0, 20.0), whole, 0.005, rows)


def drawing_of(page: str) -> ElementTree.Element:
    found = re.search(r'<svg id="graph".*?</svg>', page, re.S)
    assert found is not None
    return ElementTree.fromstring(found.group(0).replace('xmlns="http://www.w3.org/2000/svg"', ""))


def test_every_node_is_drawn_with_its_time_and_every_edge(
    plan: ExplainedNetwork, profile: Profile
) -> None:
    drawing = drawing_of(render(plan, profile))
    boxes = {group.get("data-node"): group for group in drawing.iter("g")}
    assert boxes.keys() == {"1", "2", "3"}
    assert len([path for path in drawing.iter("path") if path.get("class") == "edge"]) == 2
    texts = {node: [text.text for text in group.iter("text")] for node, group in boxes.items()}
    assert [texts["1"][0], texts["1"][-1]] == ["<a>", "4.000 ms, 80.0%"]
    assert [texts["2"][0], texts["2"][-1]] == ["b", "1.000 ms, 20.0%"]
    assert texts["3"][0] == "add" and not any("ms," in (text or "") for text in texts["3"])


def test_the_slowest_is_the_hottest(plan: ExplainedNetwork, profile: Profile) -> None:
    fills = re.findall(r"--time:([^;\"]*)", render(plan, profile))
    assert fills == ["hsl(8 85% 55%)", "hsl(156 85% 83%)"]


def test_the_page_shows_times_first_and_the_plan_behind_a_button(
    plan: ExplainedNetwork, profile: Profile
) -> None:
    text = render(plan, profile)
    assert 'data-colour="time"' in text
    modes = re.findall(r'data-colours="(\w+)" aria-pressed="(\w+)"', text)
    assert modes == [("time", "true"), ("layout", "false"), ("algorithm", "false")]
    for heading in ("Timeline", "Roofline", "Operations", "Nodes"):
        assert f"<h2>{heading}</h2>" in text
    assert "<dt>measured</dt><dd>5.000 ms" in text and "<dt>predicted</dt>" in text


def test_a_network_without_such_nodes(plan: ExplainedNetwork) -> None:
    empty = Profile("net", "znver3", 1, Ceilings(100.0, 20.0), (), 0.005)
    text = render(plan, empty)
    assert "--time:" not in text and "No operation's multiply-adds are known." in text


def test_chromium_draws_the_page(plan: ExplainedNetwork, profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(render(plan, profile))
    boxes = {
        "graph": "#graph",
        "node": "#graph [data-node] rect",
        "edge": "#graph path.edge",
        "timeline": "#timeline",
        "call": "#timeline rect",
        "roofline": "#roofline",
        "table": "table",
    }
    seen = seen_in_chromium(path, boxes, click='[data-colours="layout"]')
    assert seen["errors"] == []
    assert {name for name, (wide, high) in seen["boxes"].items() if wide + high < 3} == set()
    assert seen["colour before"] != seen["colour after"], "a button changes what colours mean"
