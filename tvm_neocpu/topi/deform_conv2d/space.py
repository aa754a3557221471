"""The configuration space of the deformable template."""

from __future__ import annotations

import math
from itertools import product

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d_im2col.space import MIN_IC_BN, pixel_tiles, wide_blocks
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

# Channels of the widest input block: a pixel of it is four vectors of AVX-512.
MAX_IC_BN = 64
# Chunks that each core may get, beside what keeps their columns small.
CHUNKS_A_CORE = (1, 2, 4)


def accepts(deform: DeformConvWorkload, cpu: Cpu) -> bool:
    """Everything: channels that fill no vector are interpolated one by one."""
    return True


def space(deform: DeformConvWorkload, cpu: Cpu) -> tuple[DeformConfig, ...]:
    """Channel factors, flat register tiles, chunks whose columns fit L2 or share the pixels out."""
    unit = cpu.unit(deform.types.accumulator)
    return tuple(
        DeformConfig(ic_bn, oc_bn, reg_n, tiles, parallel_oc, oc_lanes)
        for oc_bn, oc_lanes in wide_blocks(deform.conv, cpu)
        for reg_n in pixel_tiles(deform.conv, unit.registers_of(oc_lanes or oc_bn), cpu)
        for tiles, parallel_oc in chunkings(deform, reg_n, cpu)
        for ic_bn in in_blocks(deform)
    )


def in_blocks(deform: DeformConvWorkload) -> tuple[int, ...]:
    """Factors of the channels that share weights and offsets, narrow ones if there is no other."""
    blocks = tuple(block for block in factors(deform.shared_channels) if block <= MAX_IC_BN)
    return tuple(block for block in blocks if block >= MIN_IC_BN) or blocks


def chunkings(deform: DeformConvWorkload, reg_n: int, cpu: Cpu) -> tuple[tuple[int, bool], ...]:
    """(tiles that a chunk covers, whether chunks are split over output channels too).

    What gives each core a few chunks, and what keeps a chunk's columns in a half or a quarter of
    L2. Each count is offered as it is, and rounded so that places are whole vectors of pixels.
    Columns that outgrow L2 are not offered. A split needs the columns of all pixels at once, so
    that it is for small images (Zen 5, 256x25x38, 3x3, columns of 9 MB, one thread: 5.7 ms without
    it, 8.5 with it).
    """
    conv = deform.conv
    total = math.ceil(conv.batch * conv.out_height * conv.out_width / reg_n)
    tile_bytes = item_bytes(deform.types.data) * reg_n * conv.taps * conv.groups
    wanted = {math.ceil(total / (cpu.cores * share)) for share in CHUNKS_A_CORE}
    wanted |= {min(total, max(1, int(cpu.l2 / part / tile_bytes))) for part in (2, 4)}
    lanes = cpu.lanes(deform.types.data)
    step = lanes // math.gcd(lanes, reg_n)
    whole = {step, *(max(1, round(tiles / step)) * step for tiles in wanted)}
    counts = sorted(wanted | {tiles for tiles in whole if tiles <= total})
    counts = [tiles for tiles in counts if tiles * tile_bytes <= cpu.l2] or counts[:1]
    splits = (False, True) if total * tile_bytes <= cpu.l2 else (False,)
    return tuple(product(counts, splits))
