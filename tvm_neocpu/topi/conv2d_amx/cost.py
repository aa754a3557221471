"""What the cost model says of the AMX templates: the direct one's terms around other products."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import (
    TilesConfig,
    TilesGeometry,
    cut_of,
    geometry_of,
)
from tvm_neocpu.topi.conv2d_direct.cost import beside_tiles
from tvm_neocpu.topi.cost.roofline import overlapped, streamed

# Cycles that a vector of sums takes to be read, finished and stored.
EPILOGUE_CYCLES = 3.0
# Cycles in which one of them is picked from a run of rows, between which lie others.
PICK_CYCLES = 1.0
# Cycles around the loops of a register tile.
TILE_CYCLES = 20.0


def predict_seconds(conv: ConvWorkload, config: TilesConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    assert cpu.matrix is not None, "only a CPU with the unit has such configs"
    geometry = geometry_of(conv, config)
    tiles = conv.batch * geometry.tiles[0] * geometry.tiles[1] * geometry.out_blocks
    cycles = tiles * _tile_cycles(geometry, cpu.matrix, cpu)
    return beside_tiles(geometry, cycles + geometry.chunks * cpu.matrix.setup_cycles, cpu)


def _tile_cycles(geometry: TilesGeometry, unit: MatrixUnit, cpu: Cpu) -> float:
    """Cycles of a register tile: its reduction, and the store."""
    config, cut = geometry.config, cut_of(geometry)
    row_bytes = geometry.row_bytes / cut.passes
    from_l2 = cut.words * streamed(geometry.steps * row_bytes, row_bytes, cpu)
    issue = overlapped(cut.products * unit.product_cycles, cut.loads * unit.load_cycles)
    step = overlapped(issue, from_l2 / cpu.l2_bytes_per_cycle)
    vectors = config.reg_m * config.reg_n * cut.filters
    stored = cut.products * unit.store_cycles + vectors * EPILOGUE_CYCLES
    if cut.gap:
        stored += vectors * PICK_CYCLES
    return cut.passes * (geometry.steps / cut.words * step + stored + TILE_CYCLES)
