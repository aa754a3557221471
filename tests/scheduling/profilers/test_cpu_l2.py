"""The CPU's prices: what fusing saves, and what must fit L2."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.scheduling.graph.schedule_graph import (
    OpKind,
    ScheduleGraph,
    ScheduleNode,
    Window,
)
from tvm_neocpu.scheduling.profilers.cpu_l2 import CpuL2

CPU = Cpu("test", AVX2, cores=1, l2=512 * 1024, l3=32 * 1024 * 1024)


def expanded(size: int = 56) -> ScheduleGraph:
    """1x1, depthwise 3x3, 1x1 of a MobileNet block: 24 -> 144 -> 144 -> 24 channels."""

    def node(name: str, kind: OpKind, before: int, after: int, kernel: int = 1) -> ScheduleNode:
        groups = before if kernel > 1 else 1
        weights = before * after // groups * kernel**2
        return ScheduleNode(
            name,
            name,
            kind,
            4 * after * size**2,
            macs=weights * size**2,
            weight_bytes=4 * weights,
            shape=(after, size, size),
            in_channels=before,
            groups=groups,
            window=Window((kernel,) * 2, padding=(kernel // 2,) * 2),
        )

    nodes = (
        node("in", OpKind.INPUT, 24, 24),
        node("expand", OpKind.CONV, 24, 144),
        node("depthwise", OpKind.CONV, 144, 144, 3),
        node("project", OpKind.CONV, 144, 24),
    )
    return ScheduleGraph(
        nodes, (("in", "expand"), ("expand", "depthwise"), ("depthwise", "project"))
    )


def test_one_layer_by_hand() -> None:
    graph = expanded()
    price = CpuL2(graph, CPU).price((1,))
    compute = 24 * 144 * 56**2 / (8 * 2)
    moved = 4 * (24 + 144) * 56**2 / CPU.l3_bytes_per_cycle
    weights = 4 * 24 * 144 / CPU.dram_bytes_per_cycle
    assert price.cycles == compute + 0.15 * moved + weights
    assert price.dram_bytes == 4 * (24 + 144) * 56**2 + 4 * 24 * 144


def test_the_expanded_tensors_stay_in_l2() -> None:
    """All that lies between the layers, and nothing else: one core keeps the rows of its bands."""
    graph = expanded()
    profiler = CpuL2(graph, replace(CPU, l3_bytes_per_cycle=2.0))
    alone = [profiler.price((node,)) for node in (1, 2, 3)]
    fused = profiler.price((1, 2, 3))
    assert fused.tiles > 1
    assert fused.buffer_bytes <= 0.7 * CPU.l2
    assert fused.cycles < sum(price.cycles for price in alone)
    between = 4 * 2 * 2 * 144 * 56**2
    saved = sum(price.dram_bytes for price in alone) - fused.dram_bytes
    assert saved == between


def test_a_group_must_fit_l2_and_a_layer_need_not() -> None:
    graph = expanded()
    profiler = CpuL2(graph, replace(CPU, l2=16 * 1024))
    fused = profiler.price((1, 2, 3))
    assert not fused.is_possible
    assert "the smallest buffer that would do has" in fused.why_not
    assert profiler.price((2,)).is_possible


def test_more_cores_share_the_work() -> None:
    graph = expanded()
    one = CpuL2(graph, CPU).price((1, 2, 3))
    two = CpuL2(graph, replace(CPU, cores=2)).price((1, 2, 3))
    assert 1.5 < one.cycles / two.cycles < 2.01  # a band more keeps its weights


def test_the_halo_of_each_core_is_computed_and_read_twice() -> None:
    """Two rows of the expanded tensor, and of what the expansion reads, at the one border."""
    graph = expanded()
    alone = CpuL2(graph, CPU).price((1, 2, 3))
    shared = CpuL2(graph, replace(CPU, cores=2)).price((1, 2, 3))
    assert shared.tiles > 2
    assert shared.dram_bytes - alone.dram_bytes == 4 * 2 * 24 * 56
    again = 2 * 24 * 144 * 56 / (8 * 2)
    assert 2 * shared.compute_cycles == alone.compute_cycles + again
