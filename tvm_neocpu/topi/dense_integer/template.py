"""Integer dense layers: a matrix product of words, weights packed at compile time.

The loops are those of fp32 layers of many rows (:mod:`..dense_gemm.template`); one row is a tile of
one. Sums are 32 bits wide and exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d_integer.geometry import WEIGHT_TYPES
from tvm_neocpu.topi.conv2d_integer.template import corrected, shifted
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.template import ROWS, schedule_tiles, summed
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseConfig, IntegerDenseGeometry
from tvm_neocpu.topi.gemm.schedule import copied_rows, unflat_index
from tvm_neocpu.topi.gemm.tiles import packed_panels
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, dot, word


def compute(
    data: te.Tensor, weight: te.Tensor, dense: DenseWorkload, config: IntegerDenseConfig
) -> te.Tensor:
    """``data``: (..., K); ``weight``: (ceil(O/oc_bn), words, oc_bn) of :func:`pack_weight`.

    Returns (..., O). What fills up the last word of a row is its last element once more.
    """
    geometry = IntegerDenseGeometry(dense, config)
    tiles, outside = geometry.tiles, [int(extent) for extent in data.shape[:-1]]

    def element(value):
        return shifted(value) if config.signed else value.astype(geometry.data_type)

    copy = copied_words(data, geometry, element) if geometry.copies else None

    def place(row, feature):
        if copy is None:
            return data(*unflat_index(row, outside), feature)
        return copy[row // tiles.height, row % tiles.height, feature]

    def product(r, o, k, c):
        elements = (place(r, k * config.dot + at) for at in range(config.dot))
        return dot((word(*elements), weight[o, k, c]))

    if not config.signed:
        return summed(product, outside, geometry)
    corrections = geometry.corrections
    return summed(product, outside, geometry, lambda o, c: weight(*corrections.row(o), c))


def copied_words(
    data: te.Tensor, geometry: IntegerDenseGeometry, element: Callable[..., tirx.Expr]
) -> te.Tensor:
    """Rows of whole words; ``element`` converts a number of ``data`` to a word's element."""
    inside, features = geometry.dense.in_features, geometry.words * geometry.config.dot
    outside = [int(extent) for extent in data.shape[:-1]]

    def copied(row, feature):
        if features > inside:
            feature = tirx.min(feature, inside - 1)
        return element(data(*unflat_index(row, outside), feature))

    return copied_rows(copied, (), replace(geometry.tiles, inner=features), ROWS)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = IntegerDenseGeometry(anchor.workload, anchor.config)
    return schedule_tiles(sch, anchor, geometry, cpu)


def pack_weight(weight: np.ndarray, dense: DenseWorkload, config: IntegerDenseConfig) -> np.ndarray:
    """(K, O), as ``matmul`` takes it, -> words (ceil(O/oc_bn), words, oc_bn), zeros behind both.

    Corrections stand behind signed data's.
    """
    geometry, kind = IntegerDenseGeometry(dense, config), WEIGHT_TYPES[config.dot]
    return corrected(panels_of_words(weight, geometry, kind), kind, geometry.corrections)


def panels_of_words(weight: np.ndarray, geometry: IntegerDenseGeometry, kind: str) -> np.ndarray:
    """The packed weight without corrections, whose words consist of elements of type ``kind``."""
    words, config = geometry.words, geometry.config
    filling = words * config.dot - geometry.dense.in_features
    filled = np.pad(weight.astype(kind), ((0, filling), (0, 0)))
    split = filled.reshape(words, config.dot, -1).transpose(0, 2, 1)
    return packed_panels(np.ascontiguousarray(split).view(WORD_TYPE)[..., 0], config.oc_bn)


def packed_shape(dense: DenseWorkload, config: IntegerDenseConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return IntegerDenseGeometry(dense, config).packed_shape
