"""What the cost model says of the AMX templates: the direct one's terms around other products."""

from __future__ import annotations

import math
from collections.abc import Hashable

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import WORD_BYTES
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import (
    TilesConfig,
    TilesGeometry,
    cut_of,
    geometry_of,
)
from tvm_neocpu.topi.conv2d_direct.cost import beside_tiles
from tvm_neocpu.topi.cost.roofline import is_above, overlapped
from tvm_neocpu.topi.math.matrix_tiles import Cut
from tvm_neocpu.topi.operator import Price

# Cycles that a vector of sums takes to be read, finished and stored.
EPILOGUE_CYCLES = 3.0
# Cycles in which one of them is picked from a run of rows, between which lie others.
PICK_CYCLES = 1.0
# Cycles around the loops of a register tile.
TILE_CYCLES = 20.0
# Extra cycles of each of several passes. All sums are finished together: too many instructions for
# the core to begin the next tile's products beside them.
PASS_CYCLES = 100.0
# Extra cycles of a tile of data whose rows do not lie side by side, being parts of wide blocks
# (128x28x28->512 1x1 of bf16: blocks of 32 channels 90 us, 64 97, 128 104).
APART_CYCLES = 2.0
# Share of the time in which L2 gives weights and pixels that products do not hide.
EXPOSED_L2 = 0.33
# Share of L1 that these may take and still stay in it, beside sums and what is stored.
L1_SHARE = 0.8


def predict_seconds(conv: ConvWorkload, config: TilesConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    return pricing(conv, cpu)(config)


def pricing(conv: ConvWorkload, cpu: Cpu) -> Price:
    """:func:`predict_seconds` for many configs: what tiles take is computed once, however they are
    dealt out.
    """
    assert cpu.matrix is not None, "only a CPU with the unit has such configs"
    unit, of_tiles = cpu.matrix, dict[Hashable, float]()

    def price(config: TilesConfig, limit: float = math.inf, /) -> float:
        geometry = geometry_of(conv, config)
        tile = config.ic_bn, config.oc_bn, config.oc_lanes, config.reg_m, config.reg_n
        if tile not in of_tiles:
            count = conv.batch * math.prod(geometry.tiles) * geometry.out_blocks
            of_tiles[tile] = count * _tile_cycles(geometry, unit, cpu)
        cycles = of_tiles[tile] + geometry.chunks * unit.setup_cycles
        if is_above(limit, cycles, cpu):
            return math.inf
        return beside_tiles(geometry, cycles, cpu)

    return price


def _tile_cycles(geometry: TilesGeometry, unit: MatrixUnit, cpu: Cpu) -> float:
    """Cycles of a register tile: its reduction, pass by pass, and the store."""
    config, cut = geometry.config, cut_of(geometry)
    steps = geometry.steps / cut.words
    issue = overlapped(cut.products * unit.product_cycles, cut.loads * unit.load_cycles)
    if geometry.words > cut.words:
        issue += APART_CYCLES * len(cut.starts)
    from_l2 = _bytes_from_l2(geometry, cut, cpu) / cpu.l2_bytes_per_cycle
    of_pixel = cpu.unit(geometry.conv.types.accumulator).registers_of(config.oc_bn)
    vectors = config.reg_m * config.reg_n * of_pixel / cut.passes
    stored = cut.products * unit.store_cycles + vectors * EPILOGUE_CYCLES
    if cut.gap or config.oc_lanes:
        stored += vectors * PICK_CYCLES
    summed = overlapped(steps * issue, from_l2) + EXPOSED_L2 * from_l2
    around = TILE_CYCLES + (PASS_CYCLES if cut.passes > 1 else 0.0)
    return cut.passes * (summed + stored + around)


def _bytes_from_l2(geometry: TilesGeometry, cut: Cut, cpu: Cpu) -> float:
    """Of weights and pixels, in a pass over a register tile; none while L1 holds those of all."""
    config, conv = geometry.config, geometry.conv
    weights = geometry.steps * geometry.row_bytes / cut.passes
    (down, across), (high, wide) = geometry.stride, conv.reach
    rows, columns = (config.reg_m - 1) * down + high, (config.reg_n - 1) * across + wide
    pixels = rows * columns * geometry.in_blocks * geometry.words * WORD_BYTES
    held = cut.passes * weights + pixels <= L1_SHARE * cpu.l1
    return 0.0 if held else weights + pixels
