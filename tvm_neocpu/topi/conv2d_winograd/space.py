"""The configuration space of the Winograd template."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import TypeVar

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.space import several_groups
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT, TILES, WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.matrices import MAX_POINTS
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import TiledConv, seen_by_tiles
from tvm_neocpu.topi.cost.roofline import SPARE_REGISTERS, tile_step_cycles

# The largest tile of a 3x3 kernel. 0 turns Winograd off; 6 trades a digit of precision (1e-3
# relative) for speed. Other kernels may be as imprecise as a 3x3 kernel of that tile.
TILE_LIMIT = "TVM_NEOCPU_WINOGRAD_TILE"
DEFAULT_TILE_LIMIT = 4
MAX_TAPS, MAX_STRIDE = 7, 2
# Fewer channels do not pay for the transforms; a vector of fewer is no vector.
MIN_CHANNELS, MIN_BLOCK = 8, 4
# Vectors of a block of outputs; input channels of a group.
MAX_VECTORS, MAX_BLOCK = 4, 64
# So few channels that a sum over them loses little precision.
FEW_CHANNELS = 16
# Register tiles over one axis hold so many Winograd tiles at least.
MIN_FLAT = 3

Made = TypeVar("Made")


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Undilated, channels (of a group) that fill vectors and pay for transforms, products saved."""
    pays = pays_for_transforms(conv) if conv.groups == 1 else _pays_in_groups(conv, cpu)
    return pays and bool(allowed_tiles(conv))


def _pays_in_groups(conv: ConvWorkload, cpu: Cpu) -> bool:
    """The same of a group, no depthwise one; one register tile's outputs are whole vectors."""
    unit, of_group = cpu.unit(conv.types.accumulator), _one_group(conv)
    fills = of_group.out_channels % unit.full_rate_lanes == 0
    return (fills or not _is_one_block(conv, cpu)) and pays_for_transforms(of_group)


def _one_group(conv: ConvWorkload) -> ConvWorkload:
    """The convolution that one group is."""
    reads, writes = conv.in_channels // conv.groups, conv.out_channels // conv.groups
    return replace(conv, in_channels=reads, out_channels=writes, groups=1)


