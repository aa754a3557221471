"""What the cost model says of a matrix product in register tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import DotProduct
from tvm_neocpu.core.machine.half import widening_of
from tvm_neocpu.core.types import Types, item_bytes
from tvm_neocpu.topi.cost.roofline import (
    L2_SHARE,
    PANEL_SHARE,
    Traffic,
    Work,
    resident_in_l3,
    streamed,
    tile_step_cycles,
)
from tvm_neocpu.topi.gemm.tiles import Tiles, rows_evict_each_other

# What a core copies of rows.
COPIED_BYTES_PER_CYCLE = 16
# Cycles of a step that loop control takes.
LOOP_CYCLES = 0.125


@dataclass(frozen=True)
class Product:
    """``count`` products of the same tiles; ``copies``: their rows are copied first.

    ``pitch``: bytes from a row to the next one; 0 where a step reads its rows side by side.
    ``dot`` is what multiplies integers; ``tiles`` and ``types`` are then of words.
    """

    tiles: Tiles
    types: Types
    copies: bool
    pitch: int
    parallel_oc: bool = False
    count: int = 1
    dot: DotProduct | None = None


def work(
    product: Product, chunks: int, cpu: Cpu, prefetched: float = 0.0, cold: float = 0.0
) -> Work:
    """All its work; ``cold`` bytes of panels come from memory, ``prefetched`` of them in time."""
    tiles, types = product.tiles, product.types
    unit = cpu.unit(types.accumulator)
    vectors = unit.registers_of(tiles.oc_bn)
    from_l2 = _l2_bytes_a_step(product, cpu)
    widening = widening_of(types.weight) if product.dot is None else 0.0
    per_step = tile_step_cycles(
        tiles.height,
        vectors,
        cpu,
        unit,
        from_l2,
        dot=product.dot,
        widening=widening,
        share=unit.issue_share(tiles.oc_bn),
    )
    per_tile = tiles.inner * (per_step + LOOP_CYCLES) + 2.0 * tiles.height * vectors + 20
    cycles = product.count * tiles.row_chunks * tiles.tiles * tiles.blocks * per_tile
    if product.copies:
        copied = product.count * tiles.computed_rows * tiles.inner * item_bytes(types.data)
        cycles += copied / COPIED_BYTES_PER_CYCLE
    return Work(cycles, chunks, _traffic(product, cpu, prefetched, cold))


def _l2_bytes_a_step(product: Product, cpu: Cpu) -> float:
    """What a step reads from L2: its panel's row, and its rows' lines where they evict each other.

    A line of a row serves as many steps as it has elements, unless it is gone before.
    """
    tiles, types = product.tiles, product.types
    panel_row = float(item_bytes(types.weight) * tiles.oc_bn)
    from_l2 = streamed(tiles.inner * panel_row, panel_row, cpu)
    if not product.copies and rows_evict_each_other(tiles.height, product.pitch, cpu):
        return from_l2 + tiles.height * cpu.line
    return from_l2


def _traffic(product: Product, cpu: Cpu, prefetched: float, cold: float) -> Traffic:
    """Every chunk walks the panels; every panel walks the chunk's rows again."""
    tiles, types, count = product.tiles, product.types, product.count
    item = item_bytes(types.data)
    panel = float(item_bytes(types.weight) * tiles.inner * tiles.oc_bn)
    panels, rows = panel * tiles.blocks, float(item * tiles.computed_rows * tiles.inner)
    chunk_rows, tile_rows = rows / tiles.row_chunks, float(item * tiles.height * tiles.inner)
    out_bytes = float(item_bytes(types.output) * tiles.rows * tiles.columns)
    # A panel that every tile takes from L2 anew is a matter of the tile's steps.
    from_l2 = 0.0 if panel > PANEL_SHARE * cpu.l1 else panels * tiles.row_chunks
    stays = tiles.tiles == 1 and tile_rows + panel <= PANEL_SHARE * cpu.l1
    from_l2 += rows * (1 if stays else tiles.blocks) + rows * product.copies + out_bytes
    fit_l2 = panels + chunk_rows <= L2_SHARE * cpu.l2
    walks = min(tiles.row_chunks, cpu.cores) if fit_l2 else tiles.row_chunks
    from_l3 = panels * walks + rows + out_bytes
    # What each panel reads of the rows again, where they do not stay in L2 meanwhile.
    if chunk_rows + panel > L2_SHARE * cpu.l2:
        from_l3 += rows * (tiles.blocks - 1)
    elif product.parallel_oc:
        from_l3 += rows * (min(cpu.cores, tiles.blocks) - 1)
    # A panel that outgrows L2 comes from L3 for every tile of rows.
    if panel + tile_rows > L2_SHARE * cpu.l2:
        from_l3 += panels * tiles.row_chunks * (tiles.tiles - 1)
    from_dram = cold - prefetched
    if not resident_in_l3(count * (rows + out_bytes) + cold, cpu):
        from_dram += count * (rows + out_bytes)
    return Traffic(count * from_l2, count * from_l3, from_dram, prefetched)
