"""A plan made of measurements alone: search, measure what the plan takes unmeasured, search again.

In NeoCPU, section 3.3.2, every scheme is measured before the global search. After few trials the
cost model prices the others, and the search picks exactly the schemes and transforms whose price is
most below their true time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.tuning.database.best_records import BestRecords
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import LogContents, TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.local_search.interrupt import Interrupts
from tvm_neocpu.tuning.local_search.progress import NoProgress, Progress, TuningResult
from tvm_neocpu.tuning.local_search.tune_tasks import tune_tasks
from tvm_neocpu.tuning.measuring.measurer import Measurer
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tasks import tasks_of, transform_tasks
from tvm_neocpu.tuning.transform_costs import transforms_in

# Few layout pairs of a workload are priced as fast as its best, and a round corrects at least one.
ROUNDS = 8

# What is known so far -> a plan for the graph.
Search = Callable[[History], Plan]


@dataclass(frozen=True)
class PlanRounds:
    """The outcome: ``plan`` (``None`` after an interrupt) and the measurements made for it.

    ``unmeasured`` counts the schemes and transforms of the plan that only the cost model priced.
    """

    plan: Plan | None
    rounds: tuple[TuningResult, ...] = ()
    unmeasured: int = 0

    @property
    def interrupted(self) -> bool:
        return self.plan is None

    @property
    def measured(self) -> int:
        return sum(result.measured for result in self.rounds)

    def __str__(self) -> str:
        if self.plan is None:
            return "no plan yet"
        bound = f"at least {self.plan.lower_bound * 1e3:.3f} ms"
        proof = "optimal" if self.plan.optimal else bound
        more = f", {self.measured} more measured for it" if self.measured else ""
        trust = f", {self.unmeasured} of its parts not measured" if self.unmeasured else ""
        return f"plan of {self.plan.seconds * 1e3:.3f} ms predicted ({proof}){more}{trust}"


def measure_plan(
    graph: ConvGraph,
    cpu: Cpu,
    search: Search,
    measurer: Measurer,
    log: TuningLog,
    *,
    rounds: int = ROUNDS,
    seconds: float | None = None,
    since: float = 0.0,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> PlanRounds:
    """Search over what the log knows until the plan takes nothing unmeasured.

    Each round measures the plan's unmeasured schemes and transforms and appends them to the log.
    There are at most ``rounds`` rounds, and none begins after ``seconds``; a search follows the
    last one. Records older than ``since`` (seconds since the epoch) do not count as measured.
    Ctrl-C and SIGTERM end it cleanly: every finished measurement is in the log. Raises LogError if
    the log cannot be written.
    """
    deadline = math.inf if seconds is None else clock() + seconds
    progress = progress or NoProgress()
    done: list[TuningResult] = []
    try:
        with Interrupts():
            while True:
                known = log.load()
                plan = search(History(measurer.cpu, measurer.threads, (known,)))
                tasks = unmeasured_tasks(graph, cpu, plan, _since(since, known, measurer))
                left = deadline - clock()
                if not tasks or len(done) >= rounds or left <= 0:
                    return PlanRounds(plan, tuple(done), _count(tasks))
                progress.phase(_title(len(done) + 1, rounds, tasks))
                # All of it is unmeasured: nothing to resume, and no early end for lack of progress.
                limits = Limits(seconds=None if left == math.inf else left, patience=None)
                result = tune_tasks(
                    tasks, measurer, log, limits=limits, resume=False, progress=progress
                )
                done.append(result)
                if result.interrupted:
                    break
    except KeyboardInterrupt:
        # Interrupted between two rounds: every measurement is in the log already.
        pass
    return PlanRounds(None, tuple(done))


def unmeasured_tasks(
    graph: ConvGraph, cpu: Cpu, plan: Plan, known: BestRecords
) -> tuple[Task, ...]:
    """Tasks for what the plan takes that was not tried under this thread count.

    A task's space is the untried configs only. A config that failed counts as tried.
    """
    wanted: dict[Workload, dict[Config, None]] = {}
    for node in graph.convs:
        assert node.workload is not None
        config = plan.configs[node.id]
        if config not in known.measured(node.workload):
            wanted.setdefault(node.workload, {})[config] = None
    schemes = [
        replace(task, space=tuple(wanted[task.workload]))
        for task in tasks_of(graph, cpu)
        if task.workload in wanted
    ]
    moves = [move for move in transforms_in(graph, plan) if not known.measured(move)]
    return (*schemes, *transform_tasks(moves, cpu))


def _since(since: float, known: LogContents, measurer: Measurer) -> BestRecords:
    records = (record for record in known.records if record.timestamp >= since)
    return BestRecords(records, measurer.cpu, measurer.threads)


def _count(tasks: tuple[Task, ...]) -> int:
    return sum(len(task.space) for task in tasks)


def _title(number: int, rounds: int, tasks: tuple[Task, ...]) -> str:
    return (
        f"the plan takes {_count(tasks)} schemes and transforms that are not measured yet: "
        f"measuring them (round {number} of at most {rounds})"
    )
