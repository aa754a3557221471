"""Rounds with scripted processes: ratios reach the board, failures are narrowed down to one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.tuning.fleet.remote_workers import RemoteWorkers
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, STAND_IN
from tvm_neocpu.tuning.in_network.rounds.board import Board, Seat
from tvm_neocpu.tuning.in_network.rounds.rounds import Rounds, error_number
from tvm_neocpu.tuning.in_network.rounds.stand_ins import StandIns
from tvm_neocpu.tuning.measuring.child_process import ChildDied, ChildError
from tvm_neocpu.tuning.measuring.measurer import MeasureErrorNo
from tvm_neocpu.tuning.tuners.grid import GridTuner

CHANNELS = (32, 64, 96, 128)


class ScriptedWorkers:
    """Answers with ``true_ratio`` of the config; configs in ``broken`` do not build."""

    baseline = 5e-3

    def __init__(self, graph: ConvGraph, incumbent: Plan, true_ratio, broken=()) -> None:
        self._graph, self._incumbent = graph, incumbent
        self._ratio, self._broken = true_ratio, set(broken)
        self._plans: list[Plan] = []
        self.builds = 0

    def __len__(self) -> int:
        return 1

    def build(self, plans: Sequence[Plan], views: bool) -> list[ChildError | None]:
        assert views
        self._plans = list(plans)
        self.builds += len(plans)
        return [
            ChildDied("its process ended with code -11")
            if self._broken & set(plan.configs.values())
            else None
            for plan in plans
        ]

    def times(self, index: int, runs: int):
        def run(plan: Plan):
            return {
                (n.workload, plan.configs[n.id]): 1e-3 * self._ratio(plan.configs[n.id])
                for n in self._graph.convs
            }

        plans = {STAND_IN: self._plans[index], INCUMBENT: self._incumbent}
        return {slot: [run(plan)] * runs for slot, plan in plans.items()}


@pytest.fixture
def play(make_task, space):
    """Plays rounds over four layers until nothing is left; returns board, records and workers."""

    def run(true_ratio, broken=(), rounds: int = 400, not_run: tuple[int, ...] = ()):
        tasks = [make_task(str(c), c) for c in (*CHANNELS, *not_run)]
        nodes = [
            GraphNode(str(n), NodeKind.CONV, str(n), (1, 64, 56, 56), task.workload)
            for n, task in enumerate(tasks)
        ]
        graph = ConvGraph(tuple(nodes), ())
        incumbent = Plan(graph.hash, {node.id: space[0] for node in nodes})
        seats = {}
        for task in tasks[: len(CHANNELS)]:
            tuner = GridTuner(task.space, task.predicted)
            tuner.observe(space[0], 1e-3)
            seats[task.workload] = Seat(task, tuner, frozenset(space[:1]), 1e-3, 0.25)
        board, records = Board(seats, 4e-3), []
        workers = ScriptedWorkers(graph, incumbent, true_ratio, broken)

        def record(workload, config, costs, error_no) -> Record:
            return Record(workload, config, tuple(costs), "testcpu", 2, error_no=int(error_no))

        rounds_ = Rounds(
            board,
            workers,
            StandIns(graph),
            incumbent,
            {task.workload: list(space) for task in tasks},
            records.append,
            record,
        )
        for _ in range(rounds):
            if not rounds_.play():
                break
        return board, records, workers

    return run


def test_the_best_candidate_is_found_and_confirmed(play, space) -> None:
    board, records, _ = play(lambda config: 0.8 if config == space[5] else 1.1)
    for seat in board.seats.values():
        assert seat.best == pytest.approx(0.8 / 1.1, rel=1e-3)
        assert len(seat.estimates[space[5]].readings) > 1
    worked = [record for record in records if record.config == space[5]]
    wanted = pytest.approx(1e-3 * 0.8 / 1.1, rel=1e-3)
    assert all(record.read_seconds == wanted for record in worked)
    assert worked[-1].seconds == wanted


def test_one_candidate_that_crashes_is_found_and_costs_nothing_else(play, space) -> None:
    bad = space[-1]
    board, records, _ = play(lambda config: 1.1, broken=[bad])
    for seat in board.seats.values():
        assert set(seat.failed) == {bad}
    failed = [record for record in records if not record.ok]
    assert {record.config for record in failed} == {bad}
    assert len(failed) == len(CHANNELS)
    assert failed[0].error_no == MeasureErrorNo.RUNTIME_DEVICE
    assert failed[0].seconds == math.inf


def test_a_layer_that_is_never_run_keeps_its_config(play, space) -> None:
    """As in the branch of an If that the sample input does not take."""
    board, _, workers = play(lambda config: 1.1, rounds=1, not_run=(160,))
    assert len(board.seats) == len(CHANNELS)
    (plan,) = workers._plans
    assert plan.configs[str(len(CHANNELS))] == space[0]
    assert board.measured == len(CHANNELS)


def test_every_measurement_is_a_record(play) -> None:
    board, records, _ = play(lambda config: 1.1)
    measured = {(r.workload, r.config) for r in records if r.ok}
    assert len(measured) == board.measured


def test_a_record_says_how_often_the_candidate_was_read(play, space) -> None:
    board, records, _ = play(lambda config: 0.8 if config == space[5] else 1.1)
    last = {(r.workload, r.config): r.readings for r in records if r.ok}
    assert last == {
        (seat.workload, config): len(estimate.readings)
        for seat in board.seats.values()
        for config, estimate in seat.estimates.items()
        if config not in seat.incumbent
    }
    assert {1, 2} <= {record.readings for record in records}


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (ChildDied("", hung=True), MeasureErrorNo.RUN_TIMEOUT),
        (ChildDied("", hung=False), MeasureErrorNo.RUNTIME_DEVICE),
        (ChildError("", "TemplateError"), MeasureErrorNo.INSTANTIATION_ERROR),
        (ChildError("", "InternalError"), MeasureErrorNo.COMPILE_HOST),
    ],
)
def test_errors_have_the_numbers_of_autotvm(error: ChildError, number: MeasureErrorNo) -> None:
    assert error_number(error) == number


def test_a_fleet_of_which_nobody_is_left_is_asked_for_more(play, monkeypatch) -> None:
    """Its `build` looks for other servers, and says so where there are none."""
    monkeypatch.setattr(ScriptedWorkers, "_alive", lambda self: [], raising=False)
    monkeypatch.setattr(ScriptedWorkers, "__len__", RemoteWorkers.__len__)
    _, _, workers = play(lambda config: 1.1, rounds=1)
    assert workers.builds == 1
