"""The configuration space of the im2col template and what the cost model says of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

from tvm_neocpu.core.config import Im2colConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import in_blocks, out_blocks, overhang, register_tiles
from tvm_neocpu.topi.conv2d_im2col.template import chunking, packed_shape, reads_in_place
from tvm_neocpu.topi.cost.roofline import (
    FORK_JOIN,
    PANEL_SHARE,
    Work,
    seconds,
    streamed,
    tile_step_cycles,
    vector_registers,
)
from tvm_neocpu.topi.tir.prefetch_weights import LEAST_BYTES

# What flat tiles must promise over tiles of rows and columns to pay for their columns. Measured on
# Zen 5: 17x17 images promise 1.05 and win 0.99-1.03; batches of single pixels promise 3.3-3.9
# and win 3.3-4.6, because the direct template walks all weights for each of them.
LEAST_GAIN = 1.1
# Register tiles offered for each count of vectors: so many, and within a fifth of the best.
MOST_TILES, NEARLY = 3, 1.2
LEAST_IC_BN = 4


@lru_cache(maxsize=4096)
def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """One group, and an image on which the direct template's register tiles fit badly."""
    return conv.groups == 1 and gain(conv, cpu) >= LEAST_GAIN


def gain(conv: ConvWorkload, cpu: Cpu) -> float:
    """Cycles that the direct template's best register tile takes over those of the best flat one.

    Both a pixel wanted and a vector of channels, with the weights streamed from L2.
    """
    counts = {vector_registers(lanes or block, cpu) for block, lanes in wide_blocks(conv, cpu)}
    direct = min(
        _step_cycles(m * n, vectors, cpu) / (m * n * vectors) * overhang(conv, m, n)
        for vectors, (m, n) in product(counts, register_tiles(conv, cpu))
        if cpu.holds_tile(m * n, vectors) or m * n == 1
    )
    flat = min(
        _cycles_a_pixel(conv, n, vectors, cpu) / vectors
        for vectors in counts
        for n in pixel_tiles(conv, vectors, cpu)
    )
    return direct / flat


