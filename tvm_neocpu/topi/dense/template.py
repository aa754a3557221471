"""Dense layers with weights packed at compile time: Y[b, o] = sum_k X[b, k] * W[o // x, k, o % x].

At batch 1 the weights are read once and decide the time, so the loop streams them in order over
every core; larger batches hold ``reg_n`` rows of the batch in registers to read them less often.
"""

from __future__ import annotations

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.config import DenseConfig
from tvm_neocpu.core.layout import largest_factor
from tvm_neocpu.core.workload import DenseWorkload
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.schedule import steps

ACCUMULATE, STORE = "dense_acc", "dense_store"


def compute(
    data: te.Tensor, weight: te.Tensor, dense: DenseWorkload, config: DenseConfig
) -> te.Tensor:
    """``data``: (B, K); ``weight``: (ceil(O/x), K, x), see :func:`pack_weight`; returns (B, O)."""
    k = te.reduce_axis((0, dense.in_features), name="k")
    blocks = out_blocks(dense, config)
    acc = te.compute(
        (dense.batch, blocks, config.oc_bn),
        lambda b, o, c: te.sum(data[b, k] * weight[o, k, c], axis=[k]),
        name=ACCUMULATE,
        attrs=anchor_attrs(dense, config),
    )
    return te.compute(
        (dense.batch, dense.out_features),
        lambda b, o: acc[b, o // config.oc_bn, o % config.oc_bn],
        name=STORE,
    )


def schedule(sch: Schedule, anchor: Anchor) -> SBlockRV:
    """# parallel for o: for bo: for ko: (ki unrolled): tile of bi, c in registers; epilogue."""
    acc, dense, config = anchor.block, anchor.workload, anchor.config
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    b, o, c, k = sch.get_loops(acc)
    bo, bi = steps.split_off(sch, b, largest_factor(dense.batch, config.reg_n))
    ko, ki = steps.split_off(sch, k, largest_factor(dense.in_features, config.unroll_k))
    sch.reorder(o, bo, ko, ki, bi, c)
    steps.unroll_all(sch, ki, bi)
    steps.vectorize_lanes(sch, c)
    steps.parallel_fused(sch, o)
    zero = sch.decompose_reduction(acc, ko)
    steps.unroll_and_vectorize(sch, zero, pixels=1)
    steps.parallel_and_vectorize(sch, output)
    return output


def pack_weight(weight: np.ndarray, dense: DenseWorkload, config: DenseConfig) -> np.ndarray:
    """(K, O), as ``matmul`` takes it, -> (ceil(O/x), K, x), zeros behind the last output."""
    in_features, out_features = weight.shape
    blocks = out_blocks(dense, config)
    spare = blocks * config.oc_bn - out_features
    padded = np.pad(weight, ((0, 0), (0, spare))) if spare else weight
    blocked = padded.reshape(in_features, blocks, config.oc_bn)
    return np.ascontiguousarray(blocked.transpose(1, 0, 2))


def packed_shape(dense: DenseWorkload, config: DenseConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return (out_blocks(dense, config), dense.in_features, config.oc_bn)


def out_blocks(dense: DenseWorkload, config: DenseConfig) -> int:
    """Blocks of outputs; the last one is padded where ``oc_bn`` does not divide them."""
    return -(-dense.out_features // config.oc_bn)
