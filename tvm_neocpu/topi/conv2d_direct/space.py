"""The configuration space of the direct NCHW[x]c template."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors, largest_factor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.operator import Blocks

# NeoCPU, section 3.3.1, lists 32, 16, 8, 4, 2; ours adds every divisor of the output width.
PAPER_REG_N = (32, 16, 8, 4, 2)
# A block that is filled up to whole vectors has at most so many; one that is not, so many.
MAX_FILLED_VECTORS, MAX_VECTORS = 6, 4
# Pixels that register tiles compute at most, over those that the output has.
OVERHANG = 1.15

Made = TypeVar("Made")


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Everything but depthwise, which has no reduction over channels to block."""
    return not conv.is_depthwise


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[ConvConfig, ...]:
    """All combinations of channel factors, tile sizes, unrolling and parallel axes that fit."""
    unit, written = cpu.unit(conv.types.accumulator), _written(conv, cpu)
    return tuple(schedules(conv, cpu, _read(conv, cpu), unit.holds_tile, ConvConfig, written))


def blocks(conv: ConvWorkload, cpu: Cpu) -> Blocks:
    """The blocks of channels (read, written) of the space, which has all pairs of them."""
    holds = cpu.unit(conv.types.accumulator).holds_tile
    return blocks_of(conv, cpu, _read(conv, cpu), holds, _written(conv, cpu))


def blocks_of(
    conv: ConvWorkload,
    cpu: Cpu,
    reads: Sequence[int],
    holds: Callable[[int, int], bool],
    writes: Sequence[tuple[int, int]] | None = None,
) -> Blocks:
    """The same of what :func:`schedules` makes of such blocks and tiles."""
    unit, tiles = cpu.unit(conv.types.accumulator), register_tiles(conv, cpu)
    written = {
        oc_bn
        for oc_bn, oc_lanes in (out_blocks(conv, cpu) if writes is None else writes)
        if any(holds(m * n, unit.registers_of(oc_lanes or oc_bn)) for m, n in tiles)
    }
    return Blocks(frozenset(reads) if written else frozenset(), frozenset(written))


def part_of_space(conv: ConvWorkload, cpu: Cpu, wanted: Blocks) -> tuple[ConvConfig, ...]:
    """The configs of the space whose blocks are among those wanted, in its order."""
    holds, written = cpu.unit(conv.types.accumulator).holds_tile, _written(conv, cpu)
    reads = _read(conv, cpu)
    return tuple(part_of_schedules(conv, cpu, reads, holds, ConvConfig, wanted, written))


def part_of_schedules(
    conv: ConvWorkload,
    cpu: Cpu,
    reads: Sequence[int],
    holds: Callable[[int, int], bool],
    make: Callable[..., Made],
    wanted: Blocks,
    written: Sequence[tuple[int, int]] | None = None,
) -> Iterator[Made]:
    """The part of :func:`schedules` whose blocks are among those wanted."""
    kept = [block for block in reads if block in wanted.read]
    offered = out_blocks(conv, cpu) if written is None else written
    writes = [pair for pair in offered if pair[0] in wanted.written]
    return schedules(conv, cpu, kept, holds, make, writes)


def schedules(
    conv: ConvWorkload,
    cpu: Cpu,
    blocks: Sequence[int],
    holds: Callable[[int, int], bool],
    make: Callable[..., Made],
    written: Sequence[tuple[int, int]] | None = None,
) -> Iterator[Made]:
    """What ``make`` makes of each schedule tuple, in the order of :class:`ConvConfig`'s fields.

    ``blocks`` are of input channels, ``written`` those of :func:`out_blocks` (all of them without
    it); ``holds``: whether a tile of (pixels, vectors) is offered.
    """
    unit = cpu.unit(conv.types.accumulator)
    unroll = (True, False) if conv.kernel[1] > 1 else (True,)
    tiles = [(tile, chunkings(conv, tile[0], cpu)) for tile in register_tiles(conv, cpu)]
    inner = tuple(product(blocks, unroll))
    return (
        make(ic_bn, oc_bn, reg_n, unroll_ker, reg_m, oh_bn, parallel_oc, oc_lanes)
        for oc_bn, oc_lanes in (out_blocks(conv, cpu) if written is None else written)
        for (reg_m, reg_n), chunks in tiles
        if holds(reg_m * reg_n, unit.registers_of(oc_lanes or oc_bn))
        for oh_bn, parallel_oc in chunks
        for ic_bn, unroll_ker in inner
    )


