"""Tuning one network: local search, transforms timed, global search, the plan logged."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import tvm

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.pipeline import fold, search_plan
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.target import CompileTarget
from tvm_neocpu.tuning.budget import Limits
from tvm_neocpu.tuning.candidates import candidates_of
from tvm_neocpu.tuning.history import History
from tvm_neocpu.tuning.log import TuningLog
from tvm_neocpu.tuning.meta_schedule_measurer import MetaScheduleMeasurer, Timing
from tvm_neocpu.tuning.network_caches import touched_bytes
from tvm_neocpu.tuning.progress import NoProgress, Progress, TuningResult
from tvm_neocpu.tuning.session import TunerFactory, grid, tune_tasks
from tvm_neocpu.tuning.tasks import tasks_of, transform_tasks
from tvm_neocpu.tuning.transform_costs import transforms_of

# One run at a time: before each, the caches are filled as other layers of the network fill them.
ONE_BY_ONE = Timing(number=1, repeat=12, min_repeat_ms=0)
# Share of the time budget that is kept for timing layout transforms.
TRANSFORM_SHARE = 0.1


@dataclass(frozen=True)
class TuneSummary:
    """What tuning one network came to; ``plan`` is ``None`` if it was interrupted before."""

    local: TuningResult
    transforms: TuningResult | None
    plan: Plan | None

    def __str__(self) -> str:
        if self.plan is None:
            return f"{self.local}; no plan yet, run again to go on"
        proof = "optimal" if self.plan.optimal else f"at least {self.plan.lower_bound * 1e3:.3f} ms"
        return f"{self.local}; plan of {self.plan.seconds * 1e3:.3f} ms predicted ({proof})"


def tune_network(
    mod: tvm.IRModule,
    target: CompileTarget,
    log: Path,
    *,
    limits: Limits | None = None,
    tuner: TunerFactory = grid,
    resume: bool = True,
    progress: Progress | None = None,
) -> TuneSummary:
    """Tune ``mod`` for ``target`` on ``target.cpu.cores`` threads and append all to ``log``.

    Raises LogError, before anything is measured, if the log cannot be written.
    """
    cpu, limits, progress = target.cpu, limits or Limits(), progress or NoProgress()
    journal = TuningLog(log)
    journal.check_writable()
    graph = ExtractConvGraph(cpu)(fold(mod, cpu))
    timing = replace(ONE_BY_ONE, touched=touched_bytes(graph))
    start = time.monotonic()
    with MetaScheduleMeasurer(target.target, cpu.name, cpu.cores, timing) as measurer:
        local = tune_tasks(
            tasks_of(graph, cpu),
            measurer,
            journal,
            tuner=tuner,
            limits=_seconds(limits, share=1 - TRANSFORM_SHARE),
            resume=resume,
            progress=progress,
        )
        if local.interrupted:
            return TuneSummary(local, None, None)
        schemes = _history(journal, cpu).schemes(graph.workloads)
        moves = transforms_of(graph, candidates_of(graph, cpu, schemes))
        transforms = tune_tasks(
            transform_tasks(moves, cpu),
            measurer,
            journal,
            limits=_seconds(limits, spent=time.monotonic() - start),
            resume=resume,
        )
    plan = search_plan(graph, cpu, _history(journal, cpu))
    journal.append_plan(plan, graph, cpu.name, cpu.cores)
    return TuneSummary(local, transforms, plan)


def _seconds(limits: Limits, share: float = 1.0, spent: float = 0.0) -> Limits:
    """The limits with a part of the time budget; at least a second, for one more candidate."""
    if limits.seconds is None:
        return limits
    return replace(limits, seconds=max(1.0, limits.seconds * share - spent))


def _history(journal: TuningLog, cpu: Cpu) -> History:
    """What this log alone knows: a plan is made of what was measured for it."""
    return History(cpu.name, cpu.cores, (journal.load(),))
