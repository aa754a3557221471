"""The configuration space of the direct NCHW[x]c template and what the cost model says of it."""

from __future__ import annotations

import math
from itertools import product

from tvm_neocpu.core.config import ConvConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import factors, largest_factor
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.cost.roofline import (
    PANEL_SHARE,
    Work,
    seconds,
    streamed,
    tile_step_cycles,
    vector_registers,
)
from tvm_neocpu.topi.tir.prefetch_weights import LEAST_BYTES

# NeoCPU, section 3.3.1, lists 32, 16, 8, 4, 2; ours adds every divisor of the output width.
PAPER_REG_N = (32, 16, 8, 4, 2)


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Everything but depthwise, which has no reduction over channels to block."""
    return not conv.is_depthwise


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[ConvConfig, ...]:
    """All combinations of channel factors, tile sizes, unrolling and parallel axes that fit."""
    unroll = (True, False) if conv.kernel[1] > 1 else (True,)
    return tuple(
        ConvConfig(ic_bn, oc_bn, reg_n, unroll_ker, reg_m, oh_bn, parallel_oc, oc_lanes)
        for oc_bn, oc_lanes in out_blocks(conv, cpu)
        for reg_m, reg_n in register_tiles(conv, cpu)
        if cpu.holds_tile(reg_m * reg_n, vector_registers(oc_lanes or oc_bn, cpu))
        for oh_bn, parallel_oc in chunkings(conv, reg_m, cpu)
        for ic_bn, unroll_ker in product(in_blocks(conv), unroll)
    )


def in_blocks(conv: ConvWorkload) -> tuple[int, ...]:
    """Factors of the input channels of a group; plain NCHW (0) for a first convolution."""
    blocks = tuple(f for f in factors(conv.in_channels // conv.groups) if f <= 64)
    return (0, *blocks) if conv.reads_plain else blocks


def out_blocks(conv: ConvWorkload, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(oc_bn, oc_lanes): factors of a group's output channels, up to four vectors.

    A factor that no vector divides is offered filled up to whole vectors too, up to six of them,
    unless more than half would be filling: 255 channels are 3 blocks of 85 in 96 lanes. Where no
    other factor is left (131), a tile of one pixel takes half of the registers.
    """
    blocks = factors(conv.out_channels // conv.groups)
    plain = [(f, 0) for f in blocks if f <= 4 * cpu.lanes]
    filled = [(f, math.ceil(f / cpu.lanes) * cpu.lanes) for f in blocks if f % cpu.lanes]
    widest = (cpu.isa.vector_registers // 2 - 1) * cpu.lanes
    dense = [(f, lanes) for f, lanes in filled if 2 * f > lanes and lanes <= 6 * cpu.lanes]
    if dense or any(f % cpu.lanes == 0 for f, _ in plain):
        return (*plain, *dense)
    return (*plain, *[(f, lanes) for f, lanes in filled if lanes <= widest][-1:])


def register_tiles(conv: ConvWorkload, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(reg_m, reg_n) that hardly overhang: divisors of the output's width, then near fits."""
    widths = {r for r in (*factors(conv.out_width), *PAPER_REG_N, *range(4, 15))}
    widths = {r for r in widths if r <= min(conv.out_width, cpu.accumulators)}
    heights = [m for m in (1, 2, 3, 4, 7) if m <= conv.out_height]
    exact = {r for r in widths if conv.out_width % r == 0}
    return tuple(
        (m, n)
        for m in heights
        for n in sorted(widths)
        if m * n <= cpu.accumulators and (n in exact or overhang(conv, m, n) <= 1.15)
    ) or ((1, min(conv.out_width, cpu.accumulators)),)


def overhang(conv: ConvWorkload, reg_m: int, reg_n: int) -> float:
    """Pixels of whole tiles over pixels wanted."""
    rows = math.ceil(conv.out_height / reg_m) * reg_m
    cols = math.ceil(conv.out_width / reg_n) * reg_n
    return rows * cols / (conv.out_height * conv.out_width)


def computed_columns(width: int, reg_n: int) -> int:
    """The width where tiles divide it or are a pair (9 and 8 of 17), else that of whole tiles."""
    across = math.ceil(width / reg_n)
    return width if across == 2 else across * reg_n


def chunkings(conv: ConvWorkload, reg_m: int, cpu: Cpu) -> tuple[tuple[int, bool], ...]:
    """(tile rows of a parallel chunk, whether chunks are split over output channels too).

    One row, or what gives each core 1, 2 or 4 chunks; all rows, where channels are split.
    """
    rows = math.ceil(conv.out_height / reg_m)
    wanted = (1, *(rows // (cpu.cores * share) for share in (1, 2, 4)))
    heights = {largest_factor(rows, at_most) for at_most in wanted}
    found = {(height, split) for height in heights for split in (False, True)} | {(rows, True)}
    return tuple(sorted(found))


def predict_seconds(conv: ConvWorkload, config: ConvConfig, cpu: Cpu) -> float:
    """CDUCA's model over this template's loops."""
    vectors = vector_registers(config.tile_channels, cpu)
    pixels = config.reg_m * config.reg_n
    steps = conv.kernel[0] * conv.kernel[1] * (conv.in_channels // conv.groups)
    tile_rows = math.ceil(conv.out_height / config.reg_m)
    tiles = tile_rows * math.ceil(conv.out_width / config.reg_n)
    out_blocks_total = conv.batch * conv.out_channels // config.oc_bn
    row_bytes = 4.0 * config.tile_channels
    from_l2 = streamed(steps * row_bytes, row_bytes, cpu)
    per_step = tile_step_cycles(pixels, vectors, cpu, from_l2)
    per_step += _loop_overhead(conv, config, vectors)
    per_tile = steps * per_step + 2.0 * pixels * vectors + 20
    # The second of a pair is smaller.
    across = math.ceil(conv.out_width / config.reg_n) * config.reg_n
    per_tile *= computed_columns(conv.out_width, config.reg_n) / across
    computed = tile_rows * config.reg_m, computed_columns(conv.out_width, config.reg_n)
    padded = any(conv.padding) or computed != (conv.out_height, conv.out_width)
    pad_bytes = 4 * math.prod(conv.in_shape) if padded else 0
    row_chunks = tile_rows // largest_factor(tile_rows, config.oh_bn)
    chunks = (
        conv.batch * row_chunks * (conv.out_channels // config.oc_bn if config.parallel_oc else 1)
    )
    cycles = tiles * out_blocks_total * per_tile + pad_bytes / 16 * _halo(conv, config, row_chunks)
    return seconds(Work(cycles, chunks, *_traffic(conv, config, cpu, row_chunks, tiles)), cpu)


def _loop_overhead(conv: ConvWorkload, config: ConvConfig, vectors: int) -> float:
    """Cycles a step loses to loop control, and to broadcasts kept alive by too much unrolling."""
    inner = config.ic_bn or conv.in_channels
    unrolled = conv.kernel[1] if config.unroll_ker else 1
    # Few input channels innermost are unrolled by LLVM: beside unrolled taps it then keeps pixels
    # that taps share in registers and spills (VGG's first layer: 107 against 207 GFLOP/s).
    crowded = inner <= 4 and unrolled > 1 and config.reg_n * config.reg_m * vectors > 14
    return 0.25 + 4.0 / inner + (8.0 if crowded else 0.0) - (0.05 if config.unroll_ker else 0)


def _halo(conv: ConvWorkload, config: ConvConfig, row_chunks: int) -> float:
    """How often an input row is padded: chunks share the rows at their borders."""
    if config.parallel_oc:
        return 2.0
    rows = conv.height / row_chunks
    return (rows + conv.kernel[0] - conv.stride[0]) / rows


def _traffic(
    conv: ConvWorkload, config: ConvConfig, cpu: Cpu, row_chunks: int, tiles: int
) -> tuple[float, float, float, float]:
    """Bytes into L1, into L2, from memory, and from memory by prefetch.

    A tile walks the weights of its channel block; a block's weights stay in L1 only if they fit.
    A chunk walks all blocks (or one), over the input rows that it covers.
    """
    # A 1x1 kernel of stride 2 reads a quarter of the pixels.
    skipped = (min(1.0, k / s) for k, s in zip(conv.kernel, conv.stride, strict=True))
    in_bytes = 4.0 * math.prod(conv.in_shape) * math.prod(skipped)
    out_bytes = 4 * math.prod(conv.out_shape)
    weight_bytes = 4 * math.prod(conv.weight_shape)
    blocks = conv.out_channels // config.oc_bn
    block_bytes = weight_bytes / blocks
    # A panel that every tile takes from L2 anew is a matter of the tile's steps.
    reads_of_weights = 0 if block_bytes > PANEL_SHARE * cpu.l1 else conv.batch * row_chunks
    input_tile = in_bytes / conv.batch / tiles * conv.kernel[0]
    reads_of_input = blocks if input_tile + block_bytes > PANEL_SHARE * cpu.l1 else 1
    from_l2 = weight_bytes * reads_of_weights + in_bytes * reads_of_input + out_bytes
    chunk_input = in_bytes / conv.batch / row_chunks
    l2_passes_weights = conv.batch * (
        1 if config.parallel_oc or weight_bytes < 0.7 * cpu.l2 else row_chunks
    )
    split = min(cpu.cores, blocks) if config.parallel_oc else 1
    beside = block_bytes if blocks > 1 else 0
    l2_passes_input = split if chunk_input + beside < 0.7 * cpu.l2 else blocks
    # Without a split over channels every core reads all the weights for its rows.
    weight_copies = 1 if config.parallel_oc else min(cpu.cores, conv.batch * row_chunks)
    from_l3 = (
        weight_bytes * max(l2_passes_weights, weight_copies)
        + in_bytes * l2_passes_input
        + out_bytes
    )
    resident = in_bytes + out_bytes + weight_bytes < 0.5 * cpu.l3
    from_dram = 0.0 if resident else in_bytes + out_bytes
    prefetched = weight_bytes if weight_bytes >= LEAST_BYTES else 0.0
    return from_l2, from_l3, from_dram + weight_bytes - prefetched, prefetched
