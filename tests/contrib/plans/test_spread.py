"""Which plans are compared, and what is known of their times."""

from __future__ import annotations

import pytest

from tvm_neocpu.contrib.plans.spread import GLOBAL, GREEDY, plans_of
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.cost.ranking import ranked
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import LogContents


def test_the_global_plan_is_the_cheapest_and_the_random_ones_are_further_off(
    graph: ConvGraph,
) -> None:
    cpu = parse_target(None).cpu
    plans = plans_of(graph, cpu, History(cpu.name, cpu.cores), randoms=3, seed=0)
    lanes = cpu.lanes("float32")
    names = [name for plan in plans for name in plan.names]
    assert sorted(names) == sorted(
        [
            GLOBAL,
            GREEDY,
            f"all NCHW{lanes}c",
            *(f"random {n}%" for n in (33, 67, 100)),
        ]
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
