"""What the cost model says of convolutions to few channels."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import PADDED_BYTES_PER_CYCLE
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig, FewGeometry
from tvm_neocpu.topi.cost.roofline import (
    L2_SHARE,
    PANEL_SHARE,
    Traffic,
    Work,
    resident_in_l3,
    seconds,
    tile_step_cycles,
)

# Cycles of a step that loop control takes, of adding two halves of a sum, and around a tile.
LOOP_CYCLES, FOLD_CYCLES, TILE_CYCLES = 1.0, 5.0, 20.0


def predict_seconds(conv: ConvWorkload, config: FewConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry = FewGeometry(conv, config)
    tiles = conv.batch * conv.out_height * geometry.tiles
    copied = _copied_bytes(geometry)
    cycles = tiles * _tile_cycles(geometry, cpu) + copied / PADDED_BYTES_PER_CYCLE
    return seconds(Work(cycles, geometry.chunks, _traffic(geometry, copied, cpu)), cpu)


def _traffic(geometry: FewGeometry, copied: float, cpu: Cpu) -> Traffic:
    """The rows that one row of outputs reads stay in L1, or each comes from L2 again.

    A padded copy of a chunk that outgrows L2 is written to L3 and read from there (Zen 4, one
    thread, 64x256x256->1 3x3: chunks of all rows 3.8 ms, of 8 rows 2.4).
    """
    conv = geometry.conv
    row_bytes = conv.in_bytes / conv.batch / conv.height
    stays = row_bytes * conv.kernel[0] <= PANEL_SHARE * cpu.l1
    readings = 1.0 if stays else max(1.0, conv.kernel[0] / conv.stride[0])
    maps = float(conv.in_bytes + conv.out_bytes)
    spilled = 2 * copied if copied / geometry.chunks > L2_SHARE * cpu.l2 else 0.0
    from_dram = 0.0 if resident_in_l3(maps, cpu) else maps + spilled
    return Traffic(conv.in_bytes * readings + conv.out_bytes, maps + spilled, from_dram)


def _tile_cycles(geometry: FewGeometry, cpu: Cpu) -> float:
    """A step loads a vector of each pixel and of each filter, and multiplies all pairs."""
    config, unit = geometry.config, cpu.unit(geometry.conv.types.accumulator)
    share, outputs = unit.issue_share(config.lanes), config.oc_bn
    step = tile_step_cycles(config.reg_n, outputs, cpu, unit, share=share) + LOOP_CYCLES
    folds = math.log2(config.lanes) + 1
    return geometry.steps * step + config.reg_n * outputs * folds * FOLD_CYCLES + TILE_CYCLES


def _copied_bytes(geometry: FewGeometry) -> float:
    """Bytes of the padded copies: chunks share the rows at their borders."""
    if not geometry.is_padded:
        return 0.0
    conv, rows = geometry.conv, geometry.chunk_rows * geometry.conv.stride[0]
    return conv.in_bytes * (rows + conv.kernel[0] - conv.stride[0]) / rows
