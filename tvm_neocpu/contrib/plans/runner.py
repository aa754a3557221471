"""A plan's network in a process of its own: its runs timed, and on demand its single calls."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.runner import Network, TimedRuns
from tvm_neocpu.contrib.plans.build import Scheme, build_plan
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.targets import parse_target

# relax's own functions: allocation and the like, well under a microsecond each.
_BUILTIN = "vm.builtin."


@dataclass(frozen=True)
class CallTime:
    """One function of the network: median seconds of all its calls in a run together.

    ``scheme`` is what its template computes, None where no template had a hand in it.
    """

    name: str
    scheme: Scheme | None
    calls: int
    seconds: float


class PlanRunner(TimedRuns):
    """The network as ``plan`` has it."""

    def __init__(self, network: Network, plan: Plan) -> None:
        mod, _ = from_onnx(network.model, network.shapes)
        built = build_plan(mod, plan, parse_target(network.target))
        self._schemes = built.schemes
        self._code = built.executable.jit()
        self._main = relax.VirtualMachine(self._code, tvm.cpu())["main"]
        arrays = network.inputs
        self._inputs = [tvm.runtime.tensor(arrays[str(p.name)]) for p in mod["main"].params]
        self._result: Any = None
        self._wall = self._busy = 0.0

    def burst(self, count: int) -> list[float]:
        """As every runner does; notes on the way how much of its core it got."""
        wall, busy = time.perf_counter(), time.thread_time()
        seconds = super().burst(count)
        self._wall += time.perf_counter() - wall
        self._busy += time.thread_time() - busy
        return seconds

    def core_share(self) -> float:
        """CPU time over wall time of all runs; below 1 another process was on the same core.

        It holds for any number of threads: this one works in every parallel region, or spins.
        """
        return self._busy / self._wall if self._wall else 1.0

    def run(self) -> None:
        self._result = self._main(*self._inputs)

    def outputs(self) -> list[NDArray[Any]]:
        several = not isinstance(self._result, tvm.runtime.Tensor)
        return [np.array(x.numpy()) for x in (self._result if several else [self._result])]

    def call_times(self, runs: int) -> list[CallTime]:
        """Every function's time inside the network, where caches are as they are there."""
        machine = relax.VirtualMachine(self._code, tvm.cpu())
        watch = _Watch()
        machine.set_instrument(watch)
        main = machine["main"]
        main(*self._inputs)
        totals: dict[str, list[float]] = defaultdict(list)
        counts: Counter[str] = Counter()
        for _ in range(runs):
            watch.calls.clear()
            main(*self._inputs)
            for name, calls in watch.calls.items():
                totals[name].append(sum(calls))
                counts[name] = len(calls)
        return [
            CallTime(name, self._schemes.get(name), counts[name], median(sums))
            for name, sums in totals.items()
        ]


class _Watch:
    """Relax's instrument: called before and after every call."""

    def __init__(self) -> None:
        self.calls: dict[str, list[float]] = defaultdict(list)
        self._start = 0.0

    def __call__(self, _: Any, name: str, before: bool, *__: Any) -> int:
        if before:
            self._start = time.perf_counter()
        else:
            seconds = time.perf_counter() - self._start
            if not name.startswith(_BUILTIN):
                self.calls[name].append(seconds)
        return 0  # go on


class IsolatedPlan(IsolatedRunner):
    """A :class:`PlanRunner` in a process of its own; raises EngineError with what building did."""

    def __init__(self, network: Network, plan: Plan) -> None:
        super().__init__(partial(PlanRunner, network, plan))

    def call_times(self, runs: int) -> list[CallTime]:
        times: list[CallTime] = self._ask(("call_times", runs))
        return times

    def core_share(self) -> float:
        share: float = self._ask(("core_share",))
        return share
