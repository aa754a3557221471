"""What the cost model says of the Winograd template (CDUCA's terms over its four parts)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.half import widening_of
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import (
    FLAT,
    TiledConv,
    WinogradConfig,
    WinogradGeometry,
)
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
    supplies: dict[Hashable, Supply] = {}
    has_tails: dict[Hashable, bool] = {}

    def price(config: WinogradConfig, limit: float = math.inf, /) -> float:
        plain = config.ic_bn == 0
        tile = plain, config.oc_bn, config.tile, config.reg_n, config.reg_m, config.parallel_oc
        # The last register tile of a chunk depends on what the chunk covers; so does whether its
        # last row of tiles is narrower, which a conv without tails never is.
        if (plain, config.tile) not in has_tails:
            has_tails[plain, config.tile] = geometry_of(config).tiled.tails[0] is not None
        rows = config.th_bn if config.reg_m == FLAT or has_tails[plain, config.tile] else 0
        inside, around = (*tile, config.ic_bn, rows), (*tile, config.th_bn)
        if inside not in of_tiles:
            of_tiles[inside] = _cycles(geometry_of(config), cpu)
        if is_above(limit, of_tiles[inside], cpu):
            return math.inf
        if around not in supplies:
            geometry = geometry_of(config)
            supplies[around] = supply_of(geometry.chunks, _traffic(geometry, cpu), cpu)
        return _seconds(config, of_tiles[inside], supplies[around], cpu)

    return price


def seconds_of(geometry: WinogradGeometry, cpu: Cpu, near: Near = ALONE) -> float:
    """The same of any geometry like this one's; it says what a step of its product takes."""
    supply = supply_of(geometry.chunks, _traffic(geometry, cpu, near), cpu)
    return _seconds(geometry.config, _cycles(geometry, cpu), supply, cpu)


def _seconds(config: WinogradConfig, cycles: float, supply: Supply, cpu: Cpu) -> float:
    passes_before = 2 if config.parallel_oc else 0
    return seconds_beside(cycles, supply, cpu) + passes_before * cpu.fork_join


def _cycles(geometry: WinogradGeometry, cpu: Cpu) -> float:
    """Cycles of all tiles, however they are dealt out in chunks."""
    conv, config, tiled = geometry.conv, geometry.config, geometry.tiled
    unit, transform_unit = cpu.unit(conv.types.accumulator), cpu.unit(geometry.factor_type)
    steps = geometry.in_blocks * geometry.inner_steps
    tiles = conv.batch * math.prod(geometry.grid)
    vectors, share = unit.registers_of(config.oc_bn), unit.issue_share(config.oc_bn)
    step_channels = geometry.ic_bn // geometry.inner_steps
    row_bytes = float(geometry.weight_bytes * step_channels * config.oc_bn)
    from_l2 = streamed(steps * row_bytes, row_bytes, cpu)
    by = geometry.dot(cpu)
    widening = widening_of(conv.types.weight) if by is None else 0.0

    def of_register_tile(pixels: int) -> float:
        requests = 1 / MAX_GROUP if shares_requests(pixels, vectors, unit) else 1.0
        step = tile_step_cycles(pixels, vectors, cpu, unit, from_l2, requests, by, widening, share)
        step += _loop_overhead(geometry, pixels, vectors, cpu) + FLAT_CYCLES * geometry.is_flat
        narrower = NARROWER_CYCLES * (geometry.is_flat and pixels < config.reg_n)
        return steps * step + 2.0 * pixels * vectors + 20 + narrower

    cycles = sum(count * of_register_tile(pixels) for pixels, count in geometry.register_tiles)
    cycles *= geometry.out_blocks
    transformed = geometry.transformed_channels
    in_vectors = transform_unit.registers_of(transformed) * transform_unit.issue_share(transformed)
    cycles += tiles * geometry.in_blocks * in_vectors * _input_cycles(tiled)
    cycles += tiles * geometry.out_blocks * vectors * share * _output_cycles(tiled)
    if tiled.plain:
        cycles += PHASE_CYCLES * math.prod(tiled.seen.in_shape)
    return cycles


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
    """Each block of output channels walks the packed input; each chunk walks the weights."""
    conv, config, seen = geometry.conv, geometry.config, geometry.tiled.seen
    tiles = conv.batch * math.prod(geometry.grid)
    spread = float(item_bytes(geometry.packed_type) * geometry.tiled.products)
    packed = spread * tiles * seen.in_channels
    product_bytes = item_bytes(conv.types.accumulator)
    products = float(product_bytes * geometry.tiled.products * tiles * conv.out_channels)
    kernels = seen.in_channels * conv.out_channels
    weights = float(geometry.weight_bytes * geometry.tiled.products * kernels)
    in_bytes, out_bytes = float(seen.in_bytes), float(conv.out_bytes)
    blocks = geometry.out_blocks
    walks = 1 if config.parallel_oc else conv.batch * geometry.row_chunks
    from_l2 = packed * (1 + blocks) + 2 * products + weights * walks + in_bytes + out_bytes
    part = packed / walks
    fit_l2 = weights + part <= L2_SHARE * cpu.l2 - near.beside
    weight_walks = min(walks, cpu.cores) if fit_l2 else walks
    once = 1 if walks > 1 else min(cpu.cores, blocks)
    packed_walks = blocks if part > PANEL_SHARE * cpu.l2 else once
    private_products = products / walks / (blocks if config.parallel_oc else 1)
    spilled_products = 2 * products if private_products > PANEL_SHARE * cpu.l2 else 0.0
    from_l3 = weights * weight_walks + packed * packed_walks + spilled_products
    far = in_bytes * (not near.reads) + out_bytes * (not near.writes)
    from_l3 += far
    prefetched = prefetched_bytes(weights)
    from_dram = weights - prefetched
    if not resident_in_l3(far, cpu):
        from_dram += far
    # Workspace beyond L2 went cold since other layers used that part of the arena: a write fetches
    # it first (Zen 5, 128x56x56 of stride 2, F(4), 2.5 MB: 650 us in a loop, 750-810 in ResNet-50).
    workspace = private_products * cpu.cores + part * (1 if config.parallel_oc else cpu.cores)
    from_dram += 2 * max(0.0, workspace - cpu.l2 * cpu.cores)
    if config.parallel_oc and packed > 0.2 * cpu.l3:
        from_dram += packed * blocks
    return Traffic(from_l2, from_l3, from_dram, prefetched)
