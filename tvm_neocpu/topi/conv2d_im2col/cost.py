"""What the cost model says of the im2col template: the product, and the copy of the columns."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig, Im2colGeometry
from tvm_neocpu.topi.cost.roofline import (
    L2_SHARE,
    PANEL_SHARE,
    Supply,
    Traffic,
    crowded_cycles,
    is_above,
    loop_cycles,
    prefetched_bytes,
    requests_of_step,
    resident_in_l3,
    seconds_beside,
    streamed,
    supply_of,
    tile_step_cycles,
)
from tvm_neocpu.topi.operator import Price

# What a product gets of a level's bandwidth where each tile takes its panel of weights from there
# (Zen 3, 5 x 2 accumulators: 2048x7x7->512 1265 us, with parts that stay in L1 1149; 512x14x14->512
# 3x3 of stride 2, whose panel outgrows L2, 3543 and 2621).
STREAM_SHARE = 0.5


def predict_seconds(conv: ConvWorkload, config: Im2colConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    return pricing(conv, cpu)(config)


def pricing(conv: ConvWorkload, cpu: Cpu) -> Price:
    """:func:`predict_seconds` for many configs: what several of them share is computed once."""
    known: dict[Hashable, _Chunks] = {}
    tiles: dict[Hashable, float] = {}

    def price(config: Im2colConfig, limit: float = math.inf, /) -> float:
        cut = (config.ic_bn == 0, config.oc_bn, config.oc_lanes, config.reg_n, config.tiles)
        key = (*cut, config.parallel_oc, config.parts, config.reg_o)
        chunks = known.get(key)
        if chunks is None:
            chunks = known[key] = _chunks(Im2colGeometry(conv, config), cpu)

        def of_tile(pixels: int, blocks: int) -> float:
            tile = config.tile_channels, config.reg_n, pixels, blocks
            size = (config.ic_bn, *tile, config.parts, chunks.asks)
            if size not in tiles:
                tiles[size] = _tile_cycles(conv, config, pixels, blocks, chunks.asks, cpu)
            return tiles[size]

        def of_walk(blocks: int) -> float:
            whole = (chunks.tiles - 1) * of_tile(config.reg_n, blocks)
            return whole + of_tile(chunks.last_tile, blocks)

        walk = (chunks.walks - 1) * of_walk(config.reg_o) + of_walk(chunks.last_blocks)
        cycles = chunks.count * walk
        if is_above(limit, cycles, cpu):
            return math.inf
        if chunks.copied:
            cycles += chunks.copied * _copy_cycles(conv, config, chunks.whole_rows, cpu)
            if config.ic_bn == 0:
                cycles += 1.0 * math.prod(conv.in_shape)
        return seconds_beside(cycles, chunks.supply, cpu) + cpu.fork_join * chunks.passes_before

    return price


@dataclass(frozen=True)
class _Chunks:
    """What configs share that differ in ``ic_bn`` only; plain NCHW (0) has its own.

    ``count`` chunks are walked ``walks`` times by ``tiles`` register tiles, the last of
    ``last_tile`` pixels; the last walk is of ``last_blocks`` blocks of output channels.
    ``copied``: elements of columns, none where data are read in place. ``asks``: whether tiles
    prefetch pixels.
    """

    count: int
    walks: int
    last_blocks: int
    tiles: int
    last_tile: int
    copied: int
    whole_rows: bool
    asks: bool
    passes_before: int
    supply: Supply


def _chunks(geometry: Im2colGeometry, cpu: Cpu) -> _Chunks:
    copied = 0 if geometry.reads_in_place else geometry.computed_pixels * geometry.conv.taps
    return _Chunks(
        geometry.row_chunks,
        geometry.walks,
        geometry.last_blocks,
        geometry.chunk_tiles,
        geometry.last_tile,
        copied,
        geometry.chunk_pixels % geometry.conv.out_width == 0,
        geometry.asks_for_pixels(cpu),
        geometry.passes_before,
        supply_of(geometry.chunks, _traffic(geometry, cpu), cpu),
    )


def _tile_cycles(
    conv: ConvWorkload, config: Im2colConfig, pixels: int, blocks: int, asks: bool, cpu: Cpu
) -> float:
    """Cycles of a register tile of so many blocks of channels: its reduction, and the store.

    Between two parts of the reduction it is stored and loaded, and each part ends in a
    misprediction.
    """
    unit, block = cpu.unit(conv.types.accumulator), config.ic_bn or 1
    vectors = unit.registers_of(config.tile_channels) * blocks
    row_bytes = float(item_bytes(conv.types.weight) * config.tile_channels * blocks)
    from_l2 = _streamed(conv, config, row_bytes, cpu)
    map_bytes = conv.in_bytes if asks else 0
    requests = requests_of_step(config.reg_n, vectors, conv.weight_bytes, map_bytes, unit)
    share = unit.issue_share(config.tile_channels)
    per_step = tile_step_cycles(pixels, vectors, cpu, unit, from_l2, requests, share=share)
    per_step += loop_cycles(block, pixels, vectors)
    per_step += crowded_cycles(block, pixels, vectors, unit)
    return conv.taps * per_step + config.parts * (2.0 * pixels * vectors + 20)


def _streamed(conv: ConvWorkload, config: Im2colConfig, row_bytes: float, cpu: Cpu) -> float:
    """Bytes that a step takes from L2, as many as it had time for; L3 delivers fewer.

    A part of a panel that is little larger than L1 stays there (512x7x7->2048, of 32 KiB, reaches
    93 % of the peak).
    """
    panel = conv.taps * row_bytes / config.parts
    outgrown = min(1.0, max(0.0, panel / cpu.l1 - PANEL_SHARE))
    from_l2 = streamed(panel, row_bytes, cpu) * outgrown / STREAM_SHARE
    pixels = item_bytes(conv.types.data) * conv.taps * config.reg_n / config.parts
    if panel + pixels <= L2_SHARE * cpu.l2:
        return from_l2
    return from_l2 * cpu.l2_bytes_per_cycle / cpu.l3_bytes_per_cycle


def _copy_cycles(conv: ConvWorkload, config: Im2colConfig, whole_rows: bool, cpu: Cpu) -> float:
    """Cycles that an element of the columns takes: a vector's load, test and store, or its own."""
    lanes = cpu.lanes(conv.types.data)
    if config.ic_bn:
        width = min(config.ic_bn & -config.ic_bn, lanes)
        return (2.0 + 2.0 * any(conv.padding) / max(1, config.ic_bn // lanes)) / width
    return 2.0 / min(conv.out_width & -conv.out_width, lanes) if whole_rows else 3.0


def _traffic(geometry: Im2colGeometry, cpu: Cpu) -> Traffic:
    """Every chunk walks the weights; every tile's channels walk the chunk's columns again."""
    conv, config = geometry.conv, geometry.config
    blocks, row_chunks = geometry.walks, geometry.row_chunks
    in_bytes, out_bytes = float(conv.in_bytes), float(conv.out_bytes)
    weights = float(item_bytes(conv.types.weight) * math.prod(geometry.packed_shape))
    columns = geometry.column_bytes
    parts = config.parts
    panel, tile = weights / blocks / parts, columns / config.tiles / parts
    # A panel that every tile takes from L2 anew is a matter of the tile's steps.
    from_l2 = 0.0 if panel > PANEL_SHARE * cpu.l1 else weights * row_chunks
    stays = tile + panel <= PANEL_SHARE * cpu.l1 and config.tiles == 1
    from_l2 += columns * row_chunks * (1 if stays else blocks)
    copied = 0.0 if geometry.reads_in_place else columns
    # A chunk's sums are stored behind a part and loaded before the next.
    sums = 2 * (parts - 1) * geometry.sum_bytes * geometry.chunks
    from_l2 += copied * row_chunks + sums + in_bytes + out_bytes
    fit_l2 = weights + columns <= L2_SHARE * cpu.l2
    walks = min(row_chunks, cpu.cores) if fit_l2 else row_chunks
    from_l3 = weights * walks + in_bytes + out_bytes
    if geometry.walked_bytes + geometry.sum_bytes > PANEL_SHARE * cpu.l2:
        from_l3 += columns * row_chunks * blocks + 2 * copied * row_chunks + sums
    elif config.parallel_oc:
        from_l3 += copied * row_chunks * min(cpu.cores, blocks)
    elif columns > PANEL_SHARE * cpu.l2:  # those of all parts are copied before the first one
        from_l3 += 2 * copied * row_chunks
    prefetched = prefetched_bytes(weights)
    from_dram = weights - prefetched
    if not resident_in_l3(in_bytes + out_bytes + weights, cpu):
        from_dram += in_bytes + out_bytes
    return Traffic(from_l2, from_l3, from_dram, prefetched)
