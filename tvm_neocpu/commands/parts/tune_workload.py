"""`tune --workload TEXT`: one layer without a network, each candidate timed alone."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED
from tvm_neocpu.core.errors import NeoCpuError, WorkloadTextError
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.topi.workload_text import parse_workload
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.database.turns import measuring_turn
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.local_search.terminal_progress import progress_for
from tvm_neocpu.tuning.local_search.tune_tasks import tune_tasks
from tvm_neocpu.tuning.measuring.local_measurer import LocalMeasurer, Timing
from tvm_neocpu.tuning.tasks import task_of
from tvm_neocpu.tuning.tuners import TUNERS

# What passes through the caches before each run, in bytes: the other layers of a network.
TOUCHED = 64 << 20
ASSUMED = (
    "no network: each candidate runs alone, without residuals or neighbours, its input and weights "
    "read from memory"
)


def tune_workload(options: argparse.Namespace, target: CompileTarget, log: TuningLog) -> int:
    """Tune the layer that ``options.workload`` names; returns the exit code.

    Raises WorkloadTextError for a text that no operator reads.
    """
    workload, cpu = parse_workload(options.workload), target.cpu
    task = task_of(workload, cpu)
    if not task.space:
        raise WorkloadTextError(f"no template computes {workload} on {cpu.name}")
    where = f"{cpu.name}, {plural(cpu.cores, 'thread')}"
    print(f"{workload} on {where} -> {log.path}; {ASSUMED}", flush=True)
    timing = Timing(number=1, repeat=12, min_repeat_ms=0, touched=TOUCHED)
    patience = None if options.exhaustive else Limits().patience
    make_tuner = TUNERS[options.tuner]([task], options.seed)
    turn = measuring_turn(partial(print, flush=True))
    with turn, LocalMeasurer(target.target, cpu.name, cpu.cores, timing) as measurer:
        result = tune_tasks(
            [task],
            measurer,
            log,
            tuner=make_tuner,
            limits=Limits(options.trials, seconds=options.time_budget, patience=patience),
            resume=options.resume,
            progress=progress_for(sys.stdout),
        )
    if result.interrupted:
        return INTERRUPTED
    if result.failed and all(task.best is None for task in result.tasks):
        raise NeoCpuError(f"no candidate of {workload} could be measured; {log.path} says why")
    return 0
