"""What a group costs on this CPU, with a core's L2 as the fast memory.

    compute   multiply-adds / (lanes x FMAs a cycle), or elements / lanes of other operations
    tensors   bytes / bandwidth of L3 where all of the group's inputs and outputs fit half of it, of
              memory where they do not
    weights   bytes / bandwidth of memory: no network's weights stay in a cache from run to run
    cycles    (max(compute, tensors) + EXPOSED x min(compute, tensors) + weights) / cores

Each core takes bands that follow each other, and keeps the rows that two of them need, as compiled
groups do (`topi/fused_block`): computing and traffic have the halos of as many bands as there are
cores. There are at least that many bands where the rows allow it, and weights that a core's L2 does
not keep come from L3 for each band. A group of one operation streams where it does not fit; a fused
group must fit L2. `benchmarks/groups/group_profiles.py` compares these prices with measured
kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.scheduling.graph.price import Price
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.profilers.bands import cheapest
from tvm_neocpu.scheduling.profilers.bands_of_rows import TILES, Floats
from tvm_neocpu.scheduling.profilers.growing_group import GrowingGroup, price_of
from tvm_neocpu.scheduling.profilers.tiled_group import TiledGroup

DTYPE, ITEM_BYTES = "float32", 4
# As in the cost model of the templates (topi.cost.roofline): what of the shorter of both times
# stays visible, and which shares of L2 and L3 a working set may take.
EXPOSED, L2_SHARE, L3_SHARE = 0.15, 0.7, 0.5


@dataclass(frozen=True)
class CpuL2:
    """The profiler of one graph of float32 tensors on one CPU."""

    graph: ScheduleGraph
    cpu: Cpu

    def growing(self) -> CpuGroup:
        return CpuGroup(self)

    def price(self, group: Sequence[int]) -> Price:
        return price_of(self.growing(), group)

    def array_cycles(self, node: ScheduleNode, rows: Floats, behind: Floats) -> Floats:
        """The followers work on registers: an instruction or two for each vector of results."""
        share: Floats = rows / node.rows
        return node.macs / self.cpu.multiply_adds_per_cycle(DTYPE) * share + behind

    def vector_cycles(self, node: ScheduleNode, read_bytes: int, rows: Floats) -> Floats:
        taps = node.window.kernel[0] * node.window.kernel[1]
        loads = max(read_bytes, node.out_bytes * taps) / ITEM_BYTES / self.cpu.load_per_cycle
        share: Floats = rows / node.rows
        return max(loads, node.out_bytes / ITEM_BYTES) / self.cpu.lanes(DTYPE) * share

    def load_cycles(self, weight_bytes: int) -> float:
        """Weights are counted for the whole group."""
        return 0.0


class CpuGroup(GrowingGroup):
    """A growing group and its price."""

    def __init__(self, profiler: CpuL2) -> None:
        self._cpu = profiler.cpu
        super().__init__(TiledGroup(profiler.graph, profiler))

    def _known_price(self, totals: TiledGroup) -> Price:
        cpu = self._cpu
        weights = totals.weight_bytes
        in_l3 = totals.in_tile[0] + totals.out_bytes < L3_SHARE * cpu.l3
        dram = min(cpu.dram_bytes_per_cycle * cpu.cores, cpu.dram_total_bytes_per_cycle)
        runs = np.minimum(np.arange(len(TILES)), np.searchsorted(TILES, cpu.cores))
        traffic = totals.in_bytes[runs] + totals.out_bytes
        compute = (totals.compute * TILES)[runs] / cpu.cores
        moved = traffic / (cpu.l3_bytes_per_cycle * cpu.cores if in_l3 else dram)
        again = weights * (TILES - cpu.cores).clip(0) / (cpu.l3_bytes_per_cycle * cpu.cores)
        need = totals.live_tile + totals.in_tile
        is_alone = len(totals) == 1 or totals.windowed <= 1
        return cheapest(
            capacity=np.inf if is_alone else L2_SHARE * cpu.l2,
            kept=(need + weights, _together(compute, moved) + weights / dram),
            anew=(need, _together(compute, moved + again) + weights / dram),
            traffic=traffic,
            weight_bytes=weights,
            bytes_per_cycle=dram,
            compute=compute,
        )


def _together(compute: Floats, moved: Floats) -> Floats:
    found: Floats = np.maximum(compute, moved) + EXPOSED * np.minimum(compute, moved)
    return found
