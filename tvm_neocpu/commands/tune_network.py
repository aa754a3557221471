"""Tuning one network: local search, transforms timed, global search, the plan logged."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import tvm

from tvm_neocpu.core.plan import Plan
from tvm_neocpu.pipeline import fold, search_plan
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.tuning.candidates import candidates_of
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.measuring.meta_schedule import MetaScheduleMeasurer, Timing
from tvm_neocpu.tuning.measuring.network_caches import touched_bytes
from tvm_neocpu.tuning.search.budget import Limits
from tvm_neocpu.tuning.search.local_search import TunerFactory, grid, tune_tasks
from tvm_neocpu.tuning.search.plan_rounds import ROUNDS, PlanRounds, measure_plan
from tvm_neocpu.tuning.search.progress import NoProgress, Progress, TuningResult
from tvm_neocpu.tuning.tasks import tasks_of, transform_tasks
from tvm_neocpu.tuning.transform_costs import transforms_of

# One run at a time: before each, the caches are filled as other layers of the network fill them.
ONE_BY_ONE = Timing(number=1, repeat=12, min_repeat_ms=0)
# Shares of the time budget kept for timing layout transforms, and what the plan takes unmeasured.
TRANSFORM_SHARE = 0.1
PLAN_SHARE = 0.15


@dataclass(frozen=True)
class TuneSummary:
    """What tuning one network came to; what an interrupt kept from beginning is ``None``."""

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


def tune_network(
    mod: tvm.IRModule,
    target: CompileTarget,
    log: Path,
    *,
    limits: Limits | None = None,
    tuner: TunerFactory = grid,
    resume: bool = True,
    progress: Progress | None = None,
    rounds: int = ROUNDS,
) -> TuneSummary:
    """Tune ``mod`` for ``target`` on ``target.cpu.cores`` threads and append all to ``log``.

    ``limits`` on trials are the local search's. What the plan takes of schemes and transforms that
    were not measured by then is measured afterwards, in at most ``rounds`` rounds. Raises LogError,
    before anything is measured, if the log cannot be written.
    """
    cpu, limits, progress = target.cpu, limits or Limits(), progress or NoProgress()
    journal = TuningLog(log)
    journal.check_writable()
    graph = ExtractConvGraph(cpu)(fold(mod, cpu))
    timing = replace(ONE_BY_ONE, touched=touched_bytes(graph))
    start, since = time.monotonic(), 0.0 if resume else time.time()
    with MetaScheduleMeasurer(target.target, cpu.name, cpu.cores, timing) as measurer:
        local = tune_tasks(
            tasks_of(graph, cpu),
            measurer,
            journal,
            tuner=tuner,
            limits=_seconds(limits, share=1 - TRANSFORM_SHARE - PLAN_SHARE),
            resume=resume,
            progress=progress,
        )
        if local.interrupted:
            return TuneSummary(local, None, None)
        tried = History(cpu.name, cpu.cores, (journal.load(),)).tried(graph.workloads)
        moves = transforms_of(graph, candidates_of(graph, cpu, tried))
        spent = time.monotonic() - start
        transforms = tune_tasks(
            transform_tasks(moves, cpu),
            measurer,
            journal,
            limits=_seconds(limits, share=1 - PLAN_SHARE, spent=spent),
            resume=resume,
        )
        if transforms.interrupted:
            return TuneSummary(local, transforms, None)
        found = measure_plan(
            graph,
            cpu,
            partial(search_plan, graph, cpu),
            measurer,
            journal,
            rounds=rounds,
            seconds=_seconds(limits, spent=time.monotonic() - start).seconds,
            since=since,
            progress=progress,
        )
    if found.plan is not None:
        journal.append_plan(found.plan, graph, cpu.name, cpu.cores)
    return TuneSummary(local, transforms, found)


def _seconds(limits: Limits, share: float = 1.0, spent: float = 0.0) -> Limits:
    """The limits with a part of the time budget; at least a second, for one more candidate."""
    if limits.seconds is None:
        return limits
    return replace(limits, seconds=max(1.0, limits.seconds * share - spent))
