"""The table says all there is to say, in plain lines where nobody watches."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from tvm_neocpu.contrib.explain import table, words
from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork
from tvm_neocpu.core.config import ConvConfig, DepthwiseConfig, TransformConfig, WinogradConfig
from tvm_neocpu.core.layout import NCHW, Layout
from tvm_neocpu.global_search.network.layout_graph import Option


def printed(network: ExplainedNetwork, **options: object) -> str:
    text = io.StringIO()
    table.show(network, Console(file=text, **options))
    return text.getvalue()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_plain_rows(network):
    text = printed(network)
    assert text.isascii()
    rows = [cells(line) for line in text.splitlines() if line.startswith("| ")]
    assert rows[1] == [
        "1",
        "64x8x8->64 3x3 p1",
        "winograd F(4x4)",
        "16c -> 16c",
        "0.100",
        "direct NCHW -> 32c",
        "~0.200",
        "+0.094",
        "reg_n=7 th_bn=2 parallel_oc",
    ]
    assert rows[3][:5] == ["3", "add", "", "16c", ""]
    assert rows[4][2:8] == ["dense", "NCHW -> NCHW", "~0.010", "-", "", ""]
    assert rows[6][:2] == ['<script>alert("1")</script>', "1: 64x8x8->64 3x3 p1"]
    assert rows[6][2:] == ["1x64x8x8", "NCHW -> 16c", "0.005", "impossible", "+0.094"]


def test_the_sum(network):
    lines = printed(network).splitlines()
    assert "tiny on testcpu, 2 threads" in lines[0]
    assert lines[-3:] == [
        "tiny: 0.160 ms predicted = 0.150 in kernels + 0.010 in 2 transforms; proven optimal",
        "the fastest scheme at every node: 0.164 ms (+2.50%)",
        "chosen by a search",
    ]


def test_a_gap_is_said(network):
    found = network.explanation
    open_end = replace(found, optimal=False, lower_bound=found.seconds * 0.9, greedy_seconds=None)
    text = printed(replace(network, explanation=open_end))
    assert "no choice is below 0.144 ms, a gap of 10.00%" in text
    assert "fastest scheme" not in text


def test_on_a_terminal_it_has_proper_lines(network):
    text = printed(network, force_terminal=True, color_system=None, width=100)
    assert "╭" in text
    assert max(map(len, text.splitlines())) == 100


def test_what_is_unknown_or_impossible():
    assert words.extra_ms(None, 1.0) == "?"
    assert words.extra_ms(float("inf"), 1.0) == "impossible"
    assert words.extra_ms(1.0 - 1e-12, 1.0) == "+0.000"
    assert words.extra_ms(0.999, 1.0) == "-1.000"


def test_schedules_in_few_words():
    assert words.schedule(None) == ""
    assert words.schedule(ConvConfig(16, 32, 14, False, oh_bn=7)) == (
        "reg_n=14 unroll_ker=False oh_bn=7"
    )
    assert words.schedule(WinogradConfig(16, 32, 4, 7)) == "reg_n=7"
    assert words.schedule(TransformConfig()) == ""


def test_algorithms_and_layouts(network):
    node = network.explanation.graph.nodes[1]
    depthwise = DepthwiseConfig(16, 4)
    option = Option(Layout(16), Layout(16), 1.0, depthwise)
    assert words.choice(node, option) == "depthwise 16c -> 16c"
    assert words.algorithm(node, replace(option, config=TransformConfig())) == "layout_transform"
    assert words.layouts(Option(NCHW, NCHW)) == "NCHW"
