"""What the cost model says of the deformable template: the product, and the sampling before it."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.cost.roofline import (
    L2_SHARE,
    PANEL_SHARE,
    Traffic,
    Work,
    prefetched_bytes,
    resident_in_l3,
    seconds,
    streamed,
    tile_step_cycles,
)
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig, DeformGeometry
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

# Measured on Zen 5 (64x56x56, 3x3, offsets of 1.5 pixels): the places of 16 output pixels take 110
# cycles, a sampled place 37 with four vectors of channels.
PLACES, SAMPLE, SAMPLED_VECTOR = 110.0, 5.0, 8.0
# An offset or a mask that is no part of a vector of pixels is loaded on its own.
SCATTERED = 6.0


def predict_seconds(deform: DeformConvWorkload, config: DeformConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry = DeformGeometry(deform, config)
    product, unit = geometry.product, cpu.unit(deform.types.accumulator)
    vectors = unit.registers_of(config.tile_channels)
    row_bytes = float(item_bytes(deform.types.weight) * config.tile_channels)
    taps = product.conv.taps
    from_l2 = streamed(taps * row_bytes, row_bytes, cpu)
    share = unit.issue_share(config.tile_channels)
    per_step = tile_step_cycles(config.reg_n, vectors, cpu, unit, from_l2, share=share)
    per_step += 0.25 + 2.0 / config.ic_bn
    per_tile = taps * per_step + 2.0 * config.reg_n * vectors + 20
    cycles = product.row_chunks * config.tiles * product.out_blocks * per_tile
    cycles += geometry.computed_samples * _sample_cycles(geometry, cpu)
    work = Work(cycles, product.chunks, _traffic(geometry, cpu))
    return seconds(work, cpu) + cpu.fork_join * config.parallel_oc


def _sample_cycles(geometry: DeformGeometry, cpu: Cpu) -> float:
    """Cycles of one place, and of the interpolation of all channels that share it."""
    config, unit = geometry.config, cpu.unit(geometry.deform.types.data)
    chunk = geometry.product.chunk_pixels
    # The vectors that code consists of: places are made for as many pixels as divide a chunk.
    pixels = min(chunk & -chunk, unit.lanes)
    vectors = geometry.blocks_of_place * unit.registers_of(config.ic_bn)
    scattered = SCATTERED if geometry.scatters_offsets else 0.0
    return PLACES / pixels + scattered + SAMPLE + SAMPLED_VECTOR * vectors


def _traffic(geometry: DeformGeometry, cpu: Cpu) -> Traffic:
    """A chunk walks the weights, and its columns once to fill and once for each block of filters.

    An image's row enters L1 once for each row of the kernel.
    """
    deform, config, product = geometry.deform, geometry.config, geometry.product
    chunks, in_bytes, out_bytes = product.row_chunks, float(deform.in_bytes), deform.out_bytes
    weights = float(item_bytes(deform.types.weight) * math.prod(product.packed_shape))
    columns = geometry.column_bytes
    # A panel that every tile takes from L2 anew is a matter of the tile's steps.
    panel_stays = weights / product.out_blocks <= PANEL_SHARE * cpu.l1
    reads = geometry.groups_blocks[1]
    from_l2 = weights * chunks * panel_stays + columns * chunks * (1 + reads)
    from_l2 += in_bytes * deform.kernel[0] + 2 * geometry.place_bytes * chunks + out_bytes
    fit_l2 = weights + columns <= L2_SHARE * cpu.l2
    walks = min(chunks, cpu.cores) if fit_l2 else chunks
    from_l3 = weights * walks + in_bytes + out_bytes
    if config.parallel_oc:
        # All columns are written before any is read, and a block of filters walks all of them.
        stay = columns * chunks <= L2_SHARE * cpu.l2
        walks_of_columns = min(cpu.cores, product.out_blocks) if stay else product.out_blocks
        from_l3 += columns * chunks * (2 + walks_of_columns)
    elif columns > L2_SHARE * cpu.l2:
        from_l3 += columns * chunks * (1 + reads)
    prefetched = prefetched_bytes(weights)
    maps = in_bytes + out_bytes
    from_dram = weights - prefetched
    from_dram += 0.0 if resident_in_l3(maps + weights, cpu) else maps
    return Traffic(from_l2, from_l3, from_dram, prefetched)
