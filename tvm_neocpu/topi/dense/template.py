"""Dense layers with weights packed at compile time: Y[b, o] = sum_k X[b, k] * W[o // x, k, o % x].

At batch 1 the weights are read once and decide the time, so the loop streams them in order over
every core, out of ``streams`` blocks at once: several pages keep more requests on their way than
one. Larger batches hold ``reg_n`` rows of the batch in registers to read them less often.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.dense.geometry import DenseConfig, DenseGeometry
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.gemm.schedule import rows_as_stored, unflat_index
from tvm_neocpu.topi.gemm.tiles import packed_panels
from tvm_neocpu.topi.math.half_precision import as_packed, widened
from tvm_neocpu.topi.schedule import steps

ACCUMULATE, STORE = "dense_acc", "dense_store"


def compute(
    data: te.Tensor, weight: te.Tensor, dense: DenseWorkload, config: DenseConfig
) -> te.Tensor:
    """``data``: (..., K); ``weight``: (ceil(O/x), K, x), see :func:`pack_weight`.

    Returns (..., O). All axes of the data but the last one are the batch. Rows of the last tile
    that overhang it repeat its last row.
    """
    geometry, types = DenseGeometry(dense, config), dense.types
    outside = [int(extent) for extent in data.shape[:-1]]
    k = te.reduce_axis((0, dense.in_features), name="k")

    def product(b, o, c):
        row = tirx.min(b, dense.batch - 1) if geometry.rows > dense.batch else b
        value = data(*unflat_index(row, outside), k)
        return value.astype(types.accumulator) * widened(weight(o, k, c), types.accumulator)

    acc = te.compute(
        (geometry.rows, geometry.out_blocks, config.oc_bn),
        lambda *index: te.sum(product(*index), axis=[k]),
        name=ACCUMULATE,
        attrs=anchor_attrs(dense, config),
    )

    return rows_as_stored(acc, outside, dense.out_features, types.output, STORE)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """# parallel for oo: for bo: for ko: (ki unrolled): oi, bi, c in registers; epilogue."""
    acc, geometry = anchor.block, DenseGeometry(anchor.workload, anchor.config)
    unit = cpu.unit(anchor.workload.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    b, o, c, k = sch.get_loops(acc)
    oo, oi = steps.split_off(sch, o, geometry.streams)
    bo, bi = steps.split_off(sch, b, geometry.reg_n)
    ko, ki = steps.split_off(sch, k, geometry.unroll_k)
    sch.reorder(oo, bo, ko, ki, oi, bi, c)
    steps.unroll_all(sch, ki, oi, bi)
    steps.vectorize_lanes(sch, c, unit)
    steps.parallel_fused(sch, oo)
    zero = sch.decompose_reduction(acc, ko)
    steps.unroll_and_vectorize(sch, zero, unit, pixels=2)
    steps.parallel_and_vectorize(sch, output, unit)
    return output


def pack_weight(weight: np.ndarray, dense: DenseWorkload, config: DenseConfig) -> np.ndarray:
    """(K, O), as ``matmul`` takes it, -> (ceil(O/x), K, x), zeros behind the last output."""
    return packed_panels(as_packed(weight), config.oc_bn)


def packed_shape(dense: DenseWorkload, config: DenseConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return DenseGeometry(dense, config).packed_shape
