"""What the cost model says of the Winograd template (CDUCA's terms over its four parts)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.half import widening_of
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import PADDED_BYTES_PER_CYCLE
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT, WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import TiledConv
from tvm_neocpu.topi.cost.foreign import cycles_of_line, foreign_lines
from tvm_neocpu.topi.cost.roofline import (
    ALONE,
    L2_SHARE,
    LONG_STEP,
    LOOP_END_CYCLES,
    MAX_GROUP,
    PANEL_SHARE,
    ROLLED_CYCLES,
    Near,
    Supply,
    Traffic,
    is_above,
    is_written_out,
    loop_cycles,
    prefetched_bytes,
    resident_in_l3,
    seconds_beside,
    shares_requests,
    streamed,
    supply_of,
    tile_step_cycles,
)
from tvm_neocpu.topi.operator import Price

# Cycles that move one number of a first convolution's plain NCHW into its phase.
PHASE_CYCLES = 1.5
# Cycles of a short step in a loop, beside loop control: fitted to ResNet-50's layers on Zen 3, on
# which 16 and 32 channels take 7-15 % longer than the 8 that LLVM writes out. That holds where
# loads (one vector) or additions (4 x 2 and less) leave no slack; of 5 x 2 both take as long.
SHORT_ROLLED_CYCLES, FEW_REGISTERS = 0.35, 16
# Cycles of a step over one axis of tiles, and of the loop nest of the narrower tile at its end:
# fitted to 64x56x56 (4 x 2 tiles 828 us, 5 x 2 over one axis 815, over each row 864) on Zen 3.
FLAT_CYCLES, NARROWER_CYCLES = 0.3, 100.0
# Cycles around the reduction of a register tile. One of a group of 8 channels is written out: the
# next one's products begin meanwhile, so that neither its end nor the latency of its sums shows
# (Zen 4, 440x7x7 in 55 groups, 2 x 2 tiles: 26 us, by the latency alone 47).
END_CYCLES, SHORT_END_CYCLES = 20.0, 4.0


def predict_seconds(
    conv: ConvWorkload, config: WinogradConfig, cpu: Cpu, near: Near = ALONE
) -> float:
    """Seconds of one run on ``cpu.cores`` threads; the kernel transform is paid at compile time."""
    return seconds_of(WinogradGeometry(conv, config), cpu, near)


def pricing(conv: ConvWorkload, cpu: Cpu) -> Price:
    """:func:`predict_seconds` for many configs: what several of them share is computed once."""
    return pricing_of(partial(WinogradGeometry, conv), cpu)


def pricing_of(geometry_of: Callable[[Any], WinogradGeometry], cpu: Cpu) -> Price:
    """The same of any geometries like this one's, all of one convolution."""
    of_tiles: dict[Hashable, float] = {}
    supplies: dict[Hashable, tuple[Supply, float]] = {}
    by_rows: dict[Hashable, bool] = {}

    def price(config: WinogradConfig, limit: float = math.inf, /) -> float:
        plain = config.ic_bn == 0
        split = config.parallel_oc, config.oc_chunks
        tile = plain, config.oc_bn, config.tile, config.reg_n, config.reg_m, split
        # The last register tile of a chunk depends on what the chunk covers; so does whether its
        # last row of tiles is narrower, which a conv without tails never is. Chunks of groups copy
        # rows that they share.
        if (plain, config.tile) not in by_rows:
            geometry = geometry_of(config)
            has_tails = geometry.tiled.tails[0] is not None
            by_rows[plain, config.tile] = has_tails or geometry.packs_by_block
        rows = config.th_bn if config.reg_m == FLAT or by_rows[plain, config.tile] else 0
        inside, around = (*tile, config.ic_bn, rows), (*tile, config.th_bn)
        if inside not in of_tiles:
            of_tiles[inside] = _cycles(geometry_of(config), cpu)
        if is_above(limit, of_tiles[inside], cpu):
            return math.inf
        if around not in supplies:
            supplies[around] = _around(geometry_of(config), cpu, ALONE)
        supply, forks = supplies[around]
        return seconds_beside(of_tiles[inside], supply, cpu) + forks

    return price


def seconds_of(geometry: WinogradGeometry, cpu: Cpu, near: Near = ALONE) -> float:
    """The same of any geometry like this one's; it says what a step of its product takes."""
    supply, forks = _around(geometry, cpu, near)
    return seconds_beside(_cycles(geometry, cpu), supply, cpu) + forks


