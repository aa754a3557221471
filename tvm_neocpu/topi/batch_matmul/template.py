"""Matrix products of two computed tensors, as attention has them, in register tiles.

# parallel (b, q): rows; for o: (panel = right[:, o]; for t: (tile = 0; for k: tile += ..; store))

The right matrix is packed in panels, so that a step's columns lie side by side and the lines of
consecutive steps too. Both operands are read as they lie: the transposes of attention's queries,
keys and values are part of the copies, not passes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.batch_matmul.definition import transposed
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig, MatmulGeometry
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.gemm.schedule import (
    copied_rows,
    flat_index,
    flatten_output,
    place_copied_rows,
    split_rows,
    store_tile,
    unflat_index,
)
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.transpose import mark, side_of
from tvm_neocpu.topi.tir.functions.cut_loops import cut_loop
from tvm_neocpu.topi.tir.functions.keep_rolled import keep_rolled

ROWS, TURNED, PANELS = "matmul_rows", "matmul_turned", "matmul_panels"
ACCUMULATE, STORE = "matmul_acc", "matmul_store"
# Pieces of what is packed at once, for each core: none waits long for the last one.
MIN_PIECES = 4


def compute(
    left: te.Tensor, right: te.Tensor, product: MatmulWorkload, config: MatmulConfig
) -> te.Tensor:
    """``left`` and ``right`` as the workload says they lie; returns (.., M, N)."""
    geometry, types = MatmulGeometry(product, config), product.types
    tiles, outside, oc_bn = geometry.tiles, product.batch_shape, config.oc_bn
    first, second = transposed(left, product.left_axes), transposed(right, product.right_axes)

    def element(b, row, k):
        return first(*unflat_index(b, outside), row, k)

    def crosswise(b, k, n):
        return second(*unflat_index(b, outside), k, n)

    turned = None
    if product.turns_right and not config.in_place:
        shape = (product.batch, product.inner, product.columns)
        turned = te.compute(shape, crosswise, name=TURNED)

    def packed(b, o, k, c):
        column = o * oc_bn + c
        value = crosswise(b, k, column) if turned is None else turned[b, k, column]
        if not tiles.is_filled:
            return value
        zero = tirx.const(0, right.dtype)
        return tirx.if_then_else(column < product.columns, value, zero)

    copy = copied_rows(element, (product.batch,), tiles, ROWS) if geometry.copies else None
    if config.in_place:
        panel = _in_place(crosswise, geometry, right.dtype)
    else:
        panel = te.compute(geometry.panels_shape, packed, name=PANELS)
    k = te.reduce_axis((0, product.inner), name="k")

    def term(b, r, o, c):
        value = (
            element(b, r, k) if copy is None else copy[b, r // tiles.height, r % tiles.height, k]
        )
        return value.astype(types.accumulator) * panel(b, o, k, c).astype(types.accumulator)

    acc = te.compute(
        (product.batch, tiles.computed_rows, geometry.computed_blocks, oc_bn),
        lambda *at: te.sum(term(*at), axis=[k]),
        name=ACCUMULATE,
        attrs=anchor_attrs(product, config),
    )

    def stored(*at):
        *batch, m, n = at
        return acc[flat_index(batch, outside), m, n // oc_bn, n % oc_bn].astype(types.output)

    return te.compute(product.out_shape, stored, name=STORE)


def _in_place(
    crosswise: Callable[..., tirx.Expr], geometry: MatmulGeometry, dtype: str
) -> Callable[..., tirx.Expr]:
    """Reads a panel where it lies; a last one that is not full from a copy with zeros."""
    product, oc_bn, whole = geometry.product, geometry.config.oc_bn, geometry.whole_panels
    if not geometry.tiles.is_filled and geometry.computed_blocks == whole:
        return lambda b, o, k, c: crosswise(b, k, o * oc_bn + c)

    def behind(b, k, c):
        column = whole * oc_bn + c
        value = crosswise(b, k, column)
        return tirx.if_then_else(column < product.columns, value, tirx.const(0, dtype))

    last = te.compute((product.batch, product.inner, oc_bn), behind, name=PANELS)

    def panel(b, o, k, c):
        return tirx.if_then_else(o < whole, crosswise(b, k, o * oc_bn + c), last[b, k, c])

    return panel


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    product, acc = anchor.workload, anchor.block
    geometry = MatmulGeometry(product, anchor.config)
    types, tiles = product.types, geometry.tiles
    unit = cpu.unit(types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    flatten_output(sch, output, len(product.batch_shape))
    b, r, o, c, k = sch.get_loops(acc)
    q, t, one, i = split_rows(sch, r, tiles)
    if geometry.config.cuts_columns:
        sch.reorder(b, o, q, t)
        q, o = sch.split(o, [None, geometry.config.tiles], preserve_unit_iters=True)
    sch.reorder(b, q, o, t, k, one, i, c)
    chunk = steps.parallel_fused(sch, b, q)
    store_tile(sch, output, t, o, tiles, unit)
    keep_rolled(sch, k, tiles.height, unit.registers_of(tiles.oc_bn), unit)
    steps.hold_tile_in_registers(sch, acc, k, unit)
    if geometry.config.in_place:
        place_copied_rows(sch, ROWS, chunk, cpu.unit(types.data))
        return output
    shared = geometry.config.shared
    place_panels(sch, None if shared else o, geometry, cpu)
    place_turned(sch, None if shared else chunk, geometry, cpu)
    place_copied_rows(sch, ROWS, chunk, cpu.unit(types.data))
    return output


def place_panels(sch: Schedule, block: LoopRV | None, geometry: MatmulGeometry, cpu: Cpu) -> None:
    """Pack a panel just before it is multiplied; all of them at once, in parallel, without a loop.

    # for k: for c: panel[k, c] = right[k, o * oc_bn + c]

    All at once they are cut along k: the loop over panels is cut before one that is not full.
    """
    panels, product = sch.get_sblock(PANELS), geometry.product
    if block is not None:
        sch.compute_at(panels, block, preserve_unit_loops=True)
    else:
        b, o, k, _ = sch.get_loops(panels)
        if geometry.tiles.is_filled and geometry.tiles.blocks > 1:
            cut_loop(sch, o)
        pieces, k = sch.split(k, [pieces_of(product, cpu), None], preserve_unit_iters=True)
        sch.reorder(b, pieces, o, k)
        steps.parallel_fused(sch, b, pieces)
    c = sch.get_loops(panels)[-1]
    if geometry.tiles.is_filled:
        cut_loop(sch, c)
    elif product.reads_right_along_rows or product.turns_right:
        steps.vectorize_lanes(sch, c, cpu.unit(product.types.weight))


def pieces_of(product: MatmulWorkload, cpu: Cpu) -> int:
    """Equal pieces of a right matrix that cores pack side by side: 1 where products are enough."""
    if cpu.cores == 1:
        return 1
    enough = math.ceil(MIN_PIECES * cpu.cores / product.batch)
    return next(count for count in factors(product.inner) if count >= min(enough, product.inner))


def place_turned(sch: Schedule, chunk: LoopRV | None, geometry: MatmulGeometry, cpu: Cpu) -> None:
    """Turn the right matrix as square tiles in registers, before its panels are packed.

    Panels could be packed from columns right away, but only element by element: the last panel is
    filled up, and a tile knows no test (Zen 5, 192 products of 49x32x49: 290 us that way).
    """
    turned = steps.find_block(sch, TURNED)
    if turned is None:
        return
    if chunk is not None:
        sch.compute_at(turned, chunk, preserve_unit_loops=True)
    *outside, k, _ = sch.get_loops(turned)
    product = geometry.product
    unit = cpu.unit(product.types.weight)
    side = side_of(min(product.inner, product.columns), product.types.weight, unit)
    if side is not None:
        mark(sch, outside if chunk is None else [], k, side, parallel=chunk is None)
    elif chunk is None:
        steps.parallel_fused(sch, *outside)
