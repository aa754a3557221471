"""A network built under a given plan, in a process of its own: its runs and single calls timed."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import tvm
from numpy.typing import NDArray

from tvm_neocpu.codegen.network import compile_network
from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.runner import Network, TimedRuns
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.tuning.in_network.processes.clock import argument_seconds
from tvm_neocpu.tuning.in_network.processes.machine import Scheme
from tvm_neocpu.tuning.in_network.processes.watch import WatchedNetwork, arrays_of


@dataclass(frozen=True)
class CallTime:
    """One function of the network: its ``calls`` in a run, and their seconds together (median).

    ``scheme`` is what its template computes, None for a function without a template.
    """

    name: str
    scheme: Scheme | None
    calls: int
    seconds: float


class PlanRunner(TimedRuns):
    """The network built under ``plan``, in this process. Raises PlanError for a foreign plan."""

    def __init__(self, network: Network, plan: Plan) -> None:
        folded = open_onnx(network.content, network.shapes, network.target)
        lowered = folded.lower(plan)
        self._schemes = lowered.schemes
        code = compile_network(lowered.module, folded.target).jit()
        self._network = WatchedNetwork(
            code, [tvm.runtime.tensor(a) for a in folded.inputs], argument_seconds()
        )
        self._wall = self._busy = 0.0

    def burst(self, count: int) -> list[float]:
        """Seconds of each of ``count`` runs; also adds up wall time and CPU time."""
        wall, busy = time.perf_counter(), time.thread_time()
        seconds = super().burst(count)
        self._wall += time.perf_counter() - wall
        self._busy += time.thread_time() - busy
        return seconds

    def core_share(self) -> float:
        """CPU time over wall time of all runs; below 1, another process took part of the core.

        This holds for any number of threads: the main thread works in every parallel region, or
        spins.
        """
        return self._busy / self._wall if self._wall else 1.0

    def run(self) -> None:
        self._network.run()

    def outputs(self) -> list[NDArray[Any]]:
        return arrays_of(self._network.result)

    def call_times(self, runs: int) -> list[CallTime]:
        """Every function's time inside the network, in caches as its neighbours leave them."""
        self._network.timed()
        totals: dict[str, list[float]] = defaultdict(list)
        counts: Counter[str] = Counter()
        for _ in range(runs):
            for name, seconds in self._network.timed().items():
                totals[name].append(seconds)
            counts.update(self._network.calls)
        return [
            CallTime(name, self._schemes.get(name), counts[name] // runs, median(sums))
            for name, sums in totals.items()
        ]


class IsolatedPlan(IsolatedRunner):
    """A :class:`PlanRunner` in a process of its own. Raises EngineError if building fails."""

    def __init__(self, network: Network, plan: Plan) -> None:
        super().__init__(partial(PlanRunner, network, plan))

    def call_times(self, runs: int) -> list[CallTime]:
        times: list[CallTime] = self._ask("call_times", runs)
        return times

    def core_share(self) -> float:
        share: float = self._ask("core_share")
        return share
