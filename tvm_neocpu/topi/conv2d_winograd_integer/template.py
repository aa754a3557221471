"""Winograd convolution of integers, bit for bit what the direct one computes.

The fp32 template's four parts: bytes are transformed to 16 bits, 32 bits sum up the products of
words of two channels, the inverse transform's results are divided without a remainder
(:mod:`.matrices`), and the epilogue requantises them.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.weight_transform import WeightTransform, as_floats
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd import phases
from tvm_neocpu.topi.conv2d_winograd.definition import STORE, transform_input, transformed
from tvm_neocpu.topi.conv2d_winograd.template import schedule_parts
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import (
    FACTOR_TYPE,
    WORD,
    IntegerWinogradConfig,
    IntegerWinogradGeometry,
)
from tvm_neocpu.topi.conv2d_winograd_integer.matrices import inverse_of, shift_of
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, dot, word


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: IntegerWinogradConfig
) -> te.Tensor:
    """``data``: uint8 (N, C/x, H, W, x), or (N, C, H, W) when ``ic_bn == 0``.

    ``weight``: (K/y, a, b, C/x, x/2, y) words for a x b products a tile. Returns int32
    (N, K/y, OH, OW, y).
    """
    geometry = IntegerWinogradGeometry(conv, config)
    packed = transform_input(data, geometry)

    def product(tile, filters):
        *place, step = tile
        elements = (packed(*place, step * WORD + at) for at in range(WORD))
        return dot((word(*elements), weight[filters]))

    inverse, divisor = transformed(product, geometry), geometry.tiled.divisor
    return te.compute(
        geometry.out_shape, lambda *index: _quotient(inverse(*index), divisor), name=STORE
    )


def _quotient(multiple: tirx.Expr, divisor: int) -> tirx.Expr:
    """A multiple modulo 2^32 of a divisor, divided: a product for the odd part, a shift."""
    factor = tirx.const(inverse_of(divisor), WORD_TYPE)
    odd = multiple if inverse_of(divisor) == 1 else multiple * factor
    return odd >> tirx.const(shift_of(divisor), WORD_TYPE) if shift_of(divisor) else odd


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = IntegerWinogradGeometry(anchor.workload, anchor.config)
    return schedule_parts(sch, anchor, cpu, geometry)


def pack_weight(
    weight: np.ndarray, conv: ConvWorkload, config: IntegerWinogradConfig
) -> np.ndarray:
    """(K, C, KH, KW) -> G g G^T in words (K/y, a, b, C/x, x/2, y)."""
    geometry = IntegerWinogradGeometry(conv, config)
    down, across = (as_floats(matrices.g) for matrices in geometry.tiled.matrices)
    if geometry.tiled.plain:
        lanes = geometry.ic_bn - geometry.in_channels
        weight = np.pad(phases.split_taps(weight, conv), [(0, 0), (0, lanes), (0, 0), (0, 0)])
    out_blocks, a, b, in_blocks, words, oc_bn = geometry.packed_shape
    blocks = (a, b, out_blocks, oc_bn, in_blocks, words, WORD)
    # Doubles hold these integers exactly, and are multiplied faster than integers.
    order = (2, 0, 1, 4, 5, 3, 6)
    transform = WeightTransform(down, across, FACTOR_TYPE, blocks, order, WORD_TYPE)
    return transform.packed(weight.reshape(-1, transform.taps))


def packed_shape(conv: ConvWorkload, config: IntegerWinogradConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns, in words."""
    return IntegerWinogradGeometry(conv, config).packed_shape
