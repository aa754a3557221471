"""The array's formulas against a simulation cycle by cycle, and on layers counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pe_simulator import Simulation

from tvm_neocpu.scheduling.graph.schedule_graph import (
    OpKind,
    ScheduleGraph,
    ScheduleNode,
    Window,
)
from tvm_neocpu.scheduling.profilers.machine import PeMachine, load_machine
from tvm_neocpu.scheduling.profilers.pe_array import PeArray, blocks

SMALL = load_machine("nvdla-small")
# Little bandwidth, a small buffer, a long way to memory.
SLOW_MEMORY = replace(
    SMALL, dram_bytes_per_cycle=1.0, latency=200.0, banks=8, elementwise_per_cycle=4.0
)
WIDE = replace(
    SMALL, rows=16, columns=16, weight_bytes_per_cycle=16, elementwise_per_cycle=8, banks=12
)


class Layers:
    """A graph, written layer by layer; square images."""

    def __init__(self, channels: int, size: int) -> None:
        self.nodes = [_node("in", OpKind.INPUT, channels, size)]
        self.edges: list[tuple[str, str]] = []

    def add(self, kind: OpKind, *sources: str, **figures: int) -> str:
        places = {node.id: node for node in self.nodes}
        source = places[sources[0]]
        stride, kernel = figures.get("stride", 1), figures.get("kernel", 1)
        channels = figures.get("channels", source.shape[0])
        groups = figures.get("groups", 1)
        size = (source.rows + 2 * (kernel // 2) - kernel) // stride + 1
        name = str(len(self.nodes))
        weights = channels * source.shape[0] // groups * kernel**2 if kind is OpKind.CONV else 0
        node = replace(
            _node(name, kind, channels, size),
            macs=weights * size * size,
            weight_bytes=weights,
            in_channels=source.shape[0],
            groups=groups,
            window=Window((kernel,) * 2, (stride,) * 2, (kernel // 2,) * 2),
        )
        self.nodes.append(node)
        self.edges += [(each, name) for each in sources]
        return name

    def conv(self, source: str, channels: int, kernel: int, stride: int = 1) -> str:
        return self.add(OpKind.CONV, source, channels=channels, kernel=kernel, stride=stride)

    @property
    def graph(self) -> ScheduleGraph:
        return ScheduleGraph(tuple(self.nodes), tuple(self.edges))


def _node(name: str, kind: OpKind, channels: int, size: int) -> ScheduleNode:
    return ScheduleNode(name, name, kind, channels * size * size, shape=(channels, size, size))


def plain() -> Layers:
    layers = Layers(16, 14)
    layers.conv("in", 32, 3)
    return layers


def strided() -> Layers:
    layers = Layers(16, 28)
    layers.conv("in", 24, 5, 2)
    return layers


def ragged() -> Layers:
    layers = Layers(13, 15)
    layers.conv("in", 19, 3)
    return layers


def pointwise_with_relu() -> Layers:
    layers = Layers(64, 14)
    layers.add(OpKind.ELEMENTWISE, layers.conv("in", 32, 1))
    return layers


def depthwise() -> Layers:
    layers = Layers(24, 16)
    layers.add(OpKind.CONV, "in", channels=24, kernel=3, groups=24)
    return layers


def chain() -> Layers:
    layers = Layers(16, 28)
    x = layers.add(OpKind.ELEMENTWISE, layers.conv("in", 16, 3))
    layers.conv(layers.conv(x, 32, 3), 16, 1)
    return layers


def bottleneck() -> Layers:
    layers = Layers(32, 14)
    x = layers.add(OpKind.ELEMENTWISE, layers.conv("in", 16, 1))
    x = layers.add(OpKind.ELEMENTWISE, layers.conv(x, 16, 3))
    layers.add(OpKind.ELEMENTWISE, layers.conv(x, 32, 1), "in")
    return layers


def stem() -> Layers:
    layers = Layers(3, 56)
    layers.add(OpKind.POOL, layers.conv("in", 16, 7, 2), kernel=3, stride=2)
    return layers


def two_branches() -> Layers:
    layers = Layers(16, 16)
    left, right = layers.conv("in", 16, 3), layers.conv("in", 16, 5)
    layers.add(OpKind.ELEMENTWISE, left, right)
    return layers


NETWORKS = [
    plain,
    strided,
    ragged,
    pointwise_with_relu,
    depthwise,
    chain,
    bottleneck,
    stem,
    two_branches,
]


@pytest.mark.parametrize("machine", [SMALL, SLOW_MEMORY, WIDE], ids=["small", "slow", "wide"])
@pytest.mark.parametrize("write", NETWORKS)
def test_within_a_tenth_of_the_simulation(write, machine: PeMachine) -> None:
    graph = write().graph
    group = range(len(graph))
    price = PeArray(graph, machine).price(group)
    simulated = Simulation(graph, group, machine, price.tiles, price.keeps_weights).run()
    assert price.cycles == pytest.approx(simulated, rel=0.1)


@pytest.mark.parametrize("write", [chain, bottleneck])
@pytest.mark.parametrize("banks", [3, 4, 6, 32])
def test_of_a_smaller_buffer_too(write, banks: int) -> None:
    """Other tile counts, weights kept or not."""
    graph, machine = write().graph, replace(SLOW_MEMORY, banks=banks)
    price = PeArray(graph, machine).price(range(len(graph)))
    if not price.is_possible:
        assert "the smallest buffer that would do" in price.why_not
        return
    assert price.buffer_bytes <= machine.buffer_bytes
    group = range(len(graph))
    simulated = Simulation(graph, group, machine, price.tiles, price.keeps_weights).run()
    assert price.cycles == pytest.approx(simulated, rel=0.1)


def test_a_layer_counted_by_hand() -> None:
    """16 -> 32, 3x3, on 8 x 8: 9 taps, 2 blocks each, for 4 sets of results; 196 pixels a block."""
    graph = plain().graph
    assert blocks(graph.nodes[1], SMALL) == (18, 4)
    price = PeArray(graph, SMALL).price((0, 1))
    ends = SMALL.block_cycles + SMALL.propagation_delay
    assert price.compute_cycles == 72 * 196 + 7 * ends  # a row or two in each of 7 bands
    rows_read = 14 + 6 * 2  # two rows of halo between bands
    assert price.dram_bytes == 16 * 14 * rows_read + 32 * 196 + 16 * 32 * 9


def test_narrow_groups_share_the_array() -> None:
    """24 groups of one channel: eight side by side."""
    assert blocks(depthwise().graph.nodes[1], SMALL) == (9, 3)


def test_fusing_saves_the_traffic_between() -> None:
    graph = chain().graph
    profiler = PeArray(graph, SMALL)
    price = profiler.price(range(len(graph)))
    assert price.keeps_weights
    assert price.tiles == 1
    weights = sum(node.weight_bytes for node in graph.nodes)
    assert price.dram_bytes == graph.nodes[0].out_bytes + graph.nodes[-1].out_bytes + weights
    alone = sum(profiler.price((node,)).dram_bytes for node in range(len(graph)))
    assert alone >= price.dram_bytes + sum(2 * node.out_bytes for node in graph.nodes[1:-1])


def test_nothing_fuses_across_an_operation_that_is_not_known() -> None:
    layers = plain()
    layers.add(OpKind.BOUNDARY, "1")
    profiler = PeArray(layers.graph, SMALL)
    assert not profiler.price((1, 2)).is_possible
    assert profiler.price((2,)).is_possible


def test_a_group_grows_backwards_to_the_same_price() -> None:
    graph = bottleneck().graph
    profiler = PeArray(graph, SLOW_MEMORY)
    growing = profiler.growing()
    for node in reversed(range(1, len(graph))):
        growing.prepend(node)
        assert growing.price() == profiler.price(range(node, len(graph)))
