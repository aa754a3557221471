"""Dense layers in bf16: a matrix product of words, data rounded as their rows are copied.

The loops are those of integers (:mod:`..dense_integer.template`); sums are fp32.
"""

from __future__ import annotations

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig, Bf16DenseGeometry
from tvm_neocpu.topi.dense_gemm.template import schedule_tiles, summed
from tvm_neocpu.topi.dense_integer.template import copied_words, panels_of_words
from tvm_neocpu.topi.math.bf16_products import bf16_dot, rounded_bits
from tvm_neocpu.topi.math.dot_products import word
from tvm_neocpu.topi.math.half_precision import BITS, as_packed


def compute(
    data: te.Tensor, weight: te.Tensor, dense: DenseWorkload, config: Bf16DenseConfig
) -> te.Tensor:
    """``data``: fp32 (..., K); ``weight``: (ceil(O/oc_bn), words, oc_bn) of :func:`pack_weight`.

    Returns fp32 (..., O).
    """
    geometry = Bf16DenseGeometry(dense, config)
    height, copy = geometry.tiles.height, copied_words(data, geometry, rounded_bits)

    def product(r, o, k, c):
        elements = (copy[r // height, r % height, k * config.dot + at] for at in range(config.dot))
        return bf16_dot(word(*elements), weight[o, k, c])

    return summed(product, [int(extent) for extent in data.shape[:-1]], geometry)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = Bf16DenseGeometry(anchor.workload, anchor.config)
    return schedule_tiles(sch, anchor, geometry, cpu)


def pack_weight(weight: np.ndarray, dense: DenseWorkload, config: Bf16DenseConfig) -> np.ndarray:
    """(K, O), as ``matmul`` takes it, -> words (ceil(O/oc_bn), words, oc_bn), zeros behind both."""
    return panels_of_words(as_packed(weight), Bf16DenseGeometry(dense, config), BITS)


def packed_shape(dense: DenseWorkload, config: Bf16DenseConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return Bf16DenseGeometry(dense, config).packed_shape
