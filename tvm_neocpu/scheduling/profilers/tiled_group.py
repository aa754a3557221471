"""A fused group that runs in bands of rows: rows, bytes and live tensors for several tile counts.

The last layers' rows are cut into ``tiles`` bands; what the other layers compute for a band follows
from their readers' windows (the tile of the last layer is free, section 5.2 of the paper). Halos
are computed anew. Sums are never split across layers.

    for band in tiles:
        load the band of each input          in_tile bytes; of the next band while this one runs
        for node in the group's order:       rows[node], live until its last reader in the group
            compute the rows of the band
        store the band of each output        out_tile bytes; of the last band while this one runs

Everything is a vector over ``TILES``. A group grows backwards: rows depend on readers alone.
Networks have few different vectors of rows, so that what follows from one is computed once
(`bands_of_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.profilers.bands_of_rows import (
    TILES,
    Floats,
    Rows,
    larger,
    own_part,
    rows_read,
    share_of_rows,
    tile_bytes,
    total_bytes,
)

_NONE: Floats = np.zeros(len(TILES))
# What a windowed operation may follow elementwise without storing its result first.
_STREAMED = (OpKind.ELEMENTWISE,)
_WINDOWED = (OpKind.CONV, OpKind.POOL)


class StageCosts(Protocol):
    """What a machine needs for one node's rows of a band."""

    def array_cycles(self, node: ScheduleNode, rows: Floats, behind: Floats) -> Floats:
        """Cycles of a convolution whose elementwise followers take ``behind`` cycles alone."""

    def vector_cycles(self, node: ScheduleNode, read_bytes: int, rows: Floats) -> Floats:
        """Cycles of everything else."""

    def load_cycles(self, weight_bytes: int) -> float:
        """Cycles in which the weights of one layer come from memory."""


class _Read(NamedTuple):
    """A tensor from outside: rows of a band; bytes of a band and of all bands."""

    rows: Rows
    tile: Floats
    total: Floats


class TiledGroup:
    """Totals of a growing group. Inputs of the network lie in memory: they are no members."""

    def __init__(self, graph: ScheduleGraph, costs: StageCosts) -> None:
        self._graph = graph
        self._costs = costs
        self._rows: dict[int, Rows] = {}
        self._at: dict[int, int] = {}
        self._reads: dict[int, _Read] = {}
        self._claimed: set[int] = set()
        self._stages: dict[int, Floats] = {}
        self._live: Floats = np.zeros((16, len(TILES)))
        self.boundaries = 0
        self.windowed = 0
        self.macs = 0
        self.weight_bytes = 0
        self.compute: Floats = np.zeros(len(TILES))  # of one band
        self.streamed: Floats = np.zeros(len(TILES))  # with each band's weights from memory
        self.in_bytes: Floats = np.zeros(len(TILES))  # of all bands
        self.in_tile: Floats = np.zeros(len(TILES))
        self.out_tile: Floats = np.zeros(len(TILES))
        self.out_bytes = 0.0

    def __len__(self) -> int:
        return len(self._at)

    @property
    def live_tile(self) -> Floats:
        """The largest live set of a band among what the group makes."""
        found: Floats = self._live[: max(1, len(self))].max(axis=0)
        return found

    def prepend(self, place: int) -> None:
        """Add a node before all others."""
        node = self._graph.nodes[place]
        if node.kind is OpKind.INPUT:
            return
        step = len(self._at)
        readers = [reader for reader in self._graph.succs[place] if reader in self._at]
        leaves = self._graph.is_output[place] or len(readers) < len(self._graph.succs[place])
        rows = self._band(place, node, leaves)
        made = tile_bytes(rows, node.row_bytes)
        self._at[place], self._rows[place] = step, rows
        self._forget_read(place)
        if leaves:
            self.out_bytes += node.out_bytes
            self.out_tile += made
        for source in self._graph.preds[place]:
            self._read(source, rows_read(rows, node, self._graph.nodes[source].rows))
        self._keep(step, min((self._at[r] for r in readers), default=step), made)
        self._compute(place, node, readers)
        self.macs += node.macs
        self.weight_bytes += node.weight_bytes
        self.boundaries += node.kind is OpKind.BOUNDARY
        self.windowed += node.kind in _WINDOWED or node.is_global

    def _band(self, place: int, node: ScheduleNode, leaves: bool) -> Rows:
        """Rows of the node's tensor that one band needs: its own part, and what readers want."""
        wanted = self._reads.get(place)
        if wanted is None:
            return own_part(node.rows)
        return larger(own_part(node.rows), wanted.rows) if leaves else wanted.rows

    def _read(self, source: int, rows: Rows) -> None:
        """Count a tensor from outside, once however many members read it."""
        node = self._graph.nodes[source]
        if source in self._reads:
            rows = larger(rows, self._reads[source].rows)
            self._forget_read(source)
        tile = tile_bytes(rows, node.row_bytes)
        read = _Read(rows, tile, total_bytes(rows, node.rows, node.row_bytes))
        self._reads[source] = read
        self.in_tile += read.tile
        self.in_bytes += read.total

    def _forget_read(self, source: int) -> None:
        read = self._reads.pop(source, None)
        if read is not None:
            self.in_tile -= read.tile
            self.in_bytes -= read.total

    def _keep(self, first: int, last: int, tile_bytes: Floats) -> None:
        """A tensor is alive from its own step to its last reader's; steps count backwards."""
        if first >= len(self._live):
            self._live = np.concatenate([self._live, np.zeros_like(self._live)])
        self._live[last : first + 1] += tile_bytes

    def _compute(self, place: int, node: ScheduleNode, readers: Sequence[int]) -> None:
        """Add the node's cycles; elementwise readers of a convolution run as its results come."""
        rows = self._rows[place].values
        read_bytes = sum(self._graph.nodes[source].out_bytes for source in self._graph.preds[place])
        share = share_of_rows(self._rows[place], node.rows)
        followers = [
            reader
            for reader in readers
            if self._graph.nodes[reader].kind in _STREAMED and reader not in self._claimed
        ]
        behind: Floats = sum((self._stages[r] for r in followers), _NONE)
        self._claimed.update(followers)
        if node.kind is OpKind.CONV:
            own = self._costs.array_cycles(node, rows, behind / share) * share
            load = self._costs.load_cycles(node.weight_bytes)
        else:
            own = self._costs.vector_cycles(node, read_bytes, rows) * share + behind
            load = 0.0
        self._stages[place] = own
        self.compute += own - behind
        self.streamed += np.maximum(own, load) - behind
