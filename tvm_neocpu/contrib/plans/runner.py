"""A network built under a given plan, in a process of its own: its runs and single calls timed."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.runner import Network, TimedRuns
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import apply_plan, compute_templates, fold, schedule_module
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.topi.schedule_function import anchor_of

# Prefix of Relax's own functions, such as allocation: each takes well under a microsecond.
_BUILTIN = "vm.builtin."

Scheme = tuple[Workload, Config]


@dataclass(frozen=True)
class BuiltPlan:
    """``schemes`` maps a function's name to what its template computes.

    Functions without a template are not in it; the search does not price them.
    """

    executable: relax.VMExecutable
    schemes: Mapping[str, Scheme]


@dataclass(frozen=True)
class CallTime:
    """One function of the network: its ``calls`` in a run, and their seconds together (median).

    ``scheme`` is what its template computes, None for a function without a template.
    """

    name: str
    scheme: Scheme | None
    calls: int
    seconds: float


def build_plan(mod: tvm.IRModule, plan: Plan, target: CompileTarget) -> BuiltPlan:
    """Build ``mod``, whose weights are constants, under ``plan``.

    Raises PlanError for the plan of another network.
    """
    folded = fold(mod, target.cpu)
    graph = ExtractConvGraph(target.cpu)(folded)
    altered = apply_plan(folded, plan, target.cpu)
    computed = compute_templates(altered, plan.by_layout(graph), target.cpu)
    schemes = {
        str(var.name_hint): scheme
        for var, func in computed.functions.items()
        if isinstance(func, tirx.PrimFunc) and (scheme := _scheme_of(func)) is not None
    }
    return BuiltPlan(tvm.compile(schedule_module(computed, target.cpu), target.target), schemes)


class PlanRunner(TimedRuns):
    """The network built under ``plan``, in this process."""

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
        self._result = self._main(*self._inputs)

    def outputs(self) -> list[NDArray[Any]]:
        several = not isinstance(self._result, tvm.runtime.Tensor)
        return [np.array(x.numpy()) for x in (self._result if several else [self._result])]

    def call_times(self, runs: int) -> list[CallTime]:
        """Every function's time inside the network, in caches as its neighbours leave them."""
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
    """An instrument of Relax's virtual machine, which calls it before and after every call."""

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
        return 0  # the machine goes on


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


def _scheme_of(func: tirx.PrimFunc) -> Scheme | None:
    anchor = anchor_of(Schedule(func))
    return None if anchor is None else (anchor.workload, anchor.config)
