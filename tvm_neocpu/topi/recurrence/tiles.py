"""Register tiles of a recurrent layer, and how its work is shared between the cores.

pieces   parallel (direction, group of rows): for step: for block of units: for tile of rows
blocks   for step: parallel (direction, block of units): for tile of rows     a fork for each step

A block of R stays in a near cache for the tiles of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import product
from math import ceil

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.recurrence.layer import RecurrentLayer, Tile

# Vectors of one gate in a block: so many sums hide the latency of a multiply-add, and more fill up
# more of the last block.
MAX_VECTORS = 8


class Sharing(Enum):
    """What runs in parallel."""

    NOTHING = "nothing"
    PIECES = "pieces"
    BLOCKS = "blocks"


@dataclass(frozen=True)
class Course:
    """A tile for each phase, all of the same rows, and what runs in parallel.

    ``groups``: in how many parts the tiles of rows go to the cores.
    """

    tiles: tuple[Tile, ...]
    sharing: Sharing
    groups: int = 1


def course_of(layer: RecurrentLayer, cpu: Cpu) -> Course:
    """The fastest one by the CPU's figures."""
    courses = [course for rows in _rows(layer, cpu) for course in _courses(layer, rows, cpu)]

    def cost(course: Course) -> tuple[float, int]:
        """Of equal ones the one that reads R least often."""
        return cycles_of_step(layer, course, cpu), -course.tiles[0].rows

    return min(courses, key=cost)


def cycles_of_step(layer: RecurrentLayer, course: Course, cpu: Cpu) -> float:
    """Predicted cycles of one step of all directions: products, R through the caches, forks."""
    forks = {Sharing.NOTHING: 0.0, Sharing.PIECES: 1 / max(layer.steps, 1)}
    count = forks.get(course.sharing, float(len(layer.phases)))
    phases = zip(layer.phases, course.tiles, strict=True)
    work = sum(_cycles_of_phase(layer, len(gates), tile, course, cpu) for gates, tile in phases)
    return work + count * cpu.fork_join * cpu.ghz * 1e9


def _cycles_of_phase(
    layer: RecurrentLayer, gates: int, tile: Tile, course: Course, cpu: Cpu
) -> float:
    """The first tile of rows waits for a block of R from where all blocks lie, others do not."""
    blocks, stripes = tile.blocks(layer.hidden), ceil(layer.batch / tile.rows)
    # Blocks that a core reads between two reads of the same one, and how often it does so.
    held, passes = blocks, layer.directions
    if course.sharing is Sharing.BLOCKS:
        held, passes = ceil(layer.directions * blocks / cpu.cores), 1
    elif course.sharing is Sharing.PIECES:
        passes = ceil(layer.directions * course.groups / cpu.cores)
    block = layer.hidden * gates * tile.units * item_bytes(layer.dtype)
    # The blocks of the other phases pass through the same caches.
    between = held * block * layer.gates / gates
    products = layer.hidden * gates // tile.gates * _cycles_of_unit(tile, cpu)
    first = max(products, block / _bandwidth(between, cpu))
    other = max(products, block / _bandwidth(block, cpu))
    return passes * held * (first + (ceil(stripes / course.groups) - 1) * other)


def _courses(layer: RecurrentLayer, rows: int, cpu: Cpu) -> Iterator[Course]:
    """All ways of sharing; in each the tiles that are fastest then."""
    ways = [Course((), Sharing.NOTHING)]
    if cpu.cores > 1:
        # The range of rounded states is that of all rows.
        most = 1 if layer.rounds else ceil(layer.batch / rows)
        groups = min(most, ceil(cpu.cores / layer.directions))
        ways += [Course((), Sharing.PIECES, groups), Course((), Sharing.BLOCKS)]
    for way in ways:
        tiles = []
        for gates in layer.phases:
            cycles = partial(_cycles_of_phase, layer, len(gates), course=way, cpu=cpu)
            of_phase = _tiles(layer, len(gates), rows, cpu)
            # Of tiles that wait for R alike the one of least arithmetic.
            tiles.append(
                min(of_phase, key=lambda tile: (cycles(tile), _products(tile, layer, cpu)))
            )
        yield replace(way, tiles=tuple(tiles))


def _rows(layer: RecurrentLayer, cpu: Cpu) -> tuple[int, ...]:
    """Rows of a tile, as even as can be, of which one vector of sums each stays in registers."""
    most = min(layer.batch, cpu.unit(layer.dtype).registers // 2 - 1)
    heights = range(1, max(1, most) + 1)
    return tuple(sorted({ceil(layer.batch / ceil(layer.batch / rows)) for rows in heights}))


def _tiles(layer: RecurrentLayer, gates: int, rows: int, cpu: Cpu) -> list[Tile]:
    """The tiles whose sums stay in registers; of one row there always is one."""
    unit = cpu.unit(layer.dtype)
    at_once = [count for count in range(1, gates + 1) if gates % count == 0]
    tiles = [
        Tile(unit.lanes, vectors, rows, count)
        for count, vectors in product(at_once, range(1, MAX_VECTORS + 1))
    ]
    return [tile for tile in tiles if (tile.sums + 1) * rows + 1 <= unit.registers]


def _cycles_of_unit(tile: Tile, cpu: Cpu) -> float:
    """Cycles of one state's products with a block: arithmetic, loads, or the chain of sums."""
    return max(
        tile.sums * tile.rows / cpu.fma_per_cycle,
        (tile.sums + tile.rows) / cpu.load_per_cycle,
        cpu.fma_latency,
    )


def _products(tile: Tile, layer: RecurrentLayer, cpu: Cpu) -> float:
    """Cycles of a state's products with all units, were R in registers."""
    return tile.blocks(layer.hidden) / tile.gates * _cycles_of_unit(tile, cpu)


def _bandwidth(size: float, cpu: Cpu) -> float:
    """Bytes per cycle and core of data that is read again and again."""
    if size <= cpu.l1:
        return float("inf")
    if size <= cpu.l2:
        return cpu.l2_bytes_per_cycle
    return cpu.l3_bytes_per_cycle if size <= cpu.l3 else cpu.dram_bytes_per_cycle
