"""The configuration space of the Winograd template and what the cost model says of it."""

from __future__ import annotations

import math
import os
from itertools import product

from tvm_neocpu.core.config import WinogradConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import factors
from tvm_neocpu.core.winograd import winograd_matrices
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.prefetch import LEAST_BYTES
from tvm_neocpu.topi.roofline import (
    FORK_JOIN,
    Work,
    seconds,
    streamed,
    tile_step_cycles,
    vector_registers,
)

# Largest tile: 0 turns Winograd off, 6 trades a digit of precision (1e-3 relative) for speed.
TILE_LIMIT = "TVM_NEOCPU_WINOGRAD_TILE"
DEFAULT_TILE_LIMIT = 4
TILES = (2, 4, 6)


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """3x3, stride 1, undilated, one group, channels that fill vectors and pay for transforms."""
    plain = conv.kernel == (3, 3) and conv.stride == conv.dilation == (1, 1) and conv.groups == 1
    roomy = min(conv.in_channels, conv.out_channels) >= 8
    roomy = roomy and conv.in_channels % 4 == conv.out_channels % 4 == 0
    return plain and roomy and bool(tiles_allowed(conv))


def tiles_allowed(conv: ConvWorkload) -> tuple[int, ...]:
    """Tile sizes up to the limit that are not larger than the output."""
    limit = int(os.environ.get(TILE_LIMIT, DEFAULT_TILE_LIMIT))
    smallest = min(conv.out_height, conv.out_width)
    return tuple(tile for tile in TILES if tile <= min(limit, max(smallest, 2)))


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[WinogradConfig, ...]:
    """Channel factors, tile sizes, register tiles over the grid of tiles, chunks."""
    blocks_in = [f for f in factors(conv.in_channels) if 4 <= f <= 4 * cpu.lanes]
    blocks_out = [f for f in factors(conv.out_channels) if 4 <= f <= 4 * cpu.lanes]
    return tuple(
        WinogradConfig(ic_bn, oc_bn, tile, reg_n, reg_m, th_bn, parallel_oc)
        for tile in tiles_allowed(conv)
        for oc_bn in blocks_out
        for reg_m, reg_n in register_tiles(conv, tile)
        if cpu.holds_tile(reg_m * reg_n, vector_registers(oc_bn, cpu))
        for th_bn, parallel_oc in chunkings(conv, tile, reg_m)
        for ic_bn in blocks_in
    )


def register_tiles(conv: ConvWorkload, tile: int) -> tuple[tuple[int, int], ...]:
    """(reg_m, reg_n) that round the grid of tiles up by at most a seventh."""
    rows, cols = math.ceil(conv.out_height / tile), math.ceil(conv.out_width / tile)
    found = [
        (m, n)
        for m, n in product((1, 2, 4, 7), range(1, min(cols, 28) + 1))
        if m <= rows
        and math.ceil(rows / m) * m * math.ceil(cols / n) * n <= rows * cols * 8 / 7
        and (m * n >= 4 or m * n == rows * cols)
    ]
    return tuple(found) or ((1, min(cols, 28)),)


def chunkings(conv: ConvWorkload, tile: int, reg_m: int) -> tuple[tuple[int, bool], ...]:
    """(tile rows a chunk covers, split over output channels instead)."""
    rows = math.ceil(math.ceil(conv.out_height / tile) / reg_m) * reg_m
    heights = [f for f in factors(rows) if f % reg_m == 0 and f <= max(reg_m, 16)]
    return (*((height, False) for height in heights), (rows, True))


