"""What the cost model says of the template of rows in words."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import WORD_BYTES
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise_rows.geometry import (
    RowsConfig,
    RowsGeometry,
)
from tvm_neocpu.topi.conv2d_depthwise_rows.space import TEMPORARIES
from tvm_neocpu.topi.cost.roofline import (
    PANEL_SHARE,
    Traffic,
    Work,
    resident_in_l3,
    seconds,
)
from tvm_neocpu.topi.math.dot_products import WORD_TYPE

# Cycles for a vector of words: two loads that widen, a shift, an or, a store.
COPY_CYCLES = 2.5
# Cycles of a step of the kernel that loop control takes.
LOOP_CYCLES = 1.0


def predict_seconds(conv: ConvWorkload, config: RowsConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry = RowsGeometry(conv, config)
    unit = cpu.unit(WORD_TYPE)
    copied = float(geometry.chunk_bytes * geometry.chunks)
    vectors = copied / WORD_BYTES / config.oc_bn * unit.registers_of(config.oc_bn)
    cycles = geometry.tile_count * _tile_cycles(geometry, cpu) + COPY_CYCLES * vectors
    maps = float(conv.in_bytes + conv.out_bytes)
    # What the layer before wrote is still in L2 where it fits.
    from_l3 = maps if maps > PANEL_SHARE * cpu.l2 * cpu.cores else 0.0
    from_l2 = maps
    if geometry.chunk_bytes > PANEL_SHARE * cpu.l1:
        from_l2 += copied * geometry.taps
    if geometry.chunk_bytes > PANEL_SHARE * cpu.l2:
        from_l3 += 2 * copied
    from_dram = 0.0 if resident_in_l3(maps, cpu) else maps
    return seconds(Work(cycles, geometry.chunks, Traffic(from_l2, from_l3, from_dram)), cpu)


def _tile_cycles(geometry: RowsGeometry, cpu: Cpu) -> float:
    """A product reads its word from memory, a row of a tile its weights."""
    conv, config, unit = geometry.conv, geometry.config, cpu.unit(WORD_TYPE)
    vectors, pixels = unit.registers_of(config.tile_channels), config.reg_m * config.reg_n
    steps, dot = geometry.taps * conv.kernel[1], cpu.dot_of(2)
    products = pixels * vectors
    loads = products + vectors * geometry.phases
    step = max(products / dot.rate / cpu.fma_per_cycle, loads / cpu.load_per_cycle)
    step += unit.spilled(pixels, vectors, geometry.phases + TEMPORARIES)
    step += 0.0 if config.unroll_ker else LOOP_CYCLES
    return steps * step + 1.0 * products + 6
