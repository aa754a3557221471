"""What the cost model says of the direct template (CDUCA's terms over its loops)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.half import widening_of
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry, may_stream
from tvm_neocpu.topi.cost.roofline import (
    ALONE,
    L2_SHARE,
    PANEL_SHARE,
    Near,
    Supply,
    Traffic,
    in_streams,
    is_above,
    is_written_out,
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

# What a core copies into the padded image.
PADDED_BYTES_PER_CYCLE = 16
# Cycles that the loops around a block of channels take, where the block itself is written out
# (Zen 3, ResNet-50's 1x1 layers: blocks of 8 take 1.00-1.04 times what blocks of 64 take).
NEST_CYCLES = 2.0
# Cycles in which an accumulator is stored behind each of the loops that an unrolled kernel becomes.
# FMAs hide them, but not the loads that bound a tile of one vector (Zen 3, 14 pixels: 12 to 19
# cycles a loop; 4 pixels x 2 vectors: 1).
STORE_CYCLES = 1.0
# What each further row of a register tile adds to writing the output of a first convolution, which
# little arithmetic hides, where caches do not hold it: so many rows are written side by side (Zen
# 4, one thread, cold, 3x640x640->32 of stride 2: 7 x 2 tiles 2.97 ms, 4 x 2 2.27, 1 x 14 2.04; in
# MobileNet-v4 5.5 and 2.3. 3x448x448: 1.03, 1.01, 0.97).
ROW_OF_TILE = 0.06


def predict_seconds(conv: ConvWorkload, config: ConvConfig, cpu: Cpu, near: Near = ALONE) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    return seconds_of(DirectGeometry(conv, config), cpu, near)


def pricing(conv: ConvWorkload, cpu: Cpu) -> Price:
    """:func:`predict_seconds` for many configs: what several of them share is computed once.

    A space is the product of register tiles, blocks and chunks (DenseNet-121: 54,000 configs).
    """
    geometry_of = partial(DirectGeometry, conv)
    return pricing_of(geometry_of, cpu, copies_blocks=conv.groups > 1, streams=may_stream(conv))


def pricing_of(
    geometry_of: Callable[[Any], DirectGeometry],
    cpu: Cpu,
    copies_blocks: bool = False,
    streams: bool = False,
) -> Price:
    """The same of any geometries like this one's, all of one convolution and instruction.

    ``copies_blocks``: whether the image is copied, and how much, depends on the blocks too.
    ``streams``: blocks may share a register tile, which depends on all that a config says.
    """
    of_tiles: dict[Hashable, float] = {}
    around_tiles: dict[Hashable, tuple[float, Supply]] = {}

    def price(config: ConvConfig, limit: float = math.inf, /) -> float:
        tile = config.oc_bn, config.reg_m, config.reg_n
        dealt = streams and config.parallel_oc
        inside = (*tile, config.oc_lanes, config.ic_bn, config.unroll_ker, dealt)
        cycles = of_tiles.get(inside)
        if cycles is None:
            cycles = of_tiles[inside] = _cycles(geometry_of(config), cpu)
        if is_above(limit, cycles, cpu):
            return math.inf
        block = config.ic_bn if copies_blocks else 0
        fills = (config.oc_lanes, config.ic_bn == 0) if streams else ()
        around = (*tile, config.oh_bn, config.parallel_oc, block, *fills)
        if around not in around_tiles:
            around_tiles[around] = _around(geometry_of(config), cpu, ALONE)
        padding, supply = around_tiles[around]
        return seconds_beside(cycles + padding, supply, cpu)

    return price


def seconds_of(geometry: DirectGeometry, cpu: Cpu, near: Near = ALONE) -> float:
    """The same of any geometry like this one's; it says what a step of its reduction takes."""
    # A layer of a group multiplies with all padding (`topi/tir/tiles/skip_padding.py`).
    return beside_tiles(geometry, _cycles(geometry, cpu, near == ALONE), cpu, near)


def beside_tiles(geometry: DirectGeometry, cycles: float, cpu: Cpu, near: Near = ALONE) -> float:
    """Seconds of register tiles that take so many ``cycles``, with all that is around them."""
    padding, supply = _around(geometry, cpu, near)
    return seconds_beside(cycles + padding, supply, cpu)


