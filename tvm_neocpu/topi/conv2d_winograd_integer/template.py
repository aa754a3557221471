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

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd import phases
from tvm_neocpu.topi.conv2d_winograd.template import (
    PRODUCT,
    STORE,
    schedule_parts,
    transform_input,
    transform_output,
)
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
    ico = te.reduce_axis((0, geometry.in_blocks), name="ico")
    ici = te.reduce_axis((0, geometry.inner_steps), name="ici")

    def factors(n, u, v, ty, tx):
        first = ici * WORD
        return word(*(packed[n, u, v, ico, ty, tx, first + at] for at in range(WORD)))

    product = te.compute(
        geometry.product_shape,
        lambda n, o, u, v, ty, tx, c: te.sum(
            dot((factors(n, u, v, ty, tx), weight[o, u, v, ico, ici, c])), axis=[ico, ici]
        ),
        name=PRODUCT,
        attrs=anchor_attrs(conv, config),
    )
    inverse, divisor = transform_output(product, geometry), geometry.tiled.divisor
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
    down, across = (np.array(m.g, dtype=np.float64) for m in geometry.tiled.matrices)
    if geometry.tiled.plain:
        lanes = geometry.ic_bn - geometry.in_channels
        weight = np.pad(phases.split_taps(weight, conv), [(0, 0), (0, lanes), (0, 0), (0, 0)])
    taps = weight.astype(np.float64).reshape(-1, down.shape[1] * across.shape[1])
    # Doubles hold these integers exactly, and are multiplied faster than integers.
    transformed = (np.kron(down, across) @ taps.T).astype(FACTOR_TYPE)
    out_blocks, a, b, in_blocks, words, oc_bn = geometry.packed_shape
    blocked = transformed.reshape(a, b, out_blocks, oc_bn, in_blocks, words, WORD)
    elements = np.ascontiguousarray(blocked.transpose(2, 0, 1, 4, 5, 3, 6))
    return elements.view(WORD_TYPE)[..., 0]


def packed_shape(conv: ConvWorkload, config: IntegerWinogradConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns, in words."""
    return IntegerWinogradGeometry(conv, config).packed_shape
