"""The configuration space of the Winograd template and what the cost model says of it."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from itertools import product

from tvm_neocpu.core.config import WinogradConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.layout import factors
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.matrices import MOST_POINTS, Matrix, conv_matrices
from tvm_neocpu.topi.conv2d_winograd.phases import multiplied
from tvm_neocpu.topi.cost.roofline import (
    FORK_JOIN,
    Work,
    seconds,
    streamed,
    tile_step_cycles,
    vector_registers,
)
from tvm_neocpu.topi.tir.prefetch_weights import LEAST_BYTES

# Largest tile of a 3x3 kernel: 0 turns Winograd off, 6 trades a digit of precision (1e-3 relative)
# for speed. Other kernels may be as imprecise as that one.
TILE_LIMIT = "TVM_NEOCPU_WINOGRAD_TILE"
DEFAULT_TILE_LIMIT = 4
TILES = (2, 3, 4, 6)
MOST_TAPS, MOST_STRIDE = 7, 2
# Moving one number of a first convolution's plain NCHW into its phase.
PHASE_CYCLES = 1.5
FEW_CHANNELS = 16


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Undilated, one group, channels that fill vectors and pay for transforms, products saved."""
    plain = conv.dilation == (1, 1) and conv.groups == 1
    known = max(conv.kernel) <= MOST_TAPS and max(conv.stride) <= MOST_STRIDE
    conv = _offered(conv)
    roomy = min(conv.in_channels, conv.out_channels) >= 8
    roomy = roomy and conv.in_channels % 4 == conv.out_channels % 4 == 0
    return plain and known and roomy and bool(tiles_allowed(conv))


def _offered(conv: ConvWorkload) -> ConvWorkload:
    """The convolution that tiles see in all configs of the space: plain where it can be."""
    return multiplied(conv, ic_bn=0 if conv.reads_plain else conv.in_channels)


def tiles_allowed(conv: ConvWorkload) -> tuple[int, ...]:
    """Tile sizes that are precise enough, save products and are not larger than the output."""
    conv = _offered(conv)
    limit = _tile_limit()
    sides = zip((conv.out_height, conv.out_width), conv.kernel, strict=True)
    smallest = min((side for side, taps in sides if taps > 1), default=0)
    return tuple(
        tile
        for tile in TILES
        if tile <= max(smallest, 2)
        and _points(conv, tile) <= _most_points(conv, limit)
        and _products(conv, tile) < math.prod(conv.kernel) * _outputs(conv, tile)
    )


def _tile_limit() -> int:
    """The user's cap; raises ConfigError where it is no number."""
    text = os.environ.get(TILE_LIMIT, str(DEFAULT_TILE_LIMIT))
    if not text.isdecimal():
        raise ConfigError(f"{TILE_LIMIT} is a tile size (0, 2, 4 or 6), unlike {text!r}")
    return int(text)


def _points(conv: ConvWorkload, tile: int) -> int:
    """Of the larger dimension: of the phase with most taps, where there is a stride."""
    taps = (math.ceil(k / s) for k, s in zip(conv.kernel, conv.stride, strict=True))
    return tile + max(taps) - 1


def _most_points(conv: ConvWorkload, limit: int) -> int:
    """Those of F(limit, 3); more where that loses no more precision.

    One more where few channels are summed, half as many again in one dimension.
    """
    if not limit:
        return 0
    points = limit + 2
    more = points // 2 if min(conv.kernel) == 1 else int(conv.in_channels <= FEW_CHANNELS)
    return min(points + more, MOST_POINTS)


def _products(conv: ConvWorkload, tile: int) -> int:
    """Multiplications of a tile, of one channel."""
    return math.prod(m.products for m in conv_matrices(conv, tile))


def _outputs(conv: ConvWorkload, tile: int) -> int:
    return math.prod(m.outputs for m in conv_matrices(conv, tile))


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[WinogradConfig, ...]:
    """Channel factors, tile sizes, register tiles over the grid of tiles, chunks."""
    blocks_in, blocks_out = (
        [f for f in factors(channels) if 4 <= f <= 4 * cpu.lanes]
        for channels in (conv.in_channels, conv.out_channels)
    )
    if conv.reads_plain:
        blocks_in = [0]
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
    rows, cols = _tiles(_offered(conv), tile)
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
    rows = math.ceil(_tiles(_offered(conv), tile)[0] / reg_m) * reg_m
    heights = [f for f in factors(rows) if f % reg_m == 0 and f <= max(reg_m, 16)]
    return (*((height, False) for height in heights), (rows, True))