def predict_seconds(conv: ConvWorkload, config: WinogradConfig, cpu: Cpu) -> float:
    """CDUCA's model over the four parts; the kernel transform is paid at compile time."""
    alpha = config.tile + 2
    rows = math.ceil(math.ceil(conv.out_height / config.tile) / config.reg_m) * config.reg_m
    cols = math.ceil(math.ceil(conv.out_width / config.tile) / config.reg_n) * config.reg_n
    tiles = conv.batch * rows * cols
    out_blocks = conv.out_channels // config.oc_bn
    vectors = vector_registers(config.oc_bn, cpu)
    pixels = config.reg_m * config.reg_n
    row_bytes = 4.0 * config.oc_bn
    from_l2 = streamed(conv.in_channels * row_bytes, row_bytes, cpu)
    step = tile_step_cycles(pixels, vectors, cpu, from_l2) + 0.25 + 4.0 / config.ic_bn
    per_register_tile = conv.in_channels * step + 2.0 * pixels * vectors + 20
    cycles = alpha**2 * (tiles / pixels) * out_blocks * per_register_tile
    cycles += tiles * _input_cycles(config, cpu) * conv.in_channels / config.ic_bn
    cycles += tiles * _output_cycles(config, cpu) * out_blocks
    row_chunks = rows // max(f for f in factors(rows) if f <= config.th_bn)
    chunks = conv.batch * (out_blocks if config.parallel_oc else row_chunks)
    work = Work(cycles, chunks, *_traffic(conv, config, cpu, tiles, row_chunks))
    phases = 3 if config.parallel_oc else 1
    return seconds(work, cpu) + (phases - 1) * FORK_JOIN


def _input_cycles(config: WinogradConfig, cpu: Cpu) -> float:
    """B^T d B of one tile and one block of channels: arithmetic, loads, scattered stores."""
    alpha = config.tile + 2
    nonzeros = sum(c != 0 for row in winograd_matrices(config.tile).b for c in row)
    return vector_registers(config.ic_bn, cpu) * (alpha * nonzeros + 2.0 * alpha**2)


def _output_cycles(config: WinogradConfig, cpu: Cpu) -> float:
    """A^T M A of one tile and one block of channels, and the store."""
    alpha, tile = config.tile + 2, config.tile
    nonzeros = sum(c != 0 for row in winograd_matrices(tile).a for c in row)
    arithmetic = (alpha + tile) * nonzeros / 2
    return vector_registers(config.oc_bn, cpu) * (arithmetic + 1.5 * alpha**2 + 2.0 * tile**2)


def _traffic(
    conv: ConvWorkload, config: WinogradConfig, cpu: Cpu, tiles: int, row_chunks: int
) -> tuple[float, float, float, float]:
    """Bytes into L1, into L2, from memory, and from memory by prefetch.

    Every block of output channels walks the packed input again; every chunk walks the weights.
    """
    spread = 4.0 * (config.tile + 2) ** 2
    packed = spread * tiles * conv.in_channels
    products = spread * tiles * conv.out_channels
    weights = spread * conv.in_channels * conv.out_channels
    in_bytes, out_bytes = 4.0 * math.prod(conv.in_shape), 4.0 * math.prod(conv.out_shape)
    blocks = conv.out_channels // config.oc_bn
    walks = 1 if config.parallel_oc else conv.batch * row_chunks
    from_l2 = packed * (1 + blocks) + 2 * products + weights * walks + in_bytes + out_bytes
    part = packed / walks
    weight_walks = walks if weights + part > 0.7 * cpu.l2 else min(walks, cpu.cores)
    packed_walks = blocks if part > 0.6 * cpu.l2 else (1 if walks > 1 else min(cpu.cores, blocks))
    private_products = products / walks / (blocks if config.parallel_oc else 1)
    spilled_products = 2 * products if private_products > 0.6 * cpu.l2 else 0.0
    from_l3 = weights * weight_walks + packed * packed_walks + spilled_products
    from_l3 += in_bytes + out_bytes
    from_dram = 0.0 if weights >= LEAST_BYTES else weights
    if in_bytes + out_bytes > 0.5 * cpu.l3:
        from_dram += in_bytes + out_bytes
    if config.parallel_oc and packed > 0.5 * cpu.l3:
        from_dram += packed * (1 + blocks)
    return from_l2, from_l3, from_dram, weights if weights >= LEAST_BYTES else 0.0
