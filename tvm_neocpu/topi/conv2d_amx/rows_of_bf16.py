"""First convolutions in bf16, whose kernel's rows are runs of the image, as words of two.

Only tiles take them so: of 7x7x3, 11 words a row are one row of a tile, where ``vdpbf16ps`` over
11 words is slower than fp32's Winograd.
"""

from __future__ import annotations

import numpy as np
from tvm import te

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import Bf16RowsConfig, Bf16RowsGeometry
from tvm_neocpu.topi.conv2d_direct.template import summed
from tvm_neocpu.topi.conv2d_integer.template import Weight
from tvm_neocpu.topi.conv2d_integer_rows.template import (
    copied_in_rows,
    rows_of_words,
    word_of_row,
)
from tvm_neocpu.topi.math.bf16_products import bf16_dot, rounded_bits
from tvm_neocpu.topi.math.half_precision import BITS, as_packed


def computed(data: te.Tensor, weight: Weight, geometry: Bf16RowsGeometry) -> te.Tensor:
    """``data``: fp32 (N, C, H, W); ``weight``: (K/oc_bn, 1, R, 1, words, tile_channels).

    Returns fp32 (N, K/oc_bn, OH, OW, oc_bn).
    """
    image = copied_in_rows(data, geometry, rounded_bits, outside=0)
    return summed(
        lambda pixel, filters: bf16_dot(word_of_row(image, pixel, geometry), weight(*filters)),
        geometry,
    )


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: Bf16RowsConfig) -> np.ndarray:
    """(K, C, R, S) -> words (K/oc_bn, 1, R, 1, words, tile_channels), filled up with zeros."""
    return rows_of_words(as_packed(weight), Bf16RowsGeometry(conv, config), BITS)


def packed_shape(conv: ConvWorkload, config: Bf16RowsConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return Bf16RowsGeometry(conv, config).packed_shape
