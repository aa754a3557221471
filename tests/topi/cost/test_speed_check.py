"""Which networks are called slow, and what is named."""

from __future__ import annotations

import warnings

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.messages.fallback import Coverage, Fallback, Fixed
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost import speed_check
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.cost.speed_check import SlowNetworkWarning, slow_report, warn_if_slow

CPU = Cpu("haswell", AVX2, cores=2)
CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))
GRAPH = ConvGraph((GraphNode("n", NodeKind.CONV, "a conv", (1, 64, 56, 56), CONV),), ())
PLAN = Plan(GRAPH.hash, {"n": best_per_layout(CONV, CPU)[0].config})
FAST = Coverage(CONV.flops)


def conv3d(flops: int | None) -> Fallback:
    return Fallback("conv3d", "1x3x9 -> 1x8x9", "no template for this operator", flops)


def test_a_network_of_templates_is_fast() -> None:
    assert slow_report(GRAPH, PLAN, FAST, CPU) is None


def test_fallbacks_with_most_of_the_arithmetic_are_named_first() -> None:
    most = Coverage(CONV.flops, (conv3d(10 * CONV.flops), conv3d(None)))
    report = slow_report(GRAPH, PLAN, most, CPU)
    assert report is not None and "\n" not in report
    assert "is lost in conv3d 1x3x9 -> 1x8x9 (no template for this operator) (" in report
    assert slow_report(GRAPH, PLAN, Coverage(CONV.flops, (conv3d(CONV.flops // 10),)), CPU) is None


def test_what_is_unknown_or_small_says_nothing() -> None:
    assert slow_report(GRAPH, PLAN, Coverage(CONV.flops, (conv3d(None),)), CPU) is None
    nothing = ConvGraph((), ())
    assert slow_report(nothing, Plan(nothing.hash, {}), Coverage(0, (conv3d(1000),)), CPU) is None


def test_a_template_that_is_slow_by_prediction_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed_check, "predict_seconds", lambda *_: 0.2)
    with pytest.warns(SlowNetworkWarning, match=r"about 200.0 ms on haswell.* a conv \(200.00 ms"):
        warn_if_slow(GRAPH, PLAN, FAST, CPU)


def test_a_fast_network_has_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_slow(GRAPH, PLAN, FAST, CPU)


def test_a_recurrent_layer_is_as_fast_as_its_steps_let_it_be() -> None:
    layer = Fixed("LSTM", "25 steps", "recurrence", 1000, 0.5)
    assert slow_report(GRAPH, PLAN, Coverage(CONV.flops, (), (layer,)), CPU) is None
