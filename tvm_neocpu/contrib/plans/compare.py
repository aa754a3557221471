"""Builds a network under each plan and times the builds in turns, each in its own process."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.compare import compare
from tvm_neocpu.contrib.peers.runner import Network, Runner
from tvm_neocpu.contrib.plans.result import (
    NetworkPlans,
    PlanResult,
    everything_else,
    median_calls,
    scheme_times,
)
from tvm_neocpu.contrib.plans.runner import CallTime, IsolatedPlan, Scheme
from tvm_neocpu.contrib.plans.spread import PricedPlan
from tvm_neocpu.core.machine.cores import allowed_cpus

_IN_PLACE = "the global plan's single calls"


def compare_plans(
    network: Network,
    graph: str,
    plans: Sequence[PricedPlan],
    runs: int,
    prices: Mapping[Scheme, float],
) -> NetworkPlans:
    """Time ``plans``, of which the global search's is first; ``graph`` is the conv graph's hash.

    ``prices`` are the seconds that the search was given for each (workload, config).
    Raises EngineError for a plan that cannot be built.
    """
    with contextlib.ExitStack() as processes:
        started = [processes.enter_context(plan) for plan in _build(network, plans)]
        watched = _Watched(started[0])
        runners: dict[str, Runner] = {
            plan.name: process for plan, process in zip(plans, started, strict=True)
        }
        # The machine's speed drifts, so single calls are timed between the plans' runs.
        timings = compare({**runners, _IN_PLACE: watched}, runs)
        share = min(process.core_share() for process in started)
    calls = median_calls(watched.rounds)
    rest = everything_else(calls)
    results = [PlanResult(p, p.seconds + rest, timings[p.name]) for p in plans]
    schemes = scheme_times(calls, prices)
    return NetworkPlans(network.name, graph, tuple(results), calls, schemes, share)


def _build(network: Network, plans: Sequence[PricedPlan]) -> list[IsolatedPlan]:
    """Build one plan per core at a time. If one fails, the processes of the others are ended."""
    built: list[IsolatedPlan] = []
    with ThreadPoolExecutor(len(allowed_cpus()) or 1) as pool:
        futures = [pool.submit(IsolatedPlan, network, priced.plan) for priced in plans]
    try:
        for future in futures:
            built.append(future.result())
    except BaseException:
        for future in futures:
            if future.exception() is None:
                future.result().close()
        raise
    return built


class _Watched:
    """A runner whose turns time the single calls of a plan; another runner times it as a whole."""

    def __init__(self, process: IsolatedPlan) -> None:
        self._process = process
        self.rounds: list[list[CallTime]] = []

    def burst(self, count: int) -> list[float]:
        calls = self._process.call_times(count)
        self.rounds.append(calls)
        return [sum(call.seconds for call in calls)] * count

    def outputs(self) -> list[NDArray[Any]]:
        return self._process.outputs()
