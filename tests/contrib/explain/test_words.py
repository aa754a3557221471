"""Texts for choices, layouts and times."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.contrib.explain import words
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.global_search.network.layout_graph import Option
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig


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
    depthwise = DepthwiseConfig(16, 16, 4)
    option = Option(Layout(16), Layout(16), 1.0, depthwise)
    assert words.choice(node, option) == "depthwise 16c -> 16c"
    assert words.algorithm(node, replace(option, config=TransformConfig())) == "layout_transform"
    assert words.layouts(Option(NCHW, NCHW)) == "NCHW"
