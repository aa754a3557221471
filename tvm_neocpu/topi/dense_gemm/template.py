"""Dense layers of many rows: a matrix product in register tiles, weights packed at compile time.

The rows are all axes of the data but the last one, so that linear layers over sequences (N, T, K)
and over NHWC images are read and written as they lie. Loops: :mod:`..gemm.schedule`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig, GemmGeometry
from tvm_neocpu.topi.gemm.schedule import (
    copied_rows,
    flatten_output,
    place_copied_rows,
    rows_as_stored,
    split_rows,
    store_tile,
    unflat_index,
)
from tvm_neocpu.topi.gemm.tiles import packed_panels
from tvm_neocpu.topi.math.half_precision import as_packed, widened
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.functions.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import prefetch_next_panel

ROWS, ACCUMULATE, STORE = "gemm_rows", "gemm_acc", "gemm_store"


def compute(
    data: te.Tensor, weight: te.Tensor, dense: DenseWorkload, config: GemmConfig
) -> te.Tensor:
    """``data``: (..., K); ``weight``: (ceil(O/oc_bn), K, oc_bn) of :func:`pack_weight`.

    Returns (..., O).
    """
    geometry, types = GemmGeometry(dense, config), dense.types
    tiles, outside = geometry.tiles, [int(extent) for extent in data.shape[:-1]]

    def element(row, k):
        return data(*unflat_index(row, outside), k)

    copy = copied_rows(element, (), tiles, ROWS) if geometry.copies else None

    def product(r, o, k, c):
        value = element(r, k) if copy is None else copy[r // tiles.height, r % tiles.height, k]
        return value.astype(types.accumulator) * widened(weight(o, k, c), types.accumulator)

    return summed(product, outside, geometry)


def summed(
    product: Callable[..., tirx.Expr],
    outside: Sequence[int],
    geometry: GemmGeometry,
    correction: Callable[..., tirx.Expr] | None = None,
) -> te.Tensor:
    """What ``product`` makes of (row, block, step, column), summed over the steps of a row.

    ``correction`` of (block, column) is added. Returns (*outside, O).
    """
    dense, tiles = geometry.dense, geometry.tiles
    k = te.reduce_axis((0, tiles.inner), name="k")
    acc = te.compute(
        (tiles.computed_rows, tiles.blocks, geometry.config.oc_bn),
        lambda r, o, c: te.sum(product(r, o, k, c), axis=[k]),
        name=ACCUMULATE,
        attrs=anchor_attrs(dense, geometry.config),
    )
    output = dense.types.output
    return rows_as_stored(acc, outside, dense.out_features, output, STORE, correction)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    return schedule_tiles(sch, anchor, GemmGeometry(anchor.workload, anchor.config), cpu)


def schedule_tiles(sch: Schedule, anchor: Anchor, geometry: GemmGeometry, cpu: Cpu) -> SBlockRV:
    """The same for a geometry like this one's."""
    acc, types = anchor.block, anchor.workload.types
    tiles, config = geometry.tiles, geometry.config
    unit = cpu.unit(types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    flatten_output(sch, output)
    r, o, c, k = sch.get_loops(acc)
    q, t, one, i = split_rows(sch, r, tiles)
    order = (o, q) if config.parallel_oc else (q, o)
    sch.reorder(*order, t, k, one, i, c)
    chunk = steps.parallel_fused(sch, *order[: 1 + config.parallel_oc])
    store_tile(sch, output, t, chunk if config.parallel_oc else o, tiles, unit)
    prefetch_next_panel(sch, k)
    keep_rolled(sch, k, tiles.height, unit.registers_of(tiles.oc_bn), unit)
    steps.hold_tile_in_registers(sch, acc, k, unit)
    place_copied_rows(sch, ROWS, None if config.parallel_oc else chunk, cpu.unit(types.data))
    return output


def pack_weight(weight: np.ndarray, dense: DenseWorkload, config: GemmConfig) -> np.ndarray:
    """(K, O), as ``matmul`` takes it, -> (ceil(O/oc_bn), K, oc_bn); zeros fill the last block."""
    return packed_panels(as_packed(weight), config.oc_bn)


def packed_shape(dense: DenseWorkload, config: GemmConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return GemmGeometry(dense, config).packed_shape