def _cycles(geometry: DirectGeometry, cpu: Cpu, skips_padding: bool = True) -> float:
    """Cycles of all register tiles, however they are dealt out in chunks."""
    share = geometry.share_of_taps if skips_padding else 1.0
    conv, config = geometry.conv, geometry.config
    # Two tiles that do not divide the columns are two loop nests: 4 and 3 of 7. The smaller one may
    # have too few accumulators to hide the latency of its additions.
    last = geometry.columns - (geometry.tiles[1] - 1) * config.reg_n
    whole = geometry.tiles[1] if last == config.reg_n else geometry.tiles[1] - 1
    across = (
        whole * _tile_cycles(geometry, config.reg_n * config.reg_m, cpu, share) if whole else 0.0
    )
    if last != config.reg_n:
        across += _tile_cycles(geometry, last * config.reg_m, cpu, share)
    blocks = geometry.out_blocks // geometry.streams(cpu)
    return conv.batch * geometry.tiles[0] * blocks * across


def _around(geometry: DirectGeometry, cpu: Cpu, near: Near) -> tuple[float, Supply]:
    """Cycles that pad the image, and what chunks of tiles take of the machine."""
    padding = 0.0
    if geometry.is_padded:
        copied = geometry.image_bytes * _part_of_lines(geometry, cpu)
        padding = copied / PADDED_BYTES_PER_CYCLE * _halo(geometry)
    streams = geometry.streams(cpu)
    chunks = geometry.chunks // streams if geometry.config.parallel_oc else geometry.chunks
    return padding, supply_of(chunks, _traffic(geometry, cpu, near), in_streams(cpu, streams))


def _tile_cycles(geometry: DirectGeometry, pixels: int, cpu: Cpu, taps: float) -> float:
    """Cycles of a register tile: its reduction over a share of the ``taps``, and the store."""
    config, unit = geometry.config, cpu.unit(geometry.conv.types.accumulator)
    streams = geometry.streams(cpu)
    vectors = unit.registers_of(config.tile_channels) * streams
    row_bytes = float(geometry.row_bytes) * streams
    from_l2 = streamed(geometry.steps * row_bytes, row_bytes, cpu)
    requests = 0.0
    if streams == 1:
        requests = _requests(geometry, config.reg_m * config.reg_n, vectors, cpu)
    dot = geometry.dot(cpu)
    widening = widening_of(geometry.conv.types.weight) if dot is None else 0.0
    share = unit.issue_share(config.tile_channels)
    per_step = tile_step_cycles(pixels, vectors, cpu, unit, from_l2, requests, dot, widening, share)
    per_step += _loop_overhead(geometry, pixels, vectors, cpu)
    return geometry.steps * taps * per_step + 2.0 * pixels * vectors + 20


def _requests(geometry: DirectGeometry, pixels: int, vectors: int, cpu: Cpu) -> float:
    """Prefetches of a step of a tile."""
    conv, unit = geometry.conv, cpu.unit(geometry.conv.types.accumulator)
    reads_pixels = conv.kernel == (1, 1) and not geometry.is_padded
    map_bytes = conv.in_bytes if reads_pixels else 0
    return requests_of_step(pixels, vectors, geometry.weight_bytes, map_bytes, unit)


def _loop_overhead(geometry: DirectGeometry, pixels: int, vectors: int, cpu: Cpu) -> float:
    """Cycles that a step loses to loop control, and to broadcasts that unrolling keeps alive."""
    config, unit = geometry.config, cpu.unit(geometry.conv.types.accumulator)
    steps = geometry.loop_steps
    unrolled = geometry.conv.kernel[1] if config.unroll_ker else 1
    # LLVM unrolls few input channels innermost. Beside unrolled taps it then keeps pixels that taps
    # share in registers and spills (VGG's first layer: 107 against 207 GFLOP/s on Zen 5).
    accumulators = config.reg_n * config.reg_m * vectors
    crowded = steps <= 4 and unrolled > 1 and accumulators > unit.registers // 2 - 2
    control = loop_cycles(steps, pixels, vectors)
    if is_written_out(steps, pixels, vectors):
        control += NEST_CYCLES / steps
    elif unrolled > 1 and vectors == 1:
        control += pixels / steps * STORE_CYCLES
    return control + 8.0 * crowded - 0.05 * config.unroll_ker


