"""Winograd's weights, transformed and packed at compile time."""

from __future__ import annotations

import numpy as np

from tvm_neocpu.core.network.weight_transform import WeightTransform, as_floats
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd import phases
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.math.half_precision import as_packed


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: WinogradConfig) -> np.ndarray:
    """(K, C, KH, KW) -> G g G^T as (K/y, a, b, C/x, x, y), computed in double precision."""
    geometry = WinogradGeometry(conv, config)
    taps = phases.split_taps(weight, conv) if geometry.tiled.plain else weight
    down, across = (as_floats(matrices.g) for matrices in geometry.tiled.matrices)
    out_blocks, a, b, in_blocks, ic_bn, oc_bn = geometry.packed_shape
    blocks = (a, b, out_blocks, oc_bn, in_blocks, ic_bn)
    kind = str(weight.dtype)
    transform = WeightTransform(down, across, kind, blocks, (2, 0, 1, 4, 5, 3), kind)
    return as_packed(transform.packed(taps.reshape(-1, transform.taps)))


def packed_shape(conv: ConvWorkload, config: WinogradConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return WinogradGeometry(conv, config).packed_shape
