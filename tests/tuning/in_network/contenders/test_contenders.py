"""The search asks for what its plan takes unmeasured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tvm_neocpu.core.errors import FleetError
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.tuning.fleet.remote_workers import RemoteWorkers
from tvm_neocpu.tuning.in_network.contenders.contenders import Contenders
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, STAND_IN
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.report.progress import NoProgress
from tvm_neocpu.tuning.in_network.rounds.board import Board, Seat
from tvm_neocpu.tuning.tuners.grid import GridTuner

CHANNELS = (32, 64)


def ratio(value: float) -> Ratio:
    return Ratio(math.log(value), 0.002)


class Searched:
    """Plans that take ``wanted`` everywhere; what it was told."""

    def __init__(self, graph: ConvGraph) -> None:
        self.graph = graph
        self.wanted = None
        self.told: list[Record] = []

    def __call__(self, records) -> Plan:
        self.told = list(records)
        return Plan(self.graph.hash, {node.id: self.wanted for node in self.graph.convs})

    def seconds(self, workload) -> dict:
        return {r.config: r.seconds for r in self.told if r.workload == workload}


@pytest.fixture
def contest(make_task, space):
    """Two layers that have the space's first config; the contenders, the search, the seats."""
    tasks = [make_task(str(c), c) for c in CHANNELS]
    nodes = tuple(
        GraphNode(str(n), NodeKind.CONV, str(n), (1, 64, 56, 56), task.workload)
        for n, task in enumerate(tasks)
    )
    graph = ConvGraph(nodes, ())
    seats = {
        task.workload: Seat(
            task, GridTuner(task.space, task.predicted), frozenset(space[:1]), 1e-3, 0.5
        )
        for task in tasks
    }
    search = Searched(graph)

    def record(workload, config, costs, error_no) -> Record:
        return Record(workload, config, tuple(costs), "testcpu", 2, error_no=int(error_no))

    contenders = Contenders(
        graph,
        Board(seats, 2e-3),
        Plan(graph.hash, {node.id: space[0] for node in nodes}),
        workers=None,
        search=search,
        make_record=record,
        keep=lambda record: None,
        progress=NoProgress(),
    )
    return contenders, search, list(seats.values())


def test_what_the_plan_takes_unmeasured_is_asked_for_once(contest, space) -> None:
    contenders, search, seats = contest
    search.wanted = space[3]
    assert contenders.ask() == 2
    assert [seat.asked for seat in seats] == [[space[3]], [space[3]]]
    assert contenders.ask() == 0
    assert [seat.asked for seat in seats] == [[space[3]], [space[3]]]


def test_what_no_stand_in_can_have_is_not_asked_for(contest, space) -> None:
    contenders, search, seats = contest
    contenders.can_time = lambda workload, config: workload != seats[0].workload
    search.wanted = space[3]
    assert contenders.ask() == 1
    assert [seat.asked for seat in seats] == [[], [space[3]]]


def test_what_is_known_is_not_asked_for(contest, space) -> None:
    contenders, search, seats = contest
    search.wanted = space[0]  # the incumbent
    assert contenders.ask() == 0
    search.wanted = space[3]
    seats[0].hear(space[3], ratio(1.2))
    seats[1].fail(space[3], "crashed")
    assert contenders.ask() == 0
    assert not any(seat.asked for seat in seats)


def test_a_first_reading_is_no_better_than_what_is_confirmed(contest, space) -> None:
    contenders, search, (seat, other) = contest
    search.wanted = space[0]
    seat.hear(space[1], ratio(0.5))
    contenders.ask()
    assert search.seconds(seat.workload)[space[1]] == pytest.approx(1e-3)
    for _ in range(2):
        seat.hear(space[2], ratio(0.8))
    seat.fail(space[4], "crashed")
    contenders.ask()
    told = search.seconds(seat.workload)
    assert told[space[0]] == pytest.approx(1e-3)
    assert told[space[1]] == told[space[2]] == pytest.approx(0.8e-3)
    assert told[space[4]] == math.inf
    assert search.seconds(other.workload) == {space[0]: pytest.approx(1e-3)}


