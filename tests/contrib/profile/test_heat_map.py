"""The network coloured by time: its structure, because CI has no browser to draw it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.profile.heat_map import heat_map
from tvm_neocpu.contrib.profile.profile_network import PLAIN, Profile, ProfileRow
from tvm_neocpu.contrib.profile.watch_calls import Call
from tvm_neocpu.core.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.frontend.onnx_nodes import kth_of_equal

SHAPE = (1, 8, 6, 6)


def row(name: str, seconds: float) -> ProfileRow:
    return ProfileRow(Call(name, 0.0, seconds, 8), "8x6x6->8", PLAIN, "", "", 1, name)


def profile() -> Profile:
    """<a> and b are convolutions, sum joins them."""
    nodes = (
        GraphNode("1", NodeKind.CONV, "8x6x6->8 3x3", SHAPE),
        GraphNode("2", NodeKind.CONV, "8x6x6->8 1x1", SHAPE),
        GraphNode("3", NodeKind.JOIN, "add", SHAPE),
    )
    edges = (GraphEdge("1", "3", SHAPE, "a"), GraphEdge("2", "3", SHAPE, "b"))
    rows = {"1": row("<a>", 0.004), "2": row("b", 0.001)}
    whole = tuple(rows.values())
    return Profile(
        "net", "znver3", 1, Ceilings(100.0, 20.0), whole, 0.005, ConvGraph(nodes, edges), rows
    )


def test_every_node_is_drawn_with_its_time_and_every_edge() -> None:
    drawing = ElementTree.fromstring(heat_map(profile()))
    boxes = {group.get("data-node"): group for group in drawing.iter("g")}
    assert boxes.keys() == {"1", "2", "3"}
    assert len(list(drawing.iter("path"))) == 2
    texts = {node: [text.text for text in group.iter("text")] for node, group in boxes.items()}
    assert texts == {
        "1": ["<a>", "4.000 ms, 80.0%"],
        "2": ["b", "1.000 ms, 20.0%"],
        "3": ["add"],
    }


def test_the_slowest_is_the_hottest() -> None:
    fills = re.findall(r'<rect [^>]*fill="([^"]*)"', heat_map(profile()))
    assert fills == ["hsl(8 85% 55%)", "hsl(156 85% 83%)", "none"]


def test_a_network_without_such_nodes() -> None:
    empty = Profile("net", "znver3", 1, Ceilings(100.0, 20.0), (), 0.005)
    assert "no node" in heat_map(empty)


def test_the_kth_of_equal_keys() -> None:
    there = [("x", 1), ("y", 2), ("x", 3), ("z", 4)]
    assert kth_of_equal(["x", "x", "y", None, "no", "z", "z"], there) == [
        1,
        3,
        2,
        None,
        None,
        None,
        None,
    ]