def _around(geometry: WinogradGeometry, cpu: Cpu, near: Near) -> tuple[Supply, float]:
    """What chunks take of the machine, and the seconds of passes before them beside their cycles:
    forks, and the wait of each core for what others have transformed.
    """
    supply = supply_of(geometry.chunks, _traffic(geometry, cpu, near), cpu)
    if not geometry.packs_apart:
        return supply, 0.0
    packed = float(_packed_bytes(geometry))
    cycles = foreign_lines(packed, 1.0, cpu) * cycles_of_line(packed, cpu)
    return supply, 2 * cpu.fork_join + cycles / (cpu.ghz * 1e9)


def _packed_bytes(geometry: WinogradGeometry) -> int:
    """Of all transformed tiles."""
    tiles = geometry.conv.batch * math.prod(geometry.grid) * geometry.tiled.products
    return item_bytes(geometry.packed_type) * tiles * geometry.tiled.seen.in_channels


def _cycles(geometry: WinogradGeometry, cpu: Cpu) -> float:
    """Cycles of all tiles, however they are dealt out in chunks."""
    conv, config, tiled = geometry.conv, geometry.config, geometry.tiled
    unit, transform_unit = cpu.unit(conv.types.accumulator), cpu.unit(geometry.factor_type)
    steps = geometry.in_blocks * geometry.inner_steps
    tiles = conv.batch * math.prod(geometry.grid)
    vectors, share = unit.registers_of(geometry.oc_bn), unit.issue_share(geometry.oc_bn)
    step_channels = geometry.ic_bn // geometry.inner_steps
    row_bytes = float(geometry.weight_bytes * step_channels * geometry.oc_bn)
    from_l2 = streamed(steps * row_bytes, row_bytes, cpu)
    by = geometry.dot(cpu)
    widening = widening_of(conv.types.weight) if by is None else 0.0

    def of_register_tile(pixels: int) -> float:
        requests = 1 / MAX_GROUP if shares_requests(pixels, vectors, unit) else 1.0
        if geometry.packs_by_block and is_written_out(steps, pixels, vectors):
            core, end = replace(cpu, fma_latency=1), SHORT_END_CYCLES
        else:
            core, end = cpu, END_CYCLES
        step = tile_step_cycles(pixels, vectors, core, unit, from_l2, requests, by, widening, share)
        step += _loop_overhead(geometry, pixels, vectors, cpu) + FLAT_CYCLES * geometry.is_flat
        narrower = NARROWER_CYCLES * (geometry.is_flat and pixels < config.reg_n)
        return steps * step + 2.0 * pixels * vectors * share + end + narrower

    cycles = sum(count * of_register_tile(pixels) for pixels, count in geometry.register_tiles)
    cycles *= geometry.out_blocks
    transformed = geometry.transformed_channels
    in_vectors = transform_unit.registers_of(transformed) * transform_unit.issue_share(transformed)
    packed = geometry.packed_copies * geometry.packed_blocks
    cycles += tiles * packed * in_vectors * _input_cycles(tiled)
    cycles += tiles * geometry.out_blocks * vectors * share * _output_cycles(tiled)
    if tiled.plain:
        cycles += PHASE_CYCLES * math.prod(tiled.seen.in_shape)
    if geometry.packs_by_block:
        cycles += _copied_bytes(geometry) / PADDED_BYTES_PER_CYCLE
    return cycles


def _copied_bytes(geometry: WinogradGeometry) -> float:
    """Bytes of the padded copies of groups: chunks share rows of their image."""
    conv, tiled = geometry.conv, geometry.tiled
    rows = geometry.chunk_rows * tiled.hop[0]
    read = (geometry.chunk_rows - 1) * tiled.hop[0] + tiled.matrices[0].pixels
    return conv.in_bytes * read / rows


def _loop_overhead(geometry: WinogradGeometry, pixels: int, vectors: int, cpu: Cpu) -> float:
    """Loop control, and what a short step in a loop costs beyond it.

    That was seen with 16 registers. With 32 most steps are long, and nobody measured the others.
    """
    steps, unit = geometry.inner_steps, cpu.unit(geometry.conv.types.accumulator)
    by = geometry.dot(cpu)
    if by is not None and unit.spills_unrolled(pixels, vectors, by.temporaries):
        # Kept rolled, however few steps there are (Zen 3, 3x224x224 7x7 s2: 6 tiles x 2 vectors of
        # 8 steps 1759 us, 4 x 2 of as many products 1505).
        return ROLLED_CYCLES + LOOP_END_CYCLES / steps + SHORT_ROLLED_CYCLES
    late = vectors == 1 or pixels * vectors <= cpu.fma_latency * cpu.fma_per_cycle
    short = late and pixels * vectors < LONG_STEP and unit.registers == FEW_REGISTERS
    adds_apart = by is not None and by.temporaries > 0
    rolled = short and not is_written_out(steps, pixels, vectors, adds_apart)
    return loop_cycles(steps, pixels, vectors, adds_apart) + SHORT_ROLLED_CYCLES * rolled


