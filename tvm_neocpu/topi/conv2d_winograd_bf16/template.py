"""Winograd convolution whose products are of bf16.

The fp32 template's four parts. Transforms are fp32; what they make of data is rounded as it is
stored, what they make of weights when these are packed. fp32 sums up the products of words of two
channels, and the inverse transform and the epilogue are fp32.

Relative error (root mean square, normal data and weights): F(2x2, 3x3) 4.0e-3, F(3x3, 3x3) 5.9e-3,
where a direct kernel that rounds both has 2.3e-3. F(4x4, 3x3) would have 1.1e-2.
"""

from __future__ import annotations

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.weight_transform import BF16, WeightTransform, as_floats
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd import phases
from tvm_neocpu.topi.conv2d_winograd.definition import STORE, transform_input, transformed
from tvm_neocpu.topi.conv2d_winograd.template import schedule_parts
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import Bf16WinogradConfig, Bf16WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import WORD
from tvm_neocpu.topi.math.bf16_products import bf16_dot, rounded_bits
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, word


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: Bf16WinogradConfig
) -> te.Tensor:
    """``data``: fp32 (N, C/x, H, W, x), or (N, C, H, W) when ``ic_bn == 0``.

    ``weight``: (K/y, a, b, C/x, x/2, y) words for a x b products a tile. Returns fp32
    (N, K/y, OH, OW, y).
    """
    geometry = Bf16WinogradGeometry(conv, config)
    packed = transform_input(data, geometry, rounded_bits)

    def product(tile, filters):
        *place, step = tile
        elements = (packed(*place, step * WORD + at) for at in range(WORD))
        return bf16_dot(word(*elements), weight(*filters))

    inverse = transformed(product, geometry)
    return te.compute(geometry.out_shape, lambda *index: inverse(*index), name=STORE)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = Bf16WinogradGeometry(anchor.workload, anchor.config)
    return schedule_parts(sch, anchor, cpu, geometry)


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: Bf16WinogradConfig) -> np.ndarray:
    """(K, C, KH, KW) -> G g G^T, rounded to bf16, in words (K/y, a, b, C/x, x/2, y)."""
    geometry = Bf16WinogradGeometry(conv, config)
    down, across = (as_floats(matrices.g) for matrices in geometry.tiled.matrices)
    taps = weight.astype("float32")
    if geometry.tiled.plain:
        lanes = geometry.ic_bn - geometry.in_channels
        taps = np.pad(phases.split_taps(taps, conv), [(0, 0), (0, lanes), (0, 0), (0, 0)])
    out_blocks, a, b, in_blocks, words, oc_bn = geometry.packed_shape
    blocks = (a, b, out_blocks, oc_bn, in_blocks, words, WORD)
    transform = WeightTransform(down, across, BF16, blocks, (2, 0, 1, 4, 5, 3, 6), WORD_TYPE)
    return transform.packed(taps.reshape(-1, transform.taps))


def packed_shape(conv: ConvWorkload, config: Bf16WinogradConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns, in words."""
    return Bf16WinogradGeometry(conv, config).packed_shape
