"""Tune one network: local search, layout transforms timed, global search, the plan logged.

    graph = ExtractConvGraph(cpu)(fold(mod, cpu))
    search = partial(search_plan, graph, cpu)
    tune_graph(graph, target, cpu, search, TuningLog("resnet50.log"))

The global search is passed in, since tuning imports neither passes nor solvers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from tvm.target import Target

from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.tuning.candidates import candidates_of
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.local_search.progress import NoProgress, Progress, TuningResult
from tvm_neocpu.tuning.local_search.tune_tasks import TunerFactory, grid, tune_tasks
from tvm_neocpu.tuning.measuring.local_measurer import LocalMeasurer, Timing
from tvm_neocpu.tuning.measuring.measurer import Measurer
from tvm_neocpu.tuning.measuring.network_caches import touched_bytes
from tvm_neocpu.tuning.plan_rounds import ROUNDS, PlanRounds, Search, measure_plan
from tvm_neocpu.tuning.tasks import tasks_of, transform_tasks
from tvm_neocpu.tuning.transform_costs import transforms_of

# (target, CPU name, threads, timing) -> a measurer that its ``with`` block closes.
MakeMeasurer = Callable[[Target, str, int, Timing], AbstractContextManager[Measurer]]

# One run per cost: before each run the caches are filled as the network's other layers fill them.
ONE_BY_ONE = Timing(number=1, repeat=12, min_repeat_ms=0)
# Shares of the time budget: for timing layout transforms, and for measuring what the plan takes
# unmeasured.
TRANSFORM_SHARE = 0.1
PLAN_SHARE = 0.15


@dataclass(frozen=True)
class TuneSummary:
    """The outcome of each part; ``None`` for a part that did not begin because of an interrupt."""

    local: TuningResult
    transforms: TuningResult | None
    search: PlanRounds | None

    @property
    def plan(self) -> Plan | None:
        return self.search.plan if self.search else None

    @property
    def interrupted(self) -> bool:
        parts = (self.local, self.transforms, self.search)
        return any(part.interrupted for part in parts if part is not None)

    def __str__(self) -> str:
        if self.plan is None:
            return f"{self.local}; no plan yet, run again to go on"
        return f"{self.local}; {self.search}"


def tune_graph(
    graph: ConvGraph,
    target: Target,
    cpu: Cpu,
    search: Search,
    log: TuningLog,
    *,
    limits: Limits | None = None,
    tuner: TunerFactory = grid,
    resume: bool = True,
    progress: Progress | None = None,
    rounds: int = ROUNDS,
    measurer: MakeMeasurer = LocalMeasurer,
) -> TuneSummary:
    """Tune the network for ``cpu`` on ``cpu.cores`` threads; append records and plan to ``log``.

    ``target`` compiles the candidates, ``search`` makes a plan for ``graph`` from a history.
    ``limits.trials`` bounds the local search alone, ``limits.seconds`` the whole call. Schemes and
    transforms that the plan takes unmeasured are measured afterwards, in at most ``rounds`` rounds.
    Without ``resume`` everything is measured again. Raises LogError, before anything is measured,
    if the log cannot be written.
    """
    limits, progress = limits or Limits(), progress or NoProgress()
    log.check_writable()
    timing = replace(ONE_BY_ONE, touched=touched_bytes(graph))
    start, since = time.monotonic(), 0.0 if resume else time.time()
    with measurer(target, cpu.name, cpu.cores, timing) as machine:
        local = tune_tasks(
            tasks_of(graph, cpu),
            machine,
            log,
            tuner=tuner,
            limits=_part(limits, 1 - TRANSFORM_SHARE - PLAN_SHARE),
            resume=resume,
            progress=progress,
        )
        if local.interrupted:
            return TuneSummary(local, None, None)
        tried = History(cpu.name, cpu.cores, (log.load(),)).tried(graph.workloads)
        moves = transforms_of(graph, candidates_of(graph, cpu, tried))
        transforms = tune_tasks(
            transform_tasks(moves, cpu),
            machine,
            log,
            limits=_part(limits, 1 - PLAN_SHARE, spent=time.monotonic() - start),
            resume=resume,
        )
        if transforms.interrupted:
            return TuneSummary(local, transforms, None)
        found = measure_plan(
            graph,
            cpu,
            search,
            machine,
            log,
            rounds=rounds,
            seconds=_part(limits, 1.0, spent=time.monotonic() - start).seconds,
            since=since,
            progress=progress,
        )
    if found.plan is not None:
        log.append_plan(found.plan, graph, cpu.name, cpu.cores)
    return TuneSummary(local, transforms, found)


def _part(limits: Limits, share: float, spent: float = 0.0) -> Limits:
    """The limits with ``share`` of their seconds, minus those spent; never less than a second.

    A second buys one more candidate.
    """
    if limits.seconds is None:
        return limits
    return replace(limits, seconds=max(1.0, limits.seconds * share - spent))