def _input_cycles(tiled: TiledConv) -> float:
    """B^T d B of one tile and one vector of channels: arithmetic, loads, scattered stores."""
    down, across = tiled.matrices
    arithmetic = (across.pixels * down.adds_before + down.products * across.adds_before) / 2
    return arithmetic + 3.0 * tiled.products


def _output_cycles(tiled: TiledConv) -> float:
    """A^T M A of one tile and one vector of channels, and the store."""
    down, across = tiled.matrices
    arithmetic = (across.products * down.adds_behind + down.outputs * across.adds_behind) / 2
    return arithmetic + 1.75 * tiled.products + 2.0 * math.prod(tiled.outputs)


def _traffic(geometry: WinogradGeometry, cpu: Cpu, near: Near = ALONE) -> Traffic:
    """Each block of output channels walks the packed input; each chunk walks the weights.

    Weights that outgrow L3 come from memory at each walk, for all cores at once (Zen 4, one thread,
    8 images of 512x7x7, F(4x4): 38 MB of weights for each image 20-23 ms, for all of them 6.2).

    Of groups a block walks its group's: transformed tiles and products of small ones lie in L1 or
    L2. A core that transforms the input for itself reads all of it; no other core wrote what it
    multiplies.
    """
    conv, config, seen = geometry.conv, geometry.config, geometry.tiled.seen
    tiles = conv.batch * math.prod(geometry.grid)
    packed = float(_packed_bytes(geometry))
    product_bytes = item_bytes(conv.types.accumulator)
    products = float(product_bytes * geometry.tiled.products * tiles * conv.out_channels)
    kernels = geometry.in_channels * conv.out_channels
    weights = float(geometry.weight_bytes * geometry.tiled.products * kernels)
    in_bytes, out_bytes = float(seen.in_bytes), float(conv.out_bytes)
    # Blocks that walk what another one walks too.
    blocks = geometry.out_blocks // conv.groups
    apart = geometry.packs_apart
    walks = geometry.batches * (1 if apart else geometry.row_chunks)
    part = packed / walks / conv.groups
    copies = geometry.packed_copies
    from_l2 = packed * (copies + blocks) + 2 * products + weights * walks
    from_l2 += in_bytes * copies + out_bytes
    fit_l2 = weights / copies + part <= L2_SHARE * cpu.l2 - near.beside
    weight_walks = min(walks, cpu.cores) if fit_l2 else walks
    # What a core transforms for itself stays in its L2 until it is multiplied.
    once = min(cpu.cores, blocks) if apart else 0
    packed_walks = blocks if part > PANEL_SHARE * cpu.l2 else once
    own_products = apart or copies > 1
    groups_apart = conv.groups if geometry.packs_by_block else 1
    private_products = products / walks / groups_apart / (blocks if own_products else 1)
    if geometry.packs_by_block:
        packed_walks = 0
        if part + private_products <= cpu.l1:
            from_l2 = weights * walks + in_bytes + out_bytes
    spilled_products = 2 * products if private_products > PANEL_SHARE * cpu.l2 else 0.0
    from_l3 = weights * weight_walks + packed * packed_walks + spilled_products
    far = in_bytes * (not near.reads) + out_bytes * (not near.writes)
    from_l3 += far + in_bytes * (copies - 1)
    if geometry.packs_by_block:
        # Transforms ask for no weights, and take half of a group's time. Without a split over
        # channels every core reads all of them.
        readers = 1 if config.parallel_oc else min(walks, cpu.cores)
        prefetched, from_dram = 0.0, weights * readers
    else:
        loads = 1 if resident_in_l3(weights, cpu) else walks
        if not own_products:  # cores walk all weights at once
            loads = math.ceil(loads / cpu.cores)
        prefetched = loads * prefetched_bytes(weights)
        from_dram = loads * weights - prefetched
    if not resident_in_l3(far, cpu):
        from_dram += far
    # Workspace beyond L2 went cold since other layers used that part of the arena: a write fetches
    # it first (Zen 5, 128x56x56 of stride 2, F(4), 2.5 MB: 650 us in a loop, 750-810 in ResNet-50).
    workspace = private_products * cpu.cores + part * (1 if apart else cpu.cores)
    from_dram += 2 * max(0.0, workspace - cpu.l2 * cpu.cores)
    if apart and packed > 0.2 * cpu.l3:
        from_dram += packed * (1 if resident_in_l3(part, cpu) else blocks)
    return Traffic(from_l2, from_l3, from_dram, prefetched)
