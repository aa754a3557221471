"""Convolution by AMX in NCHW[x]c: the loops of the integer and the bf16 template, in tiles.

What is computed, and how weights are packed, is theirs. A step of the reduction multiplies all
words of a block of channels at once, and the sums of a register tile lie in the unit's registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import te
from tvm.ir import Expr
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.matrix_unit import LANES
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx import rows_of_bf16
from tvm_neocpu.topi.conv2d_amx.geometry import (
    Bf16RowsConfig,
    Bf16TilesConfig,
    IntegerRowsConfig,
    IntegerTilesConfig,
    TilesConfig,
    cut_of,
    geometry_of,
    pitch_of,
)
from tvm_neocpu.topi.conv2d_bf16 import template as of_bf16
from tvm_neocpu.topi.conv2d_direct.template import STORE, padded_in, tile_output
from tvm_neocpu.topi.conv2d_integer import template as of_integers
from tvm_neocpu.topi.conv2d_integer.template import place_copy
from tvm_neocpu.topi.conv2d_integer_rows import template as of_rows
from tvm_neocpu.topi.conv2d_integer_rows.geometry import ImageRowsGeometry
from tvm_neocpu.topi.conv2d_integer_rows.template import place_rows
from tvm_neocpu.topi.math.matrix_tiles import Cut
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.instructions.plant_tiles import multiply_in_tiles
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import prefetch_next_panel

# All words of a block are one step, which takes 40 cycles and more. A loop of 16 requests for 5
# lines in each made 512x7x7->512 of integers four times slower (docs/kernels/integers.md).
MAX_REQUESTS = 16
# What computes in words, by the config that cuts them into tiles.
_COMPUTES: dict[type[TilesConfig], Callable[..., te.Tensor]] = {
    IntegerTilesConfig: of_integers.computed,
    Bf16TilesConfig: of_bf16.computed,
    IntegerRowsConfig: of_rows.computed,
    Bf16RowsConfig: rows_of_bf16.computed,
}


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: TilesConfig
) -> te.Tensor:
    """The convolution over blocked tensors, as the template of the same words computes it.

    ``data``: (N, C/ic_bn, H, W, ic_bn), or (N, C, H, W) of a plain image.
    ``weight``: (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels) of its ``pack_weight``; of
    blocks that take passes (K/x, .., x), where x is the filters of a pass, so that a pass reads
    them in a row. Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    geometry = geometry_of(conv, config)
    found = cut_of(geometry)
    passes, filters = found.passes, found.filters * LANES

    def of_pass(o: Expr, *at: Expr) -> Expr:
        *panel, c = at
        return weight(o * passes + c // filters, *panel, c % filters)

    return _COMPUTES[type(config)](data, of_pass if passes > 1 else weight, geometry)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry, acc = geometry_of(anchor.workload, anchor.config), anchor.block
    unit = cpu.unit(geometry.conv.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    chunk, tile, reduction = tile_output(sch, acc, geometry)
    found = cut_of(geometry)
    reduction = _cut_loops(sch, acc, reduction, found)
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    # The sums come from memory: a loop over pixels is no slower than all of them in a row.
    steps.vectorize_lanes(sch, sch.get_loops(output)[-1], unit)
    in_passes = found.passes > 1 and math.prod(geometry.tiles) > 1
    prefetch_next_panel(sch, reduction[-2], most=MAX_REQUESTS, in_passes=in_passes)
    multiply_in_tiles(sch, acc, chunk, reduction, geometry.config.oc_bn, pitch_of(geometry))
    place = padded_in(sch, acc, chunk, geometry)
    if isinstance(geometry, ImageRowsGeometry):
        place_rows(sch, place, geometry)
    else:
        place_copy(sch, place, geometry, cpu)
    return output


def _cut_loops(sch: Schedule, acc: SBlockRV, reduction: list[LoopRV], found: Cut) -> list[LoopRV]:
    """Cut filters and words into what tiles hold; returns the loops of the reduction.

    # for yo, xo: for ico, kh, kw, ici: for yi, xi, c
    # ->  for yo, xo: for co: for ico, kh, kw, qo, qi: for yi, xi, ci
    """
    *_, yi, xi, c = sch.get_loops(acc)
    *outer, words = reduction
    if steps.loop_extent(sch, words) > found.words:
        qo, words = steps.split_off(sch, words, found.words)
        outer.append(qo)
    if found.passes > 1:
        co, ci = steps.split_off(sch, c, found.filters * LANES)
        sch.reorder(co, *outer, words, yi, xi, ci)
    return [*outer, words]
