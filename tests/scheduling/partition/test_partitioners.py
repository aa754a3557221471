"""Every partitioner of the table runs the same tests; all meet brute force on tiny graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from random_dags import dags, random_dag

from tvm_neocpu.core.errors import SearchCutError
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.scheduling.graph.price import Price, Profiler, impossible
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.partition import greedy as greedy_module
from tvm_neocpu.scheduling.partition.brute import all_partitions, brute
from tvm_neocpu.scheduling.partition.clustering import LONGEST, bounded, clustering
from tvm_neocpu.scheduling.partition.exact import exact
from tvm_neocpu.scheduling.partition.partition import Partition
from tvm_neocpu.scheduling.partition.table import PARTITIONERS
from tvm_neocpu.scheduling.partition.units import fused_units
from tvm_neocpu.scheduling.profilers.cpu_l2 import CpuL2
from tvm_neocpu.scheduling.profilers.machine import load_machine
from tvm_neocpu.scheduling.profilers.pe_array import PeArray

every_partitioner = pytest.mark.parametrize("name", PARTITIONERS)
SMALL, LARGE = load_machine("nvdla-small"), load_machine("nvdla-large")
# Little bandwidth: what lies between layers matters, and so does the buffer.
NARROW = replace(LARGE, dram_bytes_per_cycle=2.0, banks=8)
MACHINES = st.sampled_from([SMALL, LARGE, NARROW])
CPU = Cpu("test", AVX2, cores=2, l2=512 * 1024)


def node(name: str, kind: OpKind = OpKind.CONV) -> ScheduleNode:
    return ScheduleNode(name, name, kind, 64, macs=64, weight_bytes=1)


@every_partitioner
@settings(max_examples=examples(30))
@given(dags(12), MACHINES)
def test_every_node_is_in_one_group_that_can_run(name: str, graph, machine) -> None:
    found = PARTITIONERS[name](graph, PeArray(graph, machine))
    assert found.is_valid(graph)
    assert PARTITIONERS[name](graph, PeArray(graph, machine)) == found


@every_partitioner
@settings(max_examples=examples(15))
@given(dags(6), MACHINES)
def test_no_partition_beats_brute_force(name: str, graph, machine) -> None:
    """With the nodes of a group in file order, as brute force has them: the order has a price."""
    profiler = PeArray(graph, machine)
    best = brute(graph, profiler).cost(profiler)
    found = PARTITIONERS[name](graph, profiler).groups
    in_file_order = Partition(tuple(tuple(sorted(group)) for group in found))
    assert in_file_order.cost(profiler) >= best * (1 - 1e-9)


@settings(max_examples=examples(25))
@given(dags(7), MACHINES)
def test_exact_is_the_best_of_all_partitions(graph, machine) -> None:
    profiler = PeArray(graph, machine)
    assert exact(graph, profiler).cost(profiler) == pytest.approx(
        brute(graph, profiler).cost(profiler)
    )


# Graphs whose exact partition takes seconds: (nodes, seed).
LONG = [(15, 5), (15, 6)]


@pytest.mark.parametrize("machine", [SMALL, LARGE, NARROW], ids=["small", "large", "narrow"])
@pytest.mark.parametrize(
    ("count", "seed"),
    [
        (12, 1),
        (13, 2),
        (14, 3),
        (14, 4),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in LONG),
    ],
)
def test_clustering_is_within_a_twentieth_of_exact(count, seed, machine) -> None:
    graph = random_dag(count, seed)
    profiler = PeArray(graph, machine)
    best = exact(graph, profiler).cost(profiler)
    for name in ("clustering", "lines"):
        assert PARTITIONERS[name](graph, profiler).cost(profiler) <= 1.05 * best, name


@pytest.mark.slow
@pytest.mark.parametrize("machine", [SMALL, LARGE, NARROW], ids=["small", "large", "narrow"])
@pytest.mark.parametrize("seed", range(6))
def test_on_twenty_nodes_too(seed: int, machine) -> None:
    graph = random_dag(20, seed, near=4)
    profiler = PeArray(graph, machine)
    best = exact(graph, profiler).cost(profiler)
    assert PARTITIONERS["lines"](graph, profiler).cost(profiler) <= 1.05 * best


@pytest.mark.parametrize("count", [10, 40])
def test_prices_grow_with_the_square_at_most(count: int) -> None:
    graph = random_dag(count, 1)
    profiler = PeArray(graph, LARGE)
    units = len(fused_units(graph))
    assert clustering(graph, profiler).evaluations <= units * (units + 1) / 2
    for most in (1, 3, 5):
        assert bounded(most)(graph, profiler).evaluations <= most * units


@pytest.mark.parametrize(("name", "count"), [("clustering", 1000), ("greedy", 300)])
def test_large_graphs_end(name: str, count: int) -> None:
    graph = random_dag(count, 3)
    profiler = PeArray(graph, SMALL)
    found = PARTITIONERS[name](graph, profiler)
    assert found.is_valid(graph)
    assert found.cost(profiler) < PARTITIONERS["elementwise"](graph, profiler).cost(profiler)
    assert found.evaluations <= LONGEST * count


def test_greedy_groups_end_where_pricing_them_anew_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that fits the buffer whole."""
    graph = random_dag(40, 3)
    free = greedy_module.greedy(graph, PeArray(graph, LARGE))
    monkeypatch.setattr(greedy_module, "LARGEST", 7)
    found = greedy_module.greedy(graph, PeArray(graph, LARGE))
    assert found.is_valid(graph)
    assert max(map(len, free.groups)) > 7 == max(map(len, found.groups))


