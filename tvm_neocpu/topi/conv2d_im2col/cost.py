"""What the cost model says of the im2col template: the product, and the copy of the columns."""

from __future__ import annotations

import math

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig, Im2colGeometry
from tvm_neocpu.topi.cost.roofline import (
    L2_SHARE,
    PANEL_SHARE,
    Traffic,
    Work,
    crowded_cycles,
    loop_cycles,
    prefetched_bytes,
    requests_of_step,
    resident_in_l3,
    seconds,
    streamed,
    tile_step_cycles,
)


def predict_seconds(conv: ConvWorkload, config: Im2colConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry = Im2colGeometry(conv, config)
    whole, last = (_tile_cycles(geometry, n, cpu) for n in (config.reg_n, geometry.last_tile))
    per_chunk = (geometry.chunk_tiles - 1) * whole + last
    cycles = geometry.row_chunks * geometry.out_blocks * per_chunk
    if not geometry.reads_in_place:
        cycles += geometry.computed_pixels * conv.taps * _copy_cycles(geometry, cpu)
        if config.ic_bn == 0:
            cycles += 1.0 * math.prod(conv.in_shape)
    work = Work(cycles, geometry.chunks, _traffic(geometry, cpu))
    return seconds(work, cpu) + cpu.fork_join * geometry.passes_before


def _tile_cycles(geometry: Im2colGeometry, pixels: int, cpu: Cpu) -> float:
    """Cycles of a register tile: its reduction, and the store."""
    conv, config, unit = geometry.conv, geometry.config, cpu.unit(geometry.conv.types.accumulator)
    vectors = unit.registers_of(config.tile_channels)
    row_bytes = float(item_bytes(conv.types.weight) * config.tile_channels)
    from_l2 = streamed(conv.taps * row_bytes, row_bytes, cpu)
    map_bytes = conv.in_bytes if geometry.asks_for_pixels(cpu) else 0
    requests = requests_of_step(config.reg_n, vectors, conv.weight_bytes, map_bytes, unit)
    per_step = tile_step_cycles(pixels, vectors, cpu, unit, from_l2, requests)
    per_step += loop_cycles(geometry.ic_bn, pixels, vectors)
    per_step += crowded_cycles(geometry.ic_bn, pixels, vectors, unit)
    return conv.taps * per_step + 2.0 * pixels * vectors + 20


def _copy_cycles(geometry: Im2colGeometry, cpu: Cpu) -> float:
    """Cycles that an element of the columns takes: a vector's load, test and store, or its own."""
    conv, config, lanes = geometry.conv, geometry.config, cpu.lanes(geometry.conv.types.data)
    if config.ic_bn:
        width = min(config.ic_bn & -config.ic_bn, lanes)
        return (2.0 + 2.0 * any(conv.padding) / max(1, config.ic_bn // lanes)) / width
    whole_rows = geometry.chunk_pixels % conv.out_width == 0
    return 2.0 / min(conv.out_width & -conv.out_width, lanes) if whole_rows else 3.0


def _traffic(geometry: Im2colGeometry, cpu: Cpu) -> Traffic:
    """Every chunk walks the weights; every block of channels walks the chunk's columns again."""
    conv, config = geometry.conv, geometry.config
    blocks, row_chunks = geometry.out_blocks, geometry.row_chunks
    in_bytes, out_bytes = float(conv.in_bytes), float(conv.out_bytes)
    weights = float(item_bytes(conv.types.weight) * math.prod(geometry.packed_shape))
    columns = geometry.column_bytes
    panel, tile = weights / blocks, columns / config.tiles
    # A panel that every tile takes from L2 anew is a matter of the tile's steps.
    from_l2 = 0.0 if panel > PANEL_SHARE * cpu.l1 else weights * row_chunks
    stays = tile + panel <= PANEL_SHARE * cpu.l1 and config.tiles == 1
    from_l2 += columns * row_chunks * (1 if stays else blocks)
    copied = 0.0 if geometry.reads_in_place else columns
    from_l2 += copied * row_chunks + in_bytes + out_bytes
    fit_l2 = weights + columns <= L2_SHARE * cpu.l2
    walks = min(row_chunks, cpu.cores) if fit_l2 else row_chunks
    from_l3 = weights * walks + in_bytes + out_bytes
    if geometry.walked_bytes > PANEL_SHARE * cpu.l2:
        from_l3 += columns * row_chunks * blocks + 2 * copied * row_chunks
    elif config.parallel_oc:
        from_l3 += copied * row_chunks * min(cpu.cores, blocks)
    prefetched = prefetched_bytes(weights)
    from_dram = weights - prefetched
    if not resident_in_l3(in_bytes + out_bytes + weights, cpu):
        from_dram += in_bytes + out_bytes
    return Traffic(from_l2, from_l3, from_dram, prefetched)
