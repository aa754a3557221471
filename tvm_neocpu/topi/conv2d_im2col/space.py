"""The configuration space of the im2col template, and when it is worth offering."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import (
    MAX_VECTORS,
    in_blocks,
    out_blocks,
    overhang,
    register_tiles,
)
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.cost.roofline import PANEL_SHARE, tile_step_cycles

# What flat tiles must promise over tiles of rows and columns to pay for their columns. Measured on
# Zen 5: 17x17 images promise 1.05 and win 0.99-1.03; batches of single pixels promise 3.3-3.9
# and win 3.3-4.6, because the direct template walks all weights for each of them.
MIN_GAIN = 1.1
# The same of 1x1 kernels, whose columns are the data or a copy of each pixel: tiles of 6 pixels x 2
# vectors instead of 4 x 2 (Zen 3, 512x14x14->1024: 2204 -> 2113 us).
MIN_GAIN_OF_PIXELS = 1.015
# Multiply-adds from which on that is worth it: MobileNet-v2's projections gain a microsecond each,
# and a group with the depthwise layer in front of them, which reads rows, gains more.
MIN_PIXELS_WORK = 8e6
# Register tiles offered for each count of vectors: so many, and within a fifth of the best.
MAX_TILES, NEARLY = 3, 1.2
MIN_IC_BN = 4
# Parts of a reduction, over those that make the weights of a part stay in L1.
MAX_PARTS = 2
# Blocks of output channels that share a register tile, at most. Four gain nothing over three
# (Emerald Rapids, in RegNet-Y: 112x28x28->112 with a residual 135 us with 4 x 6, 136 with 3 x 9
# accumulators, 141 with 2 x 14).
MAX_BLOCKS = 3


@lru_cache(maxsize=4096)
def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """One group, and an image on which the direct template's register tiles fit badly."""
    of_pixels = conv.kernel == (1, 1) and not any(conv.padding)
    large = of_pixels and conv.flops >= 2 * MIN_PIXELS_WORK
    least = MIN_GAIN_OF_PIXELS if large else MIN_GAIN
    return conv.groups == 1 and gain(conv, cpu) >= least


def gain(conv: ConvWorkload, cpu: Cpu) -> float:
    """Cycles that the direct template's best register tile takes over those of the best flat one.

    Both are cycles of a wanted pixel and channel, with the weights streamed from L2. Lanes that
    only fill a vector count as channels, unless blocks may share a tile instead.
    """
    unit, blocks = cpu.unit(conv.types.accumulator), wide_blocks(conv, cpu)
    several = any(len(blocks_of_tile(conv, block, cpu)) > 1 for block, _ in blocks)
    # By vectors of a block: the channels of the block that they fill best.
    fullest: dict[int, int] = {}
    for block, lanes in blocks:
        vectors = unit.registers_of(lanes or block)
        channels = block if several else vectors * unit.lanes
        fullest[vectors] = max(channels, fullest.get(vectors, 0))
    direct = min(
        _step_cycles(m * n, vectors, conv, cpu) / (m * n * channels) * overhang(conv, m, n)
        for (vectors, channels), (m, n) in product(fullest.items(), register_tiles(conv, cpu))
        if unit.holds_tile(m * n, vectors) or m * n == 1
    )
    flat = min(
        _cycles_of_channel(conv, n, vectors, channels, reg_o, cpu)
        for vectors, channels in fullest.items()
        for reg_o in (blocks_of_tile(conv, channels, cpu) if several else (1,))
        for n in pixel_tiles(conv, vectors * reg_o, cpu)
    )
    return direct / flat