def wide_blocks(conv: ConvWorkload, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(oc_bn, oc_lanes) of the direct template that are whole vectors; all of them without any."""
    blocks = out_blocks(conv, cpu)
    return tuple((b, lanes) for b, lanes in blocks if (lanes or b) % cpu.lanes == 0) or blocks


def _step_cycles(pixels: int, vectors: int, cpu: Cpu) -> float:
    return tile_step_cycles(pixels, vectors, cpu, cpu.isa.vector_bits / 8 * vectors)


def _cycles_a_pixel(conv: ConvWorkload, reg_n: int, vectors: int, cpu: Cpu) -> float:
    pixels = conv.batch * conv.out_height * conv.out_width
    return _step_cycles(reg_n, vectors, cpu) * math.ceil(pixels / reg_n) / pixels


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[Im2colConfig, ...]:
    """Channel factors, flat register tiles, chunks that fit a cache or share the pixels out."""
    blocks = in_blocks(conv)
    blocks = tuple(block for block in blocks if block == 0 or block >= LEAST_IC_BN) or blocks
    return tuple(
        Im2colConfig(ic_bn, oc_bn, reg_n, tiles, parallel_oc, oc_lanes)
        for oc_bn, oc_lanes in wide_blocks(conv, cpu)
        for reg_n in pixel_tiles(conv, vector_registers(oc_lanes or oc_bn, cpu), cpu)
        for ic_bn in blocks
        for tiles, parallel_oc in chunkings(conv, ic_bn, reg_n, cpu)
    )


def pixel_tiles(conv: ConvWorkload, vectors: int, cpu: Cpu) -> tuple[int, ...]:
    """The pixels of a register tile, the one that takes the fewest cycles a pixel first."""
    pixels = conv.batch * conv.out_height * conv.out_width
    widest = min(pixels, cpu.accumulators)
    cycles = {
        n: _cycles_a_pixel(conv, n, vectors, cpu)
        for n in range(1, widest + 1)
        if n == 1 or cpu.holds_tile(n, vectors)
    }
    best = sorted(cycles, key=cycles.__getitem__)[:MOST_TILES]
    return tuple(n for n in best if cycles[n] <= NEARLY * cycles[best[0]])


def chunkings(conv: ConvWorkload, ic_bn: int, reg_n: int, cpu: Cpu) -> tuple[tuple[int, bool], ...]:
    """(tiles a chunk covers, split over output channels too).

    All tiles, what gives each core one chunk or two, and what keeps a chunk's columns in half of
    L2. A chunk of plain data covers whole rows, so that its columns are runs of a row.
    """
    total = math.ceil(conv.batch * conv.out_height * conv.out_width / reg_n)
    tile_bytes = 4 * reg_n * math.prod(conv.weight_shape[1:])
    wanted = {total, *(math.ceil(total / (cpu.cores * share)) for share in (1, 2))}
    wanted.add(min(total, max(1, int(cpu.l2 / 2 / tile_bytes))))
    if ic_bn == 0:
        step = conv.out_width // math.gcd(conv.out_width, reg_n)
        wanted = {max(1, round(tiles / step)) * step for tiles in wanted}
    return tuple(product(sorted(wanted), (False, True)))


def predict_seconds(conv: ConvWorkload, config: Im2colConfig, cpu: Cpu) -> float:
    """CDUCA's model: the product like the direct template's, and the copy of the columns."""
    _, row_chunks, pixels = chunking(conv, config)
    out_blocks_total, taps, inner, lanes = packed_shape(conv, config)
    vectors = vector_registers(lanes, cpu)
    steps = taps * inner
    from_l2 = streamed(4.0 * steps * lanes, 4.0 * lanes, cpu)
    per_step = tile_step_cycles(config.reg_n, vectors, cpu, from_l2) + 0.25 + 2.0 / inner
    per_tile = steps * per_step + 2.0 * config.reg_n * vectors + 20
    cycles = row_chunks * config.tiles * out_blocks_total * per_tile
    if not reads_in_place(conv, config):
        cycles += row_chunks * pixels * steps * _copy_cycles(conv, config, cpu)
        if config.ic_bn == 0:
            cycles += 1.0 * math.prod(conv.in_shape)
    chunks = row_chunks * (out_blocks_total if config.parallel_oc else 1)
    work = Work(cycles, chunks, *_traffic(conv, config, cpu))
    return seconds(work, cpu) + FORK_JOIN * len(list(_passes_before(conv, config)))


def _passes_before(conv: ConvWorkload, config: Im2colConfig) -> Iterator[str]:
    """Parallel loops that precede the product's."""
    if reads_in_place(conv, config):
        return
    if config.ic_bn == 0:
        yield "padding"
    if config.parallel_oc:
        yield "columns"


def _copy_cycles(conv: ConvWorkload, config: Im2colConfig, cpu: Cpu) -> float:
    """Cycles an element of the columns takes: a vector's load, test and store, or its own."""
    if config.ic_bn:
        width = min(config.ic_bn & -config.ic_bn, cpu.lanes)
        return (2.0 + 2.0 * any(conv.padding) / max(1, config.ic_bn // cpu.lanes)) / width
    whole_rows = config.tiles * config.reg_n % conv.out_width == 0
    return 2.0 / min(conv.out_width & -conv.out_width, cpu.lanes) if whole_rows else 3.0


def _traffic(
    conv: ConvWorkload, config: Im2colConfig, cpu: Cpu
) -> tuple[float, float, float, float]:
    """Bytes into L1, into L2, from memory, and from memory by prefetch.

    Every chunk walks the weights; every block of channels walks the chunk's columns again.
    """
    _, row_chunks, pixels = chunking(conv, config)
    blocks, taps, inner, lanes = packed_shape(conv, config)
    in_bytes, out_bytes = 4.0 * math.prod(conv.in_shape), 4.0 * math.prod(conv.out_shape)
    weights = 4.0 * blocks * taps * inner * lanes
    columns = 4.0 * taps * inner * pixels
    panel, tile = weights / blocks, 4.0 * taps * inner * config.reg_n
    # A panel that every tile takes from L2 anew is a matter of the tile's steps.
    from_l2 = 0.0 if panel > PANEL_SHARE * cpu.l1 else weights * row_chunks
    stays = tile + panel <= PANEL_SHARE * cpu.l1 and config.tiles == 1
    from_l2 += columns * row_chunks * (1 if stays else blocks)
    copied = 0.0 if reads_in_place(conv, config) else columns
    from_l2 += copied * row_chunks + in_bytes + out_bytes
    walks = row_chunks if weights + columns > 0.7 * cpu.l2 else min(row_chunks, cpu.cores)
    from_l3 = weights * walks + in_bytes + out_bytes
    if columns > PANEL_SHARE * cpu.l2:
        from_l3 += columns * row_chunks * blocks + 2 * copied * row_chunks
    elif config.parallel_oc:
        from_l3 += copied * row_chunks * min(cpu.cores, blocks)
    prefetched = weights if weights >= LEAST_BYTES else 0.0
    from_dram = weights - prefetched
    if in_bytes + out_bytes + weights > 0.5 * cpu.l3:
        from_dram += in_bytes + out_bytes
    return from_l2, from_l3, from_dram, prefetched