def _is_one_block(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Whether a group's outputs fit a register tile, and its inputs a block of data."""
    of_group, lanes = _one_group(conv), cpu.unit(conv.types.accumulator).lanes
    return of_group.out_channels <= MAX_VECTORS * lanes and of_group.in_channels <= MAX_BLOCK


def pays_for_transforms(conv: ConvWorkload) -> bool:
    """Undilated, one group, few taps, channels that fill vectors and are enough."""
    if conv.dilation != (1, 1) or conv.groups != 1:
        return False
    if max(conv.kernel) > MAX_TAPS or max(conv.stride) > MAX_STRIDE:
        return False
    seen = _seen(conv)
    channels = seen.in_channels, seen.out_channels
    return all(count >= MIN_CHANNELS and count % MIN_BLOCK == 0 for count in channels)


def forbids(conv: ConvWorkload, config: WinogradConfig) -> str | None:
    """Why a tile from a log is not precise enough for the user's cap, ``None`` where it is."""
    seen, limit = _seen(conv), tile_limit()
    if _points(seen, config.tile) <= _max_points(seen, limit):
        return None
    return f"tiles of {config.tile} are too large here ({TILE_LIMIT} is {limit})"


def tile_limit() -> int:
    """The user's cap; raises ConfigError where it is no size of a tile."""
    text = os.environ.get(TILE_LIMIT, str(DEFAULT_TILE_LIMIT))
    sizes = {str(tile) for tile in (0, *TILES)}
    if text not in sizes:
        raise ConfigError(f"{TILE_LIMIT} is a tile size (0, 2, 3, 4 or 6), unlike {text!r}")
    return int(text)


def allowed_tiles(conv: ConvWorkload) -> tuple[int, ...]:
    """Tile sizes that are precise enough, save products and are not larger than the output."""
    seen, limit = _seen(conv), tile_limit()
    return tuple(
        tile for tile in saving_tiles(conv) if _points(seen, tile) <= _max_points(seen, limit)
    )


def saving_tiles(conv: ConvWorkload) -> tuple[int, ...]:
    """Tile sizes that save products, are not larger than the output, and have enough points."""
    seen = _seen(conv)
    sides = zip((seen.out_height, seen.out_width), seen.kernel, strict=True)
    smallest = min((side for side, taps in sides if taps > 1), default=0)
    return tuple(
        tile
        for tile in TILES
        if tile <= max(smallest, 2)
        and _points(seen, tile) <= MAX_POINTS
        and _saves_products(seen, tile)
    )


def _seen(conv: ConvWorkload) -> ConvWorkload:
    """The convolution that tiles see in all configs of the space: plain where it can be."""
    return seen_by_tiles(conv, plain=conv.reads_plain)


def _points(seen: ConvWorkload, tile: int) -> int:
    """Interpolation points of the larger dimension; with a stride, of the phase with most taps."""
    taps = (math.ceil(k / s) for k, s in zip(seen.kernel, seen.stride, strict=True))
    return tile + max(taps) - 1


def _max_points(seen: ConvWorkload, limit: int) -> int:
    """The points of F(limit, 3), and more where more points lose no more precision.

    One more where few channels are summed; half as many again in one dimension.
    """
    if not limit:
        return 0
    points = limit + 2
    more = points // 2 if min(seen.kernel) == 1 else int(seen.in_channels <= FEW_CHANNELS)
    return min(points + more, MAX_POINTS)


def _saves_products(seen: ConvWorkload, tile: int) -> bool:
    """Whether a tile takes fewer products than a direct convolution takes for its outputs."""
    tiled = TiledConv(seen, tile, plain=False)
    return tiled.products < math.prod(seen.kernel) * math.prod(tiled.outputs)


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[WinogradConfig, ...]:
    """Channel factors, tile sizes, register tiles over the grid of tiles, chunks."""
    return tuple(schedules(conv, cpu, allowed_tiles(conv), WinogradConfig))


def schedules(
    conv: ConvWorkload,
    cpu: Cpu,
    tiles: Sequence[int],
    make: Callable[..., Made],
    word: int = 1,
    temporaries: int = 0,
) -> Iterator[Made]:
    """What ``make`` makes of each schedule tuple, in the order of :class:`WinogradConfig`'s fields.

    ``word``: what has to divide the blocks of input channels. ``temporaries``: registers that a
    step needs beside its tile.
    """
    unit = cpu.unit(conv.types.accumulator)
    blocks_in, blocks_out = (
        _blocks(channels, conv, cpu) for channels in (conv.in_channels, conv.out_channels)
    )
    if conv.reads_plain:
        blocks_in = [0]

    def tilings(tile: int, oc_bn: int) -> Iterator[tuple[int, int, int, bool, int]]:
        """(reg_n, reg_m, th_bn, parallel_oc, oc_chunks)."""
        vectors = unit.registers_of(min(oc_bn, conv.out_channels // conv.groups))
        for reg_m, reg_n in register_tiles(conv, tile, cpu):
            if unit.holds_tile(reg_m * reg_n, vectors, 1 + temporaries):
                for chunking in chunkings(conv, tile, reg_m, oc_bn, cpu):
                    yield reg_n, reg_m, *chunking
        if not temporaries:
            every = chunkings(conv, tile, 1, oc_bn, cpu), of_images(conv, tile, oc_bn, cpu)
            for chunking in chain(*every):
                for reg_n in flat_tiles(conv, tile, chunking[0], vectors, cpu):
                    yield reg_n, FLAT, *chunking

    return (
        make(ic_bn, oc_bn, tile, *tiling)
        for tile in tiles
        for oc_bn in blocks_out
        for tiling in tilings(tile, oc_bn)
        for ic_bn in blocks_in
        if ic_bn % word == 0
    )


def _blocks(channels: int, conv: ConvWorkload, cpu: Cpu) -> list[int]:
    """Blocks of the input's or output's channels: small groups are whole, large ones have several.

    Blocks of large groups are those of a convolution that is one.
    """
    group = channels // conv.groups
    if conv.groups > 1 and _is_one_block(conv, cpu):
        return [group, *several_groups(channels, conv.groups, conv, cpu)]
    widest = MAX_VECTORS * cpu.unit(conv.types.accumulator).lanes
    return [f for f in factors(group) if MIN_BLOCK <= f <= widest]


def flat_tiles(
    conv: ConvWorkload, tile: int, th_bn: int, vectors: int, cpu: Cpu
) -> tuple[int, ...]:
    """The best register tile over all tiles of a chunk as one axis, where it is one of several.

    It leaves two registers free: LLVM spills otherwise (Zen 3, 128x28x28 3x3: 6 x 2 tiles 876 us,
    5 x 2 829).
    """
    unit = cpu.unit(conv.types.accumulator)
    of_chunk = th_bn * TiledConv(_seen(conv), tile, conv.reads_plain).tiles[1]

    def cycles(reg_n: int) -> float:
        whole, rest = divmod(of_chunk, reg_n)
        last = tile_step_cycles(rest, vectors, cpu, unit) if rest else 0.0
        return whole * tile_step_cycles(reg_n, vectors, cpu, unit) + last

    found = [
        n
        for n in range(MIN_FLAT, min(of_chunk, unit.max_pixels + 1))
        if unit.tile_registers(n, vectors) <= unit.registers - SPARE_REGISTERS
    ]
    return (min(found, key=cycles),) if found else ()


def register_tiles(conv: ConvWorkload, tile: int, cpu: Cpu) -> tuple[tuple[int, int], ...]:
    """(reg_m, reg_n) that round the grid of tiles up by at most a seventh."""
    rows, cols = TiledConv(_seen(conv), tile, conv.reads_plain).tiles
    widest = min(cols, cpu.unit(conv.types.accumulator).max_pixels)
    found = [
        (m, n)
        for m, n in product((1, 2, 4, 7), range(1, widest + 1))
        if m <= rows
        and math.ceil(rows / m) * m * math.ceil(cols / n) * n <= rows * cols * 8 / 7
        and (m * n >= 4 or m * n == rows * cols)
    ]
    return tuple(found) or ((1, widest),)


def chunkings(
    conv: ConvWorkload, tile: int, reg_m: int, oc_bn: int, cpu: Cpu
) -> tuple[tuple[int, bool, int], ...]:
    """(tile rows that a chunk covers, whether chunks split the output channels instead, oc_chunks).

    Where cores transform the input for themselves, each has one chunk of channels.
    """
    tiles = TiledConv(_seen(conv), tile, conv.reads_plain).tiles
    rows = math.ceil(tiles[0] / reg_m) * reg_m
    heights = [f for f in factors(rows) if f % reg_m == 0 and f <= max(reg_m, 16)]
    # A block of a group transforms its own tiles, as few at a time as a chunk of rows does.
    by_block = conv.groups > 1 and oc_bn >= conv.out_channels // conv.groups
    split = [(height, True, 0) for height in heights if by_block and height < rows]
    split += [(rows, False, chunks) for chunks in _chunks_by_core(conv, oc_bn, cpu)]
    return (*((height, False, 0) for height in heights), *split, (rows, True, 0))


def _chunks_by_core(conv: ConvWorkload, oc_bn: int, cpu: Cpu) -> tuple[int, ...]:
    """Chunks of channels, one a core, where cores transform the input for themselves; else none."""
    may = cpu.cores > 1 and conv.groups == 1 and not conv.reads_plain
    return (cpu.cores,) if may and conv.out_channels % (oc_bn * cpu.cores) == 0 else ()


def of_images(
    conv: ConvWorkload, tile: int, oc_bn: int, cpu: Cpu
) -> Iterator[tuple[int, bool, int]]:
    """:func:`chunkings` that cover several images, whose tiles are one axis.

    They read weights once for all of these: 512x7x7 has four tiles of F(4x4) an image, too few to
    multiply 38 MB of weights with. First convolutions and groups have few weights.
    """
    if conv.groups > 1 or conv.reads_plain:
        return
    rows = TiledConv(_seen(conv), tile, plain=False).tiles[0]
    for images in factors(conv.batch)[1:]:
        yield rows * images, False, 0
        yield rows * images, True, 0
        for chunks in _chunks_by_core(conv, oc_bn, cpu):
            yield rows * images, False, chunks