class Nobody:
    """A fleet whose servers were all killed."""

    baseline = 10e-3
    __len__ = RemoteWorkers.__len__

    def _alive(self) -> list[None]:
        return []

    def build(self, plans, views) -> list[None]:
        raise FleetError("no server of k is left")


def test_a_fleet_of_which_nobody_is_left_says_so(contest, space) -> None:
    contenders, search, _ = contest
    search.wanted = space[3]
    contenders.workers = Nobody()
    with pytest.raises(FleetError, match="no server of k is left"):
        contenders.find(lambda: True)


class Timing:
    """A worker in which a plan's groups save 1 of its 10 ms, or cost 1 where they are ``bad``."""

    def __init__(self, graph: ConvGraph, bad: frozenset[str] = frozenset()) -> None:
        self.graph, self.bad, self.plans = graph, bad, []

    baseline = 10e-3

    def __len__(self) -> int:
        return 1

    def build(self, plans, views) -> list[None]:
        self.plans += plans
        return [None] * len(plans)

    def times(self, index, runs) -> dict:
        incumbent = {(node.workload, None): 5e-3 for node in self.graph.convs}
        plan = self.plans[-1]
        run = {(node.workload, plan.configs[node.id]): 5e-3 for node in self.graph.convs}
        for group in plan.groups or ():
            members = plan.members_of(group, self.graph)
            run = {key: seconds for key, seconds in run.items() if key not in members}
            run[members] = 11e-3 if group.members[0] in self.bad else 9e-3
        return {STAND_IN: [run] * runs, INCUMBENT: [incumbent] * runs}

    def ask(self, index, name, slot, *rest) -> dict:
        if name != "whole":
            return {}
        timed = self.times(index, *rest)
        return {slot: [sum(run.values()) for run in runs] for slot, runs in timed.items()}


@pytest.mark.parametrize(("bad", "kept"), [("", 1), ("0", 0)], ids=["faster", "slower"])
def test_a_plan_is_timed_with_and_without_its_groups(contest, space, bad, kept) -> None:
    contenders, _, _ = contest
    pair = LayerGroup(tuple(node.id for node in contenders.graph.convs), 2)
    wanted = {node.id: space[3] for node in contenders.graph.convs}
    found = Plan(contenders.graph.hash, wanted, groups=(pair,))
    contenders.search = lambda records: found
    contenders.workers = workers = Timing(contenders.graph, frozenset(bad))
    plans = contenders.find(lambda: True)
    assert [plan.groups for plan in workers.plans] == [(pair,), (), *[(pair,)] * kept]
    assert [len(plan.groups) for _, plan in plans] == [1] * kept


def test_the_incumbents_groups_are_measured_too(contest, space) -> None:
    """It lost a millisecond to its group; nothing else is faster than it was without."""
    contenders, search, _ = contest
    search.wanted = space[0]
    pair = LayerGroup(tuple(node.id for node in contenders.graph.convs), 2)
    contenders.incumbent = replace(contenders.incumbent, groups=(pair,))
    contenders.workers = workers = Timing(contenders.graph, frozenset("0"))
    ((measured, plan),) = contenders.find(lambda: True)
    assert [plan.groups for plan in workers.plans] == [(pair,), ()] * 2  # two readings
    assert (plan.groups, measured.value) == ((), pytest.approx(10 / 11))


def test_calls_of_a_loop_count_as_often_as_they_are_made(contest, space) -> None:
    """A loop of five trips is one node of the graph; the candidate takes what the incumbent did."""
    contenders, search, (seat, other) = contest
    seat.calls = 5
    search.wanted = space[3]

    class Loop(Timing):
        def ask(self, index, name, slot, *rest) -> dict:
            return {(seat.workload, space[3]): 5, (other.workload, space[3]): 1}

    contenders.workers = Loop(contenders.graph)
    contenders.find(lambda: True)
    assert [each.estimates[space[3]].ratio.value for each in (seat, other)] == [1.0, 1.0]
