"""A network under a plan: its outputs, its runs, its single calls."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.plans.runner import PlanRunner
from tvm_neocpu.contrib.plans.spread import plans_of
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import ranked
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.tuning.database.history import History


def test_single_calls_know_their_schemes_and_times(network: Network, graph: ConvGraph) -> None:
    cpu = parse_target(None).cpu
    plan = plans_of(graph, cpu, History(cpu.name, cpu.cores), randoms=1, seed=0)[0].plan
    runner = PlanRunner(network, plan)
    runs = runner.burst(20)
    calls = runner.call_times(20)
    schemes = [call.scheme for call in calls if call.scheme]
    priced = [scheme for scheme in schemes if isinstance(scheme[0], ConvWorkload)]
    assert {scheme[0] for scheme in priced} == set(graph.workloads)
    assert {scheme[1] for scheme in priced} == set(plan.configs.values())
    (pool,) = (call for call in calls if "pool" in call.name)
    assert pool.scheme is not None and isinstance(pool.scheme[0], SweepWorkload)
    assert not any(call.name.startswith("vm.builtin") for call in calls)
    assert len(runs) == 20 and min(runs) > 0
    assert all(call.seconds > 0 for call in calls)
    assert 0 < runner.core_share() < 1.05


def slow_plan(graph: ConvGraph, times: float) -> Plan:
    """Each convolution has the cheapest config predicted at ``times`` its best time or more."""
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