def in_blocks(conv: ConvWorkload) -> tuple[int, ...]:
    """Factors of the input channels of a group; plain NCHW (0) for a first convolution."""
    blocks = tuple(f for f in factors(conv.in_channels // conv.groups) if f <= 64)
    return (0, *blocks) if conv.reads_plain else blocks


def out_blocks(conv: ConvWorkload, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(oc_bn, oc_lanes): factors of a group's output channels, up to four vectors.

    A factor that no vector divides is also offered filled up to whole vectors, unless more than
    half of the lanes would be filling: 255 channels are 3 blocks of 85 in 96 lanes. Where no other
    factor is left (131 channels), a tile of one pixel takes half of the registers.
    """
    unit = cpu.unit(conv.types.accumulator)
    lanes = unit.lanes
    blocks = factors(conv.out_channels // conv.groups)
    plain = [(f, 0) for f in blocks if f <= MAX_VECTORS * lanes]
    filled = [
        (f, wide)
        for f in blocks
        for wide in sorted({math.ceil(f / n) * n for n in (unit.full_rate_lanes, lanes)} - {f})
    ]
    widest = (unit.registers // 2 - 1) * lanes
    dense = [(f, wide) for f, wide in filled if 2 * f > wide <= MAX_FILLED_VECTORS * lanes]
    if dense or any(f % lanes == 0 for f, _ in plain):
        return (*plain, *dense)
    return (*plain, *[(f, wide) for f, wide in filled if wide <= widest][-1:])


def _read(conv: ConvWorkload, cpu: Cpu) -> tuple[int, ...]:
    """Blocks of input channels: :func:`in_blocks`, and those of several whole groups."""
    return (*in_blocks(conv), *several_groups(conv.in_channels, conv.groups, conv, cpu))


def _written(conv: ConvWorkload, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(oc_bn, oc_lanes): :func:`out_blocks`, and blocks of several whole groups."""
    group = conv.out_channels // conv.groups
    wide = several_groups(conv.out_channels, conv.groups, conv, cpu)
    return (*out_blocks(conv, cpu), *((block, group) for block in wide))


def several_groups(channels: int, groups: int, conv: ConvWorkload, cpu: Cpu) -> tuple[int, ...]:
    """Blocks of at most 64 channels that hold several groups, each of them whole vectors.

    Layers around a grouped convolution want blocks wider than its groups. Between them lay a pass
    over the tensor; the copy that pads a group can read the wider block, a tile's store write it.
    """
    group, unit = channels // groups, cpu.unit(conv.types.accumulator)
    if groups == 1 or group % unit.full_rate_lanes:
        return ()
    return tuple(group * f for f in factors(groups)[1:] if group * f <= 64)


def register_tiles(conv: ConvWorkload, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(reg_m, reg_n) that hardly overhang: divisors of the output's width, then near fits."""
    max_pixels = cpu.unit(conv.types.accumulator).max_pixels
    widths = {r for r in (*factors(conv.out_width), *PAPER_REG_N, *range(4, 15))}
    widths = {r for r in widths if r <= min(conv.out_width, max_pixels)}
    heights = [m for m in (1, 2, 3, 4, 7) if m <= conv.out_height]
    exact = {r for r in widths if conv.out_width % r == 0}
    return tuple(
        (m, n)
        for m in heights
        for n in sorted(widths)
        if m * n <= max_pixels and (n in exact or overhang(conv, m, n) <= OVERHANG)
    ) or ((1, min(conv.out_width, max_pixels)),)


def overhang(conv: ConvWorkload, reg_m: int, reg_n: int) -> float:
    """Pixels of whole tiles over pixels wanted."""
    rows = math.ceil(conv.out_height / reg_m) * reg_m
    cols = math.ceil(conv.out_width / reg_n) * reg_n
    return rows * cols / (conv.out_height * conv.out_width)


def chunkings(conv: ConvWorkload, reg_m: int, cpu: Cpu) -> tuple[tuple[int, bool], ...]:
    """(tile rows of a parallel chunk, whether chunks are split over output channels too).

    One row, or what gives each core 1, 2 or 4 chunks; all rows, where channels are split.
    """
    rows = math.ceil(conv.out_height / reg_m)
    wanted = (1, *(rows // (cpu.cores * share) for share in (1, 2, 4)))
    heights = {largest_factor(rows, at_most) for at_most in wanted}
    found = {(height, split) for height in heights for split in (False, True)} | {(rows, True)}
    return tuple(sorted(found))
