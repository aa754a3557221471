"""The board at the start of a session: a seat for each workload, with what logs know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.in_network.processes.crew import Crew
from tvm_neocpu.tuning.in_network.processes.machine import Run, Scheme, seconds_of
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.rounds.beside import MakeRecord, beside_records
from tvm_neocpu.tuning.in_network.rounds.board import (
    FAILED_BEFORE,
    SETTLED_SHARE,
    Board,
    Estimate,
    Seat,
)
from tvm_neocpu.tuning.in_network.rounds.stand_ins import StandIns
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tuners import TUNERS, Ranker, Tuner, learned

# Timed inferences of the incumbent that say what its layers take.
REFERENCE_RUNS = 10
# The log-error of a ratio that another session confirmed: its clock and its incumbent were others.
RESUMED_ERROR = 0.01
# Workloads of other networks that teach the ranker, the latest ones, and records of each.
LESSONS, RECORDS_OF_LESSON = 120, 40
# Configs of a space that say which knobs there are.
SAMPLE = 50


@dataclass(frozen=True)
class Choices:
    """How a session searches: the tuner's name and seed, all candidates or promising ones alone.

    ``trials`` bounds the candidates of a workload. Without ``resume`` logs do not count.
    """

    tuner: str = next(iter(TUNERS))
    seed: int = 0
    exhaustive: bool = False
    resume: bool = True
    trials: int | None = None


def make_tuners(
    tasks: Sequence[Task], choices: Choices, known: History, cpu: Cpu
) -> dict[Workload, Tuner]:
    """A tuner for each task. The default tuners learned from other networks of this CPU before."""
    if choices.tuner == "learned":
        make = learned(tasks, choices.seed, _taught(tasks, known, cpu))
    else:
        make = TUNERS[choices.tuner](tasks, choices.seed)
    return {task.workload: make(task) for task in tasks}


def timeable(task: Task, stand_ins: StandIns) -> Task:
    """The task without the configs that no stand-in can have.

    They would never be measured, and what a tuner promises for them would keep the layer open.
    """
    workload = task.workload
    if stand_ins.can_time_all(workload):
        return task
    space = tuple(config for config in task.space if stand_ins.can_time(workload, config))
    favoured = tuple(config for config in task.favoured if stand_ins.can_time(workload, config))
    return replace(task, space=space, favoured=favoured)


def seated(
    tasks: Sequence[Task],
    tuners: Mapping[Workload, Tuner],
    graph: ConvGraph,
    incumbent: Plan,
    crew: Crew,
    known: History,
    choices: Choices,
    make_record: MakeRecord,
) -> Board:
    """A seat for each workload, with what its calls take in the network as it is.

    The board has the network's transforms and sweeps, too.

    Raises ChildError if the network as it is does not run.
    """
    runs: list[Run] = crew.ask(0, "times", (INCUMBENT,), REFERENCE_RUNS)[INCUMBENT]
    calls: dict[Scheme, int] = crew.ask(0, "calls", INCUMBENT)
    # The fastest run: others were disturbed, one layer more than another.
    network = min(sum(run.values()) for run in runs)
    seats = {}
    for task in tasks:
        count = sum(n for scheme, n in calls.items() if scheme[0] == task.workload)
        if not count:  # nothing of the network is computed by this workload's templates
            continue
        total = min(seconds_of(task.workload, run) for run in runs)
        nodes = [node for node in graph.convs if node.workload == task.workload]
        configs = frozenset(incumbent.configs[node.id] for node in nodes)
        tuner = tuners[task.workload]
        seat = Seat(task, tuner, configs, total / count, total / network, calls=count)
        seat.trials, seat.exhaustive = choices.trials, choices.exhaustive
        if choices.resume:
            _resume(seat, known)
        for config in seat.incumbent:
            tuner.observe(config, seat.seconds)
        seats[task.workload] = seat
    beside = beside_records(runs, calls, 1.0, make_record)
    return Board(seats, network, {record.workload: record for record in beside})


def _taught(tasks: Sequence[Task], known: History, cpu: Cpu) -> Ranker:
    """A ranker that has learned from records of other networks."""
    ranker = Ranker([(task.workload, task.space[:SAMPLE]) for task in tasks])
    own = {task.workload for task in tasks}
    others = [workload for workload in known.best_records.recorded if workload not in own]
    for workload in others[-LESSONS:]:
        if isinstance(workload, (TransformWorkload, SweepWorkload)):
            continue
        for record in known.best_records.ascending(workload)[:RECORDS_OF_LESSON]:
            predicted = predict_seconds(workload, record.config, cpu)
            ranker.learn(workload, record.config, predicted, record.read_seconds)
    return ranker


def _resume(seat: Seat, known: History) -> None:
    """Ratios that logs know, against their own record of the incumbent.

    Those that an earlier session had confirmed count as such; of a first reading, another one is
    asked for as in that session.
    """
    doubt = known.noise(seat.workload)
    if doubt is not None and not seat.exhaustive:
        # It may be a larger part of this network than of the one in which it was settled.
        seat.closed, seat.doubt = doubt * seat.weight < SETTLED_SHARE, doubt
    seat.hints = known.hints(seat.workload)
    records = {r.config: r for r in known.tried((seat.workload,)).get(seat.workload, ())}
    before = [records[c].seconds for c in seat.incumbent if c in records and records[c].ok]
    seat.unit = min(before, default=seat.seconds)
    space = set(seat.task.space)
    for config, record in records.items():
        if config in seat.incumbent or config not in space:
            continue
        if not record.ok:
            seat.fail(config, FAILED_BEFORE)
        elif before:
            spread = math.log(max(record.costs) / min(record.costs)) / 4
            error = RESUMED_ERROR if record.confirmed else max(spread, RESUMED_ERROR)
            ratio = Ratio(math.log(record.read_seconds / seat.unit), error)
            readings = record.readings or 2  # a line of an older version does not say
            seat.estimates[config] = Estimate([ratio], resumed=True, before=readings)
            seat.tuner.observe(config, seat.seconds * ratio.value)
