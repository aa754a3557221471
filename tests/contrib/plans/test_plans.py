"""Comparing plans: which are compared, what is said of them, what is measured of each."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from rich.console import Console

from tvm_neocpu import pipeline
from tvm_neocpu.commands.bench import main
from tvm_neocpu.contrib.peers.compare import Timing
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.plans.report import as_json, show
from tvm_neocpu.contrib.plans.result import (
    NetworkPlans,
    PlanResult,
    everything_else,
    median_calls,
    scheme_times,
)
from tvm_neocpu.contrib.plans.runner import CallTime, PlanRunner
from tvm_neocpu.contrib.plans.spread import GLOBAL, GREEDY, PricedPlan, plans_of
from tvm_neocpu.core.config import ConvConfig, TransformConfig
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import ConvWorkload, TransformWorkload
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.cost.ranking import ranked
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import LogContents

MakeModel = Callable[..., onnx.ModelProto]
CHANNELS = 64


@pytest.fixture(scope="module")
def model(make_model: MakeModel) -> onnx.ModelProto:
    """A residual block, then pooling: (1, 64, 28, 28) -> (1, 64, 28, 28)."""
    nodes = [
        helper.make_node("Conv", ["data", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "a"], ["d"]),
        helper.make_node("Conv", ["d", "w2"], ["e"], pads=[0, 0, 0, 0]),
        helper.make_node(
            "MaxPool", ["e"], ["out"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]
        ),
    ]
    weights = {f"w{k}": (CHANNELS, CHANNELS, n, n) for k, n in enumerate((3, 3, 1))}
    shape = (1, CHANNELS, 28, 28)
    return make_model(nodes, shape=shape, weights=weights, out_shape=shape)


@pytest.fixture(scope="module")
def network(model: onnx.ModelProto) -> Network:
    return Network("block", model, {"data": (1, CHANNELS, 28, 28)}, threads=1)


@pytest.fixture(scope="module")
def graph(model: onnx.ModelProto) -> ConvGraph:
    cpu = parse_target(None).cpu
    mod, _ = from_onnx(model)
    return ExtractConvGraph(cpu)(pipeline.fold(mod, cpu))


def test_the_global_plan_is_the_cheapest_and_the_random_ones_are_further_off(
    graph: ConvGraph,
) -> None:
    cpu = parse_target(None).cpu
    plans = plans_of(graph, cpu, History(cpu.name, cpu.cores), randoms=3, seed=0)
    names = [name for plan in plans for name in plan.names]
    assert sorted(names) == sorted(
        [GLOBAL, GREEDY, f"all NCHW{cpu.lanes}c", *(f"random {n}%" for n in (33, 67, 100))]
    )
    assert GLOBAL in plans[0].names
    assert all(plan.seconds >= plans[0].seconds * (1 - 1e-9) for plan in plans)
    assert all(plan.plan.graph == graph.hash for plan in plans)
    assert all(plan.timed_seconds == 0 for plan in plans)  # no log, no measured time
    again = plans_of(graph, cpu, History(cpu.name, cpu.cores), randoms=3, seed=0)
    assert again == plans


def test_greedy_follows_a_log_and_knows_what_was_timed(graph: ConvGraph) -> None:
    cpu = parse_target(None).cpu
    workload = next(w for w in graph.workloads if w.kernel == (1, 1))
    config = ranked(workload, cpu)[-1].config
    record = Record(workload, config, (1e-9,), cpu.name, cpu.cores)
    history = History(cpu.name, cpu.cores, (LogContents((record,)),))
    plans = plans_of(graph, cpu, history, randoms=1, seed=0)
    greedy = next(plan for plan in plans if GREEDY in plan.names)
    assert config in greedy.plan.configs.values()
    assert greedy.timed_seconds == pytest.approx(1e-9)


def test_single_calls_know_their_schemes_and_add_up(network: Network, graph: ConvGraph) -> None:
    cpu = parse_target(None).cpu
    plan = plans_of(graph, cpu, History(cpu.name, cpu.cores), randoms=1, seed=0)[0].plan
    runner = PlanRunner(network, plan)
    runs = runner.burst(20)
    calls = runner.call_times(20)
    schemes = [call.scheme for call in calls if call.scheme]
    priced = [scheme for scheme in schemes if isinstance(scheme[0], ConvWorkload)]
    assert {scheme[0] for scheme in priced} == set(graph.workloads)
    assert {scheme[1] for scheme in priced} == set(plan.configs.values())
    assert any("pool" in call.name for call in calls if call.scheme is None)
    assert not any(call.name.startswith("vm.builtin") for call in calls)
    # On a machine that others use too, the least run is the one to compare with.
    assert 0.2 * min(runs) < sum(call.seconds for call in calls) < 20 * min(runs)
    assert 0 < runner.core_share() < 1.05


def slow_plan(graph: ConvGraph, times: float) -> Plan:
    """Every convolution with the cheapest config predicted to take ``times`` its best or more."""
    cpu = parse_target(None).cpu
    configs = {}
    seconds = 0.0
    for node in graph.convs:
        assert node.workload is not None
        order = ranked(node.workload, cpu)
        chosen = next((c for c in order if c.seconds >= times * order[0].seconds), order[-1])
        configs[node.id] = chosen.config
        seconds += chosen.seconds
    return Plan(graph.hash, configs, seconds=seconds)


@pytest.mark.slow
def test_plans_of_any_price_compute_the_same(network: Network, graph: ConvGraph) -> None:
    plans = [slow_plan(graph, times) for times in (1.0, 4.0, 16.0)]
    for better, worse in pairwise(plans):
        assert worse.seconds > 2 * better.seconds
    first, *others = [PlanRunner(network, plan) for plan in plans]
    for runner in (first, *others):
        assert len(runner.burst(2)) == 2
    for other in others:
        np.testing.assert_allclose(other.outputs()[0], first.outputs()[0], rtol=1e-3, atol=1e-3)


CONV = ConvWorkload(1, 16, 8, 8, 16, (1, 1))
CONFIG = ConvConfig(16, 16, 1)
MOVE = TransformWorkload(1, 16, 8, 8, 16, 0)
CALLS = (
    CallTime("conv", (CONV, CONFIG), 2, 3e-3),
    CallTime("fused_conv", (CONV, CONFIG), 1, 2e-3),
    CallTime("move", (MOVE, TransformConfig()), 1, 4e-4),
    CallTime("pool", None, 3, 5e-4),
)


def plan_result(names: tuple[str, ...], predicted: float, runs: tuple[float, ...]) -> PlanResult:
    priced = PricedPlan(names, Plan("g", {}, seconds=predicted - 5e-4), predicted / 2, 0.0)
    return PlanResult(priced, predicted, Timing(runs, 0.0))


def compared(**changes: object) -> NetworkPlans:
    plans = (
        plan_result((GLOBAL,), 6e-3, (5e-3, 4e-3, 6e-3)),
        plan_result((GREEDY,), 7e-3, (6e-3, 6e-3, 9e-3)),
        plan_result(("random 100%",), 9e-3, (7e-3, 7e-3, 7e-3)),
    )
    schemes = scheme_times(CALLS, {(CONV, CONFIG): 1e-3})
    return replace(NetworkPlans("net", "g", plans, CALLS, schemes), **changes)


def test_what_the_figures_come_to() -> None:
    network = compared()
    assert everything_else(CALLS) == network.everything_else == 5e-4
    assert network.transform_seconds == 4e-4
    (scheme,) = network.schemes
    assert (scheme.calls, scheme.predicted, scheme.in_network) == (3, 3e-3, 5e-3)
    assert network.plan(GLOBAL).error == pytest.approx(0.2)
    assert network.gain == pytest.approx(6 / 5)
    assert network.predicted_gain == pytest.approx(7 / 6)
    assert network.spearman == pytest.approx(1.0)
    low, high = network.gain_quartiles
    assert 1.2 <= low <= high <= 1.5
    assert compared(plans=network.plans[:2]).spearman is None


def test_the_rank_correlation_sees_a_wrong_order() -> None:
    plans = compared().plans
    swapped = (replace(plans[0], predicted=10e-3), *plans[1:])
    assert compared(plans=swapped).spearman == pytest.approx(-0.5)


def test_calls_of_several_rounds_are_medians() -> None:
    rounds = [[CallTime("f", None, 2, seconds)] for seconds in (1.0, 9.0, 2.0)]
    assert median_calls(rounds) == (CallTime("f", None, 2, 2.0),)


def test_the_table_and_its_conclusions() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    show([compared(core_share=0.5)], 1, console)
    text = " ".join(console.export_text().split())
    assert "+20.0%" in text
    assert "DISTURBED: the runs got 50% of their core" in text
    assert "Spearman) 1.00" in text
    json.dumps(as_json(compared()))


@pytest.mark.slow
def test_the_command(model: onnx.ModelProto, tmp_path: Path, capsys) -> None:
    onnx.save(model, tmp_path / "block.onnx")
    out = tmp_path / "out.json"
    argv = ["plan", str(tmp_path / "block.onnx"), "--random", "1", "--runs", "5"]
    assert main([*argv, "--json", str(out)]) == 0
    assert "global over greedy" in capsys.readouterr().out
    report = json.loads(out.read_text())
    assert {"machine", "threads", "commit", "time", "versions"} <= report.keys()
    (network,) = report["networks"]
    assert {"error", "spearman", "gain", "plans", "schemes", "everything_else_ms"} <= network.keys()
    for plan in network["plans"]:
        parts = plan["convolutions_ms"] + plan["transforms_ms"] + network["everything_else_ms"]
        assert plan["predicted_ms"] == pytest.approx(parts)
        assert plan["error"] == pytest.approx(plan["predicted_ms"] / plan["measured_ms"] - 1)


def test_a_log_that_is_not_there_is_said_in_one_line(capsys) -> None:
    assert main(["plan", "lenet", "--log", "/nowhere/at.all"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