@pytest.mark.slow
def test_five_thousand_nodes_end() -> None:
    graph = random_dag(5000, 3)
    found = clustering(graph, PeArray(graph, SMALL))
    assert found.is_valid(graph)
    assert found.evaluations <= LONGEST * len(graph)


def test_longer_intervals_never_cost_more() -> None:
    graph = random_dag(60, 8)
    profiler = PeArray(graph, NARROW)
    costs = [bounded(most)(graph, profiler).cost(profiler) for most in (1, 2, 4, 8, 60)]
    assert costs == sorted(costs, reverse=True)


def test_an_elementwise_operation_joins_its_deepest_producer() -> None:
    r"""a -> b -> c, and add reads a and c: it belongs to c, for b lies between."""
    nodes = (node("a"), node("b"), node("c"), node("+", OpKind.ELEMENTWISE))
    edges = (("a", "b"), ("b", "c"), ("a", "+"), ("c", "+"))
    assert fused_units(ScheduleGraph(nodes, edges)).groups == ((0,), (1,), (2, 3))


@settings(max_examples=examples(100))
@given(dags(40))
def test_units_can_run_one_after_the_other(graph: ScheduleGraph) -> None:
    units = fused_units(graph)
    assert Partition(units.groups).is_valid(graph)
    assert all(source < at for at, found in enumerate(units.preds) for source in found)
    assert list(units.depths) == sorted(units.depths)


def test_nothing_fuses_with_a_boundary() -> None:
    nodes = (node("a"), node("?", OpKind.BOUNDARY), node("b"))
    graph = ScheduleGraph(nodes, (("a", "?"), ("?", "b")))
    for name, partitioner in PARTITIONERS.items():
        assert (1,) in partitioner(graph, PeArray(graph, LARGE)).groups, name


def test_a_chain_of_three_has_four_partitions_that_can_run() -> None:
    graph = ScheduleGraph((node("a"), node("b"), node("c")), (("a", "b"), ("b", "c")))
    assert {found.groups for found in all_partitions(graph)} == {
        ((0,), (1,), (2,)),
        ((0, 1), (2,)),
        ((0,), (1, 2)),
        ((0, 1, 2),),
    }


def test_exact_says_where_it_ends() -> None:
    graph = random_dag(200, 1)
    with pytest.raises(SearchCutError, match="200 nodes have too many convex groups"):
        exact(graph, PeArray(graph, LARGE))


@every_partitioner
@settings(max_examples=examples(15))
@given(dags(10))
def test_the_cpu_prices_partitions_too(name: str, graph: ScheduleGraph) -> None:
    profiler: Profiler = CpuL2(graph, CPU)
    found = PARTITIONERS[name](graph, profiler)
    assert found.is_valid(graph)
    assert found.cost(profiler) < float("inf")


def test_an_impossible_group_is_infinitely_dear() -> None:
    assert not impossible("why").is_possible
    assert Price(1.0, 1.0, 0.0, 0.0, 0.0, 1).is_possible