def predict_seconds(conv: ConvWorkload, config: WinogradConfig, cpu: Cpu) -> float:
    """CDUCA's model over the four parts; the kernel transform is paid at compile time."""
    cycles = 0.0
    if config.ic_bn == 0:
        conv = multiplied(conv, config.ic_bn)
        config = replace(config, ic_bn=conv.in_channels)
        cycles += PHASE_CYCLES * math.prod(conv.in_shape)
    rows, cols = tile_grid(conv, config)
    tiles = conv.batch * rows * cols
    out_blocks = conv.out_channels // config.oc_bn
    vectors = vector_registers(config.oc_bn, cpu)
    pixels = config.reg_m * config.reg_n
    row_bytes = 4.0 * config.oc_bn
    from_l2 = streamed(conv.in_channels * row_bytes, row_bytes, cpu)
    step = tile_step_cycles(pixels, vectors, cpu, from_l2) + 0.25 + 4.0 / config.ic_bn
    per_register_tile = conv.in_channels * step + 2.0 * pixels * vectors + 20
    cycles += _products(conv, config.tile) * (tiles / pixels) * out_blocks * per_register_tile
    cycles += tiles * _input_cycles(conv, config, cpu) * conv.in_channels / config.ic_bn
    cycles += tiles * _output_cycles(conv, config, cpu) * out_blocks
    row_chunks = rows // max(f for f in factors(rows) if f <= config.th_bn)
    chunks = conv.batch * (out_blocks if config.parallel_oc else row_chunks)
    work = Work(cycles, chunks, *_traffic(conv, config, cpu, tiles, row_chunks))
    phases = 3 if config.parallel_oc else 1
    return seconds(work, cpu) + (phases - 1) * FORK_JOIN


def tile_grid(conv: ConvWorkload, config: WinogradConfig) -> tuple[int, int]:
    """Tiles down and across; rounded up so that register tiles divide them."""
    rows, cols = _tiles(multiplied(conv, config.ic_bn), config.tile)
    reg_m, reg_n = config.reg_m, config.reg_n
    return math.ceil(rows / reg_m) * reg_m, math.ceil(cols / reg_n) * reg_n


def _tiles(conv: ConvWorkload, tile: int) -> tuple[int, int]:
    """Tiles down and across that cover the output."""
    down, across = conv_matrices(conv, tile)
    return math.ceil(conv.out_height / down.outputs), math.ceil(conv.out_width / across.outputs)


def _input_cycles(conv: ConvWorkload, config: WinogradConfig, cpu: Cpu) -> float:
    """B^T d B of one tile and one block of channels: arithmetic, loads, scattered stores."""
    down, across = conv_matrices(conv, config.tile)
    arithmetic = (across.pixels * _adds(down.b) + down.products * _adds(across.b)) / 2
    products = _products(conv, config.tile)
    return vector_registers(config.ic_bn, cpu) * (arithmetic + 2.0 * products)


def _output_cycles(conv: ConvWorkload, config: WinogradConfig, cpu: Cpu) -> float:
    """A^T M A of one tile and one block of channels, and the store."""
    down, across = conv_matrices(conv, config.tile)
    arithmetic = (across.products * _adds(down.a) + down.outputs * _adds(across.a)) / 2
    products, outputs = _products(conv, config.tile), _outputs(conv, config.tile)
    return vector_registers(config.oc_bn, cpu) * (arithmetic + 1.5 * products + 2.0 * outputs)


def _adds(matrix: Matrix) -> int:
    """Multiply-adds of a product with a vector; a row of one entry is a copy."""
    terms = [sum(factor != 0 for factor in row) for row in matrix]
    return sum(count for count in terms if count > 1)


def _traffic(
    conv: ConvWorkload, config: WinogradConfig, cpu: Cpu, tiles: int, row_chunks: int
) -> tuple[float, float, float, float]:
    """Bytes into L1, into L2, from memory, and from memory by prefetch.

    Every block of output channels walks the packed input again; every chunk walks the weights.
    """
    spread = 4.0 * _products(conv, config.tile)
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
    # What is more than L2 went cold since other layers used that part of the arena: it is fetched
    # to be written (128x56x56, stride 2, F(4): 2.5 MB, 650 us in a loop, 750-810 in the network).
    workspace = private_products * cpu.cores + part * (1 if config.parallel_oc else cpu.cores)
    from_dram += 2 * max(0.0, workspace - cpu.l2 * cpu.cores)
    if config.parallel_oc and packed > 0.2 * cpu.l3:
        from_dram += packed * blocks
    return from_l2, from_l3, from_dram, weights if weights >= LEAST_BYTES else 0.0
