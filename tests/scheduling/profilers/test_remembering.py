"""A profiler that remembers says what the one behind it says, and asks it once."""

from __future__ import annotations

from hypothesis import given, settings
from random_dags import dags, random_dag

from tvm_neocpu.scheduling.graph.price import Growing
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.partition.table import PARTITIONERS
from tvm_neocpu.scheduling.profilers.machine import load_machine
from tvm_neocpu.scheduling.profilers.pe_array import PeArray
from tvm_neocpu.scheduling.profilers.remembering import Remembering

LARGE, SMALL = load_machine("nvdla-large"), load_machine("nvdla-small")
NAMES = ("bounded-2", "bounded-4", "greedy", "clustering", "lines")


class Counting(PeArray):
    """Counts the nodes that groups grow by."""

    steps = 0

    def growing(self) -> Growing:
        growing, owner = super().growing(), self

        class Counted:
            def prepend(self, node: int) -> None:
                Counting.steps += 1
                growing.prepend(node)

            price = growing.price

        assert isinstance(owner, Counting)
        return Counted()


def steps_of(count: int) -> int:
    """The nodes that all partitioners of one network make groups grow by."""
    graph = random_dag(count, 3)
    Counting.steps = 0
    profiler = Remembering(Counting(graph, SMALL))
    for name in NAMES:
        PARTITIONERS[name](graph, profiler)
    return Counting.steps


@settings(max_examples=25)
@given(dags(14))
def test_partitions_and_prices_are_the_same(graph: ScheduleGraph) -> None:
    plain = PeArray(graph, LARGE)
    profiler = Remembering(plain)
    for name in NAMES:
        found = PARTITIONERS[name](graph, profiler)
        assert found == PARTITIONERS[name](graph, plain)
        for group in found.groups:
            assert profiler.price(group) == plain.price(group)


def test_a_known_group_is_not_computed_again() -> None:
    graph = random_dag(40, 1)
    profiler = Remembering(PeArray(graph, LARGE))
    PARTITIONERS["clustering"](graph, profiler)
    computed = profiler.computed
    assert PARTITIONERS["bounded-4"](graph, profiler).evaluations > 0
    assert profiler.computed == computed


def test_the_work_of_all_partitioners_grows_with_the_nodes() -> None:
    """Twice the nodes take twice the steps: groups end where the buffer does."""
    few, many = steps_of(60), steps_of(120)
    assert few < 120 * 60
    assert many < 2.6 * few
