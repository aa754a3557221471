"""What a group costs on an array of multipliers with an on-chip buffer, as NVDLA is.

A convolution of one band. R rows of the array take input channels, C columns output channels. A
block of R x C weights stays in the array while all pixels of the band pass; the next block comes
meanwhile.

    steps  = kh kw x ceil(cin / R)                                         cin, cout of one group
    sets   = ceil(groups / P) x ceil(cout / C)
    P      = max(1, min(R // cin, C // cout))              narrow groups side by side, zeros between
    block  = max(pixels, block load)
    array  = steps x sets x block
    cycles = array + block load + propagation delay

Elementwise operations behind a convolution run on its results as these come. They take F cycles in
all, elements / throughput, begin with the first set of results and end behind the last:

    array  = max(steps x sets x block + max(0, F / sets - block), F + (steps - 1) x block)

Alone they and pools take elements / throughput. A concat or reshape only moves bytes.

A group in T bands. Per band: inputs I, outputs O, compute X; W all weights, w the first block, b
the DRAM's bytes a cycle. X' is X with each layer at least as long as its weights take to come.

    weights kept      max(X', (W - w + I) / b) + (T - 1) max(X, (I + O) / b)
    weights anew      max(T X', (T (I + W + O) - I - w - O) / b)          for each band, or T = 1
    before that       latency + (I + w) / b
    behind that       O / b

    buffer            live set of a band + I + (W, or two blocks and latency x b)
                      T > 1: + I + O, which are the next band's inputs and the last band's outputs

A group with at most one windowed layer may take its inputs in slices of channels: sums of one layer
stay in the accumulators. Weights come before the next band's inputs. Of the tile counts that fit,
the cheapest is taken. A single operation without weights (a concat, an add, a pool) adds nothing
over its channels: where no row of all channels fits, it passes in pieces of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from tvm_neocpu.scheduling.graph.price import Price
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.profilers.bands import cheapest
from tvm_neocpu.scheduling.profilers.bands_of_rows import TILES, Floats
from tvm_neocpu.scheduling.profilers.growing_group import GrowingGroup, price_of
from tvm_neocpu.scheduling.profilers.machine import PeMachine
from tvm_neocpu.scheduling.profilers.tiled_group import TiledGroup

# Slices of channels in which one layer may take its inputs.
MAX_SLICES = 64


@dataclass(frozen=True)
class PeArray:
    """The profiler of one graph on one machine; tensors have the machine's elements."""

    graph: ScheduleGraph
    machine: PeMachine

    def growing(self) -> PeGroup:
        return PeGroup(self)

    def price(self, group: Sequence[int]) -> Price:
        return price_of(self.growing(), group)

    def array_cycles(self, node: ScheduleNode, rows: Floats, behind: Floats) -> Floats:
        """Cycles of a convolution's band and of its followers."""
        machine = self.machine
        pixels = rows * node.shape[2] / node.window.upscale**2
        step = np.maximum(pixels, machine.block_cycles)
        steps, columns = blocks(node, machine)
        ends = machine.block_cycles + machine.propagation_delay
        # The followers begin with the first results and end behind the last ones.
        array = steps * columns * step + np.maximum(0, behind / columns - step)
        found: Floats = ends + np.maximum(array, behind + (steps - 1) * step)
        return found

    def vector_cycles(self, node: ScheduleNode, read_bytes: int, rows: Floats) -> Floats:
        """Cycles of any other operation's band."""
        machine = self.machine
        elements = max(node.out_bytes, read_bytes) / machine.element_bytes * rows / node.rows
        if node.kind is OpKind.POOL:
            return elements / machine.pooled_per_cycle
        if node.kind is OpKind.ELEMENTWISE:
            made = node.out_bytes / machine.element_bytes * rows / node.rows
            return made / machine.elementwise_per_cycle
        return elements * 0.0

    def load_cycles(self, weight_bytes: int) -> float:
        return weight_bytes / self.machine.dram_bytes_per_cycle


def blocks(node: ScheduleNode, machine: PeMachine) -> tuple[int, int]:
    """Blocks of weights that add to the same results, and how many sets of results there are."""
    cin, cout = max(1, node.in_channels // node.groups), max(1, node.shape[0] // node.groups)
    side_by_side = max(1, min(machine.rows // cin, machine.columns // cout))
    taps = node.window.kernel[0] * node.window.kernel[1]
    sets = ceil(node.groups / side_by_side) * ceil(cout / machine.columns)
    return taps * ceil(cin / machine.rows), sets


class PeGroup(GrowingGroup):
    """A growing group and its price."""

    def __init__(self, profiler: PeArray) -> None:
        self._machine = profiler.machine
        super().__init__(TiledGroup(profiler.graph, profiler))

    def _known_price(self, totals: TiledGroup) -> Price:
        machine = self._machine
        weights, first = totals.weight_bytes, min(totals.weight_bytes, machine.block_bytes)
        # Two blocks, and what arrives while the memory thinks.
        ahead = 2 * first + machine.latency * machine.dram_bytes_per_cycle
        least = min(weights, ahead)
        per_band = totals.in_bytes / TILES
        out = totals.out_bytes / TILES
        fed = totals.live_tile + (TILES > 1) * (totals.in_tile + totals.out_tile)
        need = fed + totals.in_tile
        if totals.windowed <= 1:
            slices = np.ceil(totals.in_tile * 2 / np.maximum(1, machine.buffer_bytes / 4))
            slices = np.clip(slices, 1, MAX_SLICES)
            need = need - (1 + (TILES > 1)) * totals.in_tile * (1 - 1 / slices)
        ends = machine.latency + (per_band + first + out) / machine.dram_bytes_per_cycle
        return cheapest(
            capacity=machine.buffer_bytes,
            kept=(need + weights, ends + self._kept(per_band, out, weights - first)),
            anew=(need + least, ends + self._anew(per_band, out, weights, first)),
            traffic=totals.in_bytes + totals.out_bytes,
            weight_bytes=weights,
            bytes_per_cycle=machine.dram_bytes_per_cycle,
            compute=totals.compute * TILES,
            in_pieces=len(totals) == 1 and not totals.macs,
        )

    def _kept(self, reads: Floats, writes: Floats, weights: float) -> Floats:
        totals, speed = self._totals, self._machine.dram_bytes_per_cycle
        first = np.maximum(totals.streamed, (weights + reads) / speed)
        found: Floats = first + (TILES - 1) * np.maximum(totals.compute, (reads + writes) / speed)
        return found

    def _anew(self, reads: Floats, writes: Floats, weights: float, first: float) -> Floats:
        totals, speed = self._totals, self._machine.dram_bytes_per_cycle
        moved = TILES * (reads + weights + writes) - reads - first - writes
        found: Floats = np.maximum(TILES * totals.streamed, moved / speed)
        return found
