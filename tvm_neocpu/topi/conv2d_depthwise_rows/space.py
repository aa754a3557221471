"""The configuration space of the template of rows in words."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.space import blocks, heights_for_cores, tile_channels
from tvm_neocpu.topi.conv2d_depthwise_rows.geometry import (
    ROWS,
    RowsConfig,
    RowsGeometry,
    phases_of,
)
from tvm_neocpu.topi.math.dot_products import WORD_TYPE

# Registers of a tile beside its accumulators: a product, and the weights of a phase each.
TEMPORARIES = 1
# Accumulators of a tile. LLVM reads a word that several taps and phases share once and keeps it:
# of 28 accumulators in 32 registers it stores 89 vectors to the stack (AVX-512; NEON 111), of 16
# none to 7. The model gains 1 % by the wider tile.
MOST_ACCUMULATORS = 16


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Kernels of two rows and more, one output a channel, whose rows lie side by side."""
    rows = conv.kernel[0] >= ROWS and conv.dilation[0] == 1 and conv.stride[0] <= ROWS
    return conv.is_depthwise and conv.multiplier == 1 and rows


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[RowsConfig, ...]:
    """Channel factors up to four vectors, tiles of pixels, chunks, kernel unrolled or not."""
    unit, phases = cpu.unit(WORD_TYPE), phases_of(conv)
    widest = min(conv.out_width, unit.max_pixels)
    widths = {w for w in (*factors(conv.out_width), *range(2, 8), 14) if w <= widest}

    def holds(pixels: int, channels: int) -> bool:
        vectors = unit.registers_of(channels)
        fits = unit.holds_tile(pixels, vectors, phases + TEMPORARIES)
        return fits and pixels * vectors <= MOST_ACCUMULATORS

    return tuple(
        RowsConfig(ic_bn, oc_bn, reg_n, unroll_ker, reg_m, oh_bn, reg_c)
        for ic_bn, oc_bn in blocks(conv, cpu)
        for reg_c in tile_channels(oc_bn, unit)
        for reg_m in (phases, 2 * phases)
        if reg_m <= max(conv.out_height, phases)
        for reg_n in sorted(widths)
        if (reg_m, reg_n) == (phases, 1) or holds(reg_m * reg_n, reg_c or oc_bn)
        for oh_bn in chunk_heights(conv, reg_m, oc_bn, cpu)
        for unroll_ker in (True, False)
    )


def chunk_heights(conv: ConvWorkload, reg_m: int, oc_bn: int, cpu: Cpu) -> tuple[int, ...]:
    """Rows of tiles in a chunk: all (0), or as many as have words that stay in L1, or in L2.

    Fewer too where the blocks of channels alone would leave a core idle.
    """
    rows = math.ceil(conv.out_height / reg_m)
    parts = [f for f in factors(rows) if f < rows]
    geometry = {
        f: RowsGeometry(conv, RowsConfig(oc_bn, oc_bn, 1, reg_m=reg_m, oh_bn=f)) for f in parts
    }
    found = {0}
    for cache in (cpu.l1 / 2, cpu.l1, cpu.l2 / 4):
        small = [f for f in parts if geometry[f].chunk_bytes <= cache]
        found |= set(small[-1:])
    return tuple(sorted(found | heights_for_cores(conv, rows, oc_bn, cpu)))