def wide_blocks(conv: ConvWorkload, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(oc_bn, oc_lanes) of the direct template that are whole vectors; all of them without any."""
    blocks, whole = out_blocks(conv, cpu), cpu.lanes(conv.types.accumulator)
    return tuple((b, lanes) for b, lanes in blocks if (lanes or b) % whole == 0) or blocks


def _step_cycles(pixels: int, vectors: int, conv: ConvWorkload, cpu: Cpu) -> float:
    streamed = cpu.isa.vector_bits / 8 * vectors
    return tile_step_cycles(pixels, vectors, cpu, cpu.unit(conv.types.accumulator), streamed)


def _cycles_of_channel(
    conv: ConvWorkload, reg_n: int, vectors: int, block: int, reg_o: int, cpu: Cpu
) -> float:
    """Of a pixel, in tiles of ``reg_o`` blocks of so many channels; the last may be of fewer."""
    if reg_o == 1:
        return _cycles_a_pixel(conv, reg_n, vectors, cpu) / block
    whole, rest = divmod(conv.out_channels // block, reg_o)
    cycles = whole * _cycles_a_pixel(conv, reg_n, vectors * reg_o, cpu)
    if rest:
        cycles += _cycles_a_pixel(conv, reg_n, vectors * rest, cpu)
    return cycles / conv.out_channels


def _cycles_a_pixel(conv: ConvWorkload, reg_n: int, vectors: int, cpu: Cpu) -> float:
    """Of the last tile only its pixels are computed where data are read in place."""
    pixels = conv.batch * conv.out_height * conv.out_width
    whole, rest = divmod(pixels, reg_n)
    cycles = whole * _step_cycles(reg_n, vectors, conv, cpu)
    if rest:
        cycles += _step_cycles(rest if conv.is_pointwise else reg_n, vectors, conv, cpu)
    return cycles / pixels


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[Im2colConfig, ...]:
    """Channel factors, flat register tiles, chunks that fit a cache or share the pixels out.

    The reduction is walked at once, or in parts.
    """
    unit = cpu.unit(conv.types.accumulator)
    blocks = in_blocks(conv)
    blocks = tuple(block for block in blocks if block == 0 or block >= MIN_IC_BN) or blocks
    return tuple(
        Im2colConfig(ic_bn, oc_bn, reg_n, tiles, parallel_oc, oc_lanes, parts, reg_o)
        for oc_bn, oc_lanes in wide_blocks(conv, cpu)
        for reg_o in blocks_of_tile(conv, oc_bn, cpu)
        for reg_n in pixel_tiles(conv, unit.registers_of(oc_lanes or oc_bn) * reg_o, cpu)
        for ic_bn in blocks
        for parts in reduction_parts(conv, ic_bn, (oc_lanes or oc_bn) * reg_o, cpu)
        for tiles, parallel_oc in chunkings(conv, ic_bn, reg_n, cpu, parts)
        if reg_o == 1 or not parallel_oc
    )


def blocks_of_tile(conv: ConvWorkload, oc_bn: int, cpu: Cpu) -> tuple[int, ...]:
    """How many blocks of output channels a register tile computes: one, or a few.

    Several where no block is wider than a vector, as of 208 channels, 13 vectors of 16: a tile of
    one vector loads a pixel for every product, one of two vectors for every other product.
    """
    widths = (count * oc_bn for count in range(2, MAX_VECTORS + 1))
    is_vector = oc_bn == cpu.lanes(conv.types.accumulator)
    if not is_vector or any(conv.out_channels % width == 0 for width in widths):
        return (1,)
    return tuple(range(1, min(MAX_BLOCKS, conv.out_channels // oc_bn) + 1))


def reduction_parts(conv: ConvWorkload, ic_bn: int, channels: int, cpu: Cpu) -> tuple[int, ...]:
    """One part, and as few as make the weights of a part stay in L1 where a panel does not.

    Steps of less than a vector's channels are not worth it.
    """
    panel = item_bytes(conv.types.weight) * conv.taps * channels
    wanted = panel / (PANEL_SHARE * cpu.l1)
    if wanted <= 1 or ic_bn < cpu.lanes(conv.types.data):
        return (1,)
    fewest = next((parts for parts in factors(conv.taps // ic_bn) if parts >= wanted), None)
    return (1,) if fewest is None or fewest > MAX_PARTS * wanted else (1, fewest)


def pixel_tiles(conv: ConvWorkload, vectors: int, cpu: Cpu) -> tuple[int, ...]:
    """The pixels of a register tile, the one that takes the fewest cycles a pixel first."""
    unit = cpu.unit(conv.types.accumulator)
    pixels = conv.batch * conv.out_height * conv.out_width
    widest = min(pixels, unit.max_pixels)
    cycles = {
        n: _cycles_a_pixel(conv, n, vectors, cpu)
        for n in range(1, widest + 1)
        if n == 1 or unit.holds_tile(n, vectors)
    }
    best = sorted(cycles, key=cycles.__getitem__)[:MAX_TILES]
    return tuple(n for n in best if cycles[n] <= NEARLY * cycles[best[0]])


def chunkings(
    conv: ConvWorkload, ic_bn: int, reg_n: int, cpu: Cpu, parts: int = 1
) -> tuple[tuple[int, bool], ...]:
    """(tiles that a chunk covers, whether chunks are split over output channels too).

    All tiles, what gives each core one chunk or two, and what keeps a chunk's columns in half of
    L2: those of a part of the reduction. A chunk of plain data covers whole rows, so that its
    columns are runs of a row.
    """
    total = math.ceil(conv.batch * conv.out_height * conv.out_width / reg_n)
    tile_bytes = item_bytes(conv.types.data) * reg_n * conv.taps / parts
    wanted = {total, *(math.ceil(total / (cpu.cores * share)) for share in (1, 2))}
    wanted.add(in_cache := min(total, max(1, int(cpu.l2 / 2 / tile_bytes))))
    if conv.is_pointwise:
        # Chunks that are read in place are equal: as many for each core.
        wanted.add(math.ceil(total / (cpu.cores * math.ceil(total / in_cache / cpu.cores))))
    if ic_bn == 0:
        step = conv.out_width // math.gcd(conv.out_width, reg_n)
        wanted = {max(1, round(tiles / step)) * step for tiles in wanted}
    return tuple(product(sorted(wanted), (False, True)))
