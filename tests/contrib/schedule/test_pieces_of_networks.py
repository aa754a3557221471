"""The clusterings against the exact partition on pieces of real networks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.schedule.onnx_graph import schedule_graph
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph
from tvm_neocpu.scheduling.partition.clustering import clustering, lines
from tvm_neocpu.scheduling.partition.exact import exact
from tvm_neocpu.scheduling.partition.partition import Partitioner
from tvm_neocpu.scheduling.profilers.machine import PeMachine, load_machine
from tvm_neocpu.scheduling.profilers.pe_array import PeArray

SMALL, LARGE = load_machine("nvdla-small"), load_machine("nvdla-large")
# Little bandwidth: what lies between layers matters, and so does the buffer.
NARROW = replace(LARGE, dram_bytes_per_cycle=2.0, banks=8)
# Where a piece begins in its network's schedule graph.
PIECES = [
    ("squeezenet1_1", 20),
    ("resnet50", 4),
    ("mobilenet_v2", 5),
    ("shufflenet_v2_x1_0", 20),
    ("densenet121", 60),
    ("googlenet", 30),
    ("nasnet_a_mobile", 100),
]
every_piece = pytest.mark.parametrize(("network", "begin"), PIECES)
most_pieces = pytest.mark.parametrize(("network", "begin"), PIECES[:-1])  # NASNet takes seconds


@most_pieces
@pytest.mark.parametrize("machine", [SMALL, LARGE], ids=["small", "large"])
def test_the_papers_line_is_within_a_twentieth_of_exact(
    network: str, begin: int, machine: PeMachine
) -> None:
    assert over_exact(clustering, piece(network, begin, 14), machine) <= 1.05


@most_pieces
def test_so_are_several_lines_where_bandwidth_is_little(network: str, begin: int) -> None:
    """The paper's line cuts GoogLeNet's branches into slices, 15 % dearer."""
    assert over_exact(lines, piece(network, begin, 14), NARROW) <= 1.05


@pytest.mark.slow
@every_piece
@pytest.mark.parametrize("machine", [SMALL, LARGE, NARROW], ids=["small", "large", "narrow"])
def test_on_twenty_nodes_too(network: str, begin: int, machine: PeMachine) -> None:
    assert over_exact(lines, piece(network, begin, 20), machine) <= 1.05


def over_exact(partitioner: Partitioner, graph: ScheduleGraph, machine: PeMachine) -> float:
    profiler = PeArray(graph, machine)
    found, best = partitioner(graph, profiler), exact(graph, profiler)
    assert found.is_valid(graph)
    return found.cost(profiler) / best.cost(profiler)


@cache
def piece(network: str, begin: int, nodes: int) -> ScheduleGraph:
    """Operations of a network from ``begin`` on; what they read of others are inputs, counted."""
    graph = schedule_graph(model_zoo.find(network).sketch(), item_bytes=1)
    pieces = (_cut(graph, range(begin, begin + count)) for count in range(nodes, 0, -1))
    return next(found for found in pieces if len(found) <= nodes)


def _cut(graph: ScheduleGraph, inside: range) -> ScheduleGraph:
    outside = sorted({s for node in inside for s in graph.preds[node]} - set(inside))
    inputs = [
        replace(graph.nodes[at], kind=OpKind.INPUT, macs=0, weight_bytes=0, work_bytes=0)
        for at in outside
    ]
    edges = [(graph.nodes[s].id, graph.nodes[at].id) for at in inside for s in graph.preds[at]]
    leaving = (at for at in inside if graph.is_output[at] or set(graph.succs[at]) - set(inside))
    return ScheduleGraph(
        (*inputs, *(graph.nodes[at] for at in inside)),
        tuple(edges),
        frozenset(graph.nodes[at].id for at in leaving),
    )
