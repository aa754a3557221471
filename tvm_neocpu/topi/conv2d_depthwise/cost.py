"""What the cost model says of the depthwise template: loads bound it."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import AVX2, Cpu, VectorUnit
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig, DepthwiseGeometry, is_integer
from tvm_neocpu.topi.cost.roofline import (
    ALONE,
    PANEL_SHARE,
    Near,
    Traffic,
    Work,
    resident_in_l3,
    seconds,
)

# Cycles of a tap for each register that a tile takes beyond half of them, accumulators, weights and
# pixels counted.
CROWDED_CYCLES = 0.5
# The same with 16 registers, accumulators counted: 8 fit, 12 take 1.6 times as long a pixel (Zen 3,
# 192x28x28: 38 us with tiles of 7x8 channels, 78 with 4x24).
CROWDED_16_CYCLES = 1.05
# A row of more than three taps shares more pixels: 7 accumulators fit (Zen 3, 96x56x56 5x5: 197 us
# with tiles of 7 pixels, 273 with 8, 297 with 2 x 4; accesses to the stack for each multiply-add
# 0.00, 0.16, 0.34).
WIDE_TAPS, WIDE_16_CYCLES = 3, 2.1
# Cycles of a tap for each vector of more pixels than fit, with 32 registers whose vectors take both
# halves of a unit: LLVM keeps the pixels that taps share, a spill stores for two cycles and loads
# for one, and multiply-adds load in every cycle. 7 pixels fit for every kernel and stride (Zen 4,
# 28x28 pixels of 16 channels, us with tiles of 14, 8 and 7 pixels: 3x3 2.9, 3.7, 2.0; 3x3 s2 3.7,
# 2.3, 2.2; 5x5 7.1, 8.1, 5.9; 5x5 s2 8.5, 9.1, 6.8; 7x7 13.5, 14.5, 10.9; 7x7 s2 13.8, 15.6, 11.6).
NARROW_PIXELS, NARROW_CYCLES = 7, 1.0
# A byte is loaded, widened, multiplied and added in three instructions, a number in one.
WIDENED = 1.5


def predict_seconds(
    conv: ConvWorkload, config: DepthwiseConfig, cpu: Cpu, near: Near = ALONE
) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    geometry = DepthwiseGeometry(conv, config)
    cycles = geometry.tile_count * _tile_cycles(conv, config, cpu)
    in_bytes, out_bytes = conv.in_bytes, conv.out_bytes
    from_l2 = float(in_bytes + out_bytes)
    # What the layer before wrote is still in L2 where it fits.
    maps = float(in_bytes * (not near.reads) + out_bytes * (not near.writes))
    from_l3 = maps if maps > PANEL_SHARE * cpu.l2 * cpu.cores else 0.0
    if geometry.is_copied:
        copied = float(geometry.chunk_bytes * geometry.chunks)
        # Repeated channels are gathered one by one.
        cycles += 1.5 * copied / item_bytes(conv.types.data)
        from_l2 += copied if geometry.chunk_bytes > cpu.l1 / 2 else 0.0
        from_l3 += 2 * copied if geometry.chunk_bytes > PANEL_SHARE * cpu.l2 else 0.0
    from_dram = 0.0 if resident_in_l3(maps, cpu) else maps
    return seconds(Work(cycles, geometry.chunks, Traffic(from_l2, from_l3, from_dram)), cpu)


def _tile_cycles(conv: ConvWorkload, config: DepthwiseConfig, cpu: Cpu) -> float:
    """Every tap reads a pixel vector; weights stay in registers while they fit."""
    unit = cpu.unit(conv.types.accumulator)
    vectors = unit.registers_of(config.tile_channels)
    taps = conv.kernel[0] * conv.kernel[1]
    pixels = config.reg_m * config.reg_n
    fmas = pixels * vectors * taps
    live = pixels * vectors + (taps * vectors if config.unroll_ker else vectors)
    loads = fmas + (0 if live <= unit.registers else taps * vectors)
    # Unrolled, only the ends of a row test for the border.
    tests = pixels * vectors if any(conv.padding) else 0
    control = 0 if config.unroll_ker else taps * (2 + tests)
    issue = loads / cpu.load_per_cycle * (WIDENED if is_integer(conv) else 1.0)
    issue *= unit.issue_share(config.tile_channels)
    if unit.full_rate_lanes < unit.lanes and not is_integer(conv):
        spilled = NARROW_CYCLES * max(0, pixels - NARROW_PIXELS) * vectors
        issue += spilled * unit.issue_share(config.tile_channels) * taps
    issue += _spill_cycles(unit, pixels, vectors, conv.kernel[1]) * taps
    return issue + control + 1.0 * pixels * vectors + 6


def _spill_cycles(unit: VectorUnit, pixels: int, vectors: int, across: int) -> float:
    """Cycles of a tap: LLVM keeps pixels that taps share in registers too, and spills others.

    A tile beyond half of the registers spills some; with 16 and more than :data:`WIDE_TAPS` taps
    ``across``, one accumulator earlier.
    """
    half = unit.registers // 2
    if unit.registers > AVX2.vector_registers:
        return CROWDED_CYCLES * max(0, unit.tile_registers(pixels, vectors, streamed=2) - half)
    if across > WIDE_TAPS:
        return WIDE_16_CYCLES * max(0, pixels * vectors - half + 1)
    return CROWDED_16_CYCLES * max(0, pixels * vectors - half)