def _part_of_lines(geometry: DirectGeometry, cpu: Cpu) -> float:
    """Elements of the lines that a group's part of a pixel lies in, over those that it has.

    A group of 8 channels is half of a line in a block of several groups, and the copies of two
    groups read the line (Zen 4, 48x112x112 in 6 groups, stride 2: 292 us in blocks of 8, 335 in
    blocks of 48; 112x28x28 in 14 groups: 130 and 135).
    """
    if geometry.groups_read == 1:
        return 1.0
    line = cpu.unit(geometry.conv.types.data).line
    return math.ceil(geometry.ic_bn / line) * line / geometry.ic_bn


def _halo(geometry: DirectGeometry) -> float:
    """How often an input row is padded: chunks share the rows at their borders."""
    if geometry.config.parallel_oc and not geometry.pads_by_block:
        return 2.0
    conv = geometry.conv
    rows = conv.height / geometry.row_chunks
    return (rows + conv.kernel[0] - conv.stride[0]) / rows


def _copied_at_once(geometry: DirectGeometry) -> float:
    """Bytes of a padded copy that is used before the next one takes its place."""
    if geometry.config.parallel_oc and not geometry.pads_by_block:
        return 0.0  # a pass over the image
    copies = geometry.conv.batch * geometry.row_chunks
    return geometry.image_bytes / copies / (geometry.out_blocks if geometry.pads_by_block else 1)


def _traffic(geometry: DirectGeometry, cpu: Cpu, near: Near) -> Traffic:
    """A tile walks the weights of its channel block; they stay in L1 only if they fit.

    A chunk walks all blocks (or one), over the input rows that it covers.
    """
    conv, config = geometry.conv, geometry.config
    # A 1x1 kernel of stride 2 reads a quarter of the pixels.
    read = math.prod(min(1.0, k / s) for k, s in zip(conv.kernel, conv.stride, strict=True))
    in_bytes, out_bytes, weight_bytes = conv.in_bytes * read, conv.out_bytes, geometry.weight_bytes
    image_bytes = geometry.image_bytes * read
    blocks, row_chunks = geometry.out_blocks, geometry.row_chunks
    block_bytes = weight_bytes / blocks
    # A panel that every tile takes from L2 anew is a matter of the tile's steps.
    reads_of_weights = 0 if block_bytes > PANEL_SHARE * cpu.l1 else conv.batch * row_chunks
    input_tile = image_bytes / conv.batch / math.prod(geometry.tiles) * conv.kernel[0]
    # A block of a group reads that group's channels only.
    readers = geometry.readers
    reads_of_input = readers if input_tile + block_bytes > PANEL_SHARE * cpu.l1 else 1
    from_l2 = weight_bytes * reads_of_weights + image_bytes * reads_of_input + out_bytes
    chunk_input = image_bytes / conv.batch / row_chunks
    share = L2_SHARE * cpu.l2 - near.beside
    fit_l2 = config.parallel_oc or weight_bytes < share
    l2_passes_weights = conv.batch * (1 if fit_l2 else row_chunks)
    split = min(cpu.cores, readers) if config.parallel_oc else 1
    beside = block_bytes if blocks > 1 else 0
    l2_passes_input = split if chunk_input + beside < share else readers
    # Without a split over channels every core reads all the weights for its rows.
    weight_copies = 1 if config.parallel_oc else min(cpu.cores, conv.batch * row_chunks)
    far_in, far_out = in_bytes * (not near.reads), float(out_bytes * (not near.writes))
    if conv.reads_plain and far_out > cpu.l2 * cpu.cores:
        far_out *= 1 + ROW_OF_TILE * (config.reg_m - 1)
    from_l3 = (
        weight_bytes * max(l2_passes_weights, weight_copies) + far_in * l2_passes_input + far_out
    )
    if geometry.is_padded and 2 * _copied_at_once(geometry) > share:
        # Each copy takes the place of lines that its source has evicted, and is evicted.
        from_l3 += 2 * image_bytes * _halo(geometry)
    resident = resident_in_l3(far_in + far_out + weight_bytes, cpu)
    maps = 0.0 if resident else far_in + far_out
    prefetched = prefetched_bytes(weight_bytes)
    return Traffic(from_l2, from_l3, maps + weight_bytes - prefetched, prefetched)
