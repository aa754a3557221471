"""The page loads nothing, is well-formed, and shows every node."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from tvm_neocpu.contrib.explain import page
from tvm_neocpu.contrib.explain.as_json import as_json

VOID = {"meta"}


class Page(HTMLParser):
    """Every element with its attributes. Fails if tags are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def of_class(self, name: str) -> list[dict[str, str]]:
        return [a for _, a in self.elements if name in (a.get("class") or "").split()]


@pytest.fixture
def text(network):
    return page.render(network)


def test_it_is_well_formed_and_shows_every_node(network, text):
    shown = Page(text)
    nodes = {attributes["data-node"] for attributes in shown.of_class("node")}
    assert nodes == {row.node.id for row in network.explanation.nodes}
    graph = network.explanation.graph
    links = {(a["data-from"], a["data-to"]) for a in shown.of_class("edge")}
    assert links == {(edge.src, edge.dst) for edge in graph.edges} | {*graph.flows}
    flows = {(a["data-from"], a["data-to"]) for a in shown.of_class("flow")}
    assert flows == {*graph.flows} == {("s", "f")}
    assert len(shown.of_class("transform")) == len(network.explanation.transforms) == 2
    assert {a["data-colours"] for _, a in shown.elements if "data-colours" in a} == {
        "layout",
        "algorithm",
    }


def test_nothing_is_loaded(text):
    without_namespace = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|url\(|@import|\bsrc=|\bhref=|//\w+\.", without_namespace)
    assert "default-src 'none'" in text


def test_names_from_a_model_stay_text(text):
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(&quot;1&quot;)" in text
    assert Page(text).texts.count('<script>alert("1")</script>') >= 1


def test_the_data_is_that_of_json(network, text):
    block = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert json.loads(block.group(1)) == json.loads(json.dumps(as_json(network)))


def test_every_layout_and_algorithm_has_its_colour(network, text):
    legend = re.findall(r'<li><span style="--swatch:([^"]+)"></span>([^<]+)</li>', text)
    assert {name for _, name in legend} == {
        "NCHW",
        "NCHW16c",
        "boundary",
        "join",
        "dense",
        "direct",
        "winograd F(4x4)",
    }
    for colour, _ in legend:
        assert text.count(colour) > 1


def test_colours_never_run_out():
    names = [f"NCHW{block}c" for block in range(1, 40)]
    chosen = page.colours_of(["NCHW", *names], neutral=["NCHW"])
    assert chosen["NCHW"] == page.GREY
    assert len(set(chosen.values())) == 40


def test_what_the_plan_does_not_cover_is_shown(text, partly):
    assert "Not in the plan" not in text
    shown = Page(page.render(partly)).texts
    assert "Not in the plan" in shown
    assert "conv1d 1x3x64, 8x3x5 → 1x8x60" in shown
    assert "unknown" in shown
    assert "proven optimal for this part; 50.0% of the multiply-adds" in shown


def test_nothing_planned_is_no_time_at_all(unplanned):
    shown = Page(page.render(unplanned)).texts
    assert "the plan covers no operation" in shown
    assert not any("proven" in text for text in shown)


def test_groups_are_shown(network, grouped):
    assert "Groups of layers" in page.render(grouped)
    assert "Groups of layers" not in page.render(network)


def test_a_recurrent_layer_is_shown(recurrent):
    shown = page.render(recurrent)
    assert "<dt>1 LSTM</dt><dd>0.040 ms" in shown
    assert "LSTM 25 steps, batch 1, hidden 48" in shown
