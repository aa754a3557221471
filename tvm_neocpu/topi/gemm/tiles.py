"""Register tiles of a matrix product, (rows, K) x (K, columns): what operators over it share.

A register tile is ``reg_n`` rows x ``oc_bn`` columns. Each step of the reduction loads ``oc_bn``
weights, which lie side by side in a *panel* (K, oc_bn), and broadcasts an element of every row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.topi.cost.roofline import PANEL_SHARE, tile_step_cycles

# Vectors of columns that a register tile may have.
VECTORS = (1, 2, 3, 4, 6)
# The same of half vectors: odd, else they are whole ones.
HALF_VECTORS = (1, 3, 5, 7)
# Heights of tiles offered for each count of vectors: so many, and within a fifth of the best.
MAX_HEIGHTS, NEARLY = 3, 1.2
# Caches are indexed by the address inside a page (x86): rows a page apart share a set.
PAGE = 4096


@dataclass(frozen=True)
class Tiles:
    """How (rows, inner) x (inner, columns) is cut; a chunk covers ``tiles`` tiles of rows."""

    rows: int
    inner: int
    columns: int
    oc_bn: int
    reg_n: int
    tiles: int

    @property
    def height(self) -> int:
        """Rows of a register tile."""
        return min(self.reg_n, self.rows)

    @property
    def row_chunks(self) -> int:
        """Chunks of rows; the last one may overhang."""
        return math.ceil(math.ceil(self.rows / self.height) / self.tiles)

    @property
    def computed_rows(self) -> int:
        return self.row_chunks * self.tiles * self.height

    @property
    def overhangs(self) -> bool:
        """Whether tiles read rows that do not exist."""
        return self.computed_rows > self.rows

    @property
    def blocks(self) -> int:
        """Panels; the last one is filled with zeros where ``oc_bn`` does not divide the columns."""
        return math.ceil(self.columns / self.oc_bn)

    @property
    def is_filled(self) -> bool:
        """Whether the last panel has columns that nobody stores."""
        return self.columns % self.oc_bn > 0


def packed_panels(matrix: np.ndarray, oc_bn: int) -> np.ndarray:
    """(K, columns) -> (ceil(columns/oc_bn), K, oc_bn), zeros behind the last column."""
    inner, columns = matrix.shape
    spare = -columns % oc_bn
    padded = np.pad(matrix, ((0, 0), (0, spare))) if spare else matrix
    return np.ascontiguousarray(padded.reshape(inner, -1, oc_bn).transpose(1, 0, 2))


def misfit_of_tiles(*sizes: int) -> str | None:
    """Why tiles of such sizes cannot be; ``None`` where they can."""
    return None if min(sizes) >= 1 else "its tiles are empty"


def tile_shapes(rows: int, columns: int, cpu: Cpu, unit: VectorUnit) -> tuple[tuple[int, int], ...]:
    """(height, vectors) of the register tiles worth trying."""
    widest = math.ceil(columns / unit.lanes)
    counts = [count for count in VECTORS if count <= widest] or [1]
    return tuple(
        (height, vectors)
        for vectors in counts
        for height in _heights(rows, vectors, cpu, unit)
        if unit.holds_tile(height, vectors)
    )


def block_shapes(
    rows: int, columns: int, cpu: Cpu, unit: VectorUnit
) -> tuple[tuple[int, int], ...]:
    """(height, columns) of the register tiles worth trying.

    Those of an odd count of half vectors, too, where halves lose no time and the last whole vector
    of a row would be half empty: 33 columns are 40, not 48.
    """
    whole = [
        (height, vectors * unit.lanes) for height, vectors in tile_shapes(rows, columns, cpu, unit)
    ]
    lanes = unit.full_rate_lanes
    if lanes == unit.lanes or -columns % unit.lanes < lanes:
        return tuple(whole)
    halves = [
        (height, count * lanes)
        for count in HALF_VECTORS
        if count * lanes < columns + lanes
        for height in _heights(rows, count, cpu, unit, lanes)
        if unit.holds_tile(height, count)
    ]
    return (*whole, *halves)


def _heights(
    rows: int, vectors: int, cpu: Cpu, unit: VectorUnit, lanes: int = 0
) -> tuple[int, ...]:
    """Heights of tiles, those that take the fewest cycles a row; ``lanes``: of a vector, 0: all."""
    columns = (lanes or unit.lanes) * vectors
    streamed, share = float(columns * cpu.line // unit.line), unit.issue_share(columns)
    cycles = {
        height: tile_step_cycles(height, vectors, cpu, unit, streamed, share=share)
        * math.ceil(rows / height)
        for height in range(1, min(rows, unit.max_pixels) + 1)
        if unit.holds_tile(height, vectors)
    }
    best = sorted(cycles, key=cycles.__getitem__)[:MAX_HEIGHTS]
    return tuple(height for height in best if cycles[height] <= NEARLY * cycles[best[0]])


def chunk_sizes(rows: int, height: int, row_bytes: int, cpu: Cpu) -> tuple[int, ...]:
    """How many tiles a chunk of rows may cover.

    All of them, what gives each core 1, 2 or 4 chunks, and what keeps a chunk's rows in half of L2.
    """
    total = math.ceil(rows / height)
    wanted = {total, *(math.ceil(total / (cpu.cores * share)) for share in (1, 2, 4))}
    wanted.add(min(total, max(1, int(cpu.l2 / 2 / (height * row_bytes)))))
    return tuple(sorted(wanted))


def rows_evict_each_other(height: int, pitch: int, cpu: Cpu) -> bool:
    """Whether rows that lie ``pitch`` bytes apart share too few sets of L1 for a tile of them.

    Rows of 1024 floats lie a page apart and share one set, which has as many ways as L1 has pages.
    """
    if pitch == 0 or pitch % cpu.line:
        return False
    sets = PAGE // math.gcd(pitch, PAGE)
    return height > sets * max(1, cpu.l1 // PAGE) * PANEL_SHARE
