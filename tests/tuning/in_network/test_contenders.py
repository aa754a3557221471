"""The search asks for what its plan takes unmeasured."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Record
from tvm_neocpu.tuning.in_network.board import Board, Seat
from tvm_neocpu.tuning.in_network.contenders import Contenders
from tvm_neocpu.tuning.in_network.progress import NoProgress
from tvm_neocpu.tuning.in_network.ratios import Ratio
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
