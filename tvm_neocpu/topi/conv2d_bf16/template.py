"""Convolution in bf16 in NCHW[x]c: the direct template's loops over words of two channels.

A chunk's rows are copied first: rounded to bf16, padded, filled up to whole words. Each step of the
reduction loads ``oc_bn`` words of weights once and multiplies them with broadcast words of pixels;
sums are fp32.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config, Bf16Geometry
from tvm_neocpu.topi.conv2d_direct.template import padded_in, schedule_tiles, summed
from tvm_neocpu.topi.conv2d_integer.template import COPY, place_copy
from tvm_neocpu.topi.math.bf16_products import bf16_dot, rounded_bits
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, word
from tvm_neocpu.topi.math.half_precision import as_packed
from tvm_neocpu.topi.schedule.pad import inside_or


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: Bf16Config
) -> te.Tensor:
    """The convolution over blocked tensors.

    ``data``: fp32 (N, C/ic_bn, H, W, ic_bn), or (N, C, H, W) when ``ic_bn == 0``.
    ``weight``: (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels) of :func:`pack_weight`.
    Returns fp32 (N, K/oc_bn, OH, OW, oc_bn).
    """
    image = _rounded(data, Bf16Geometry(conv, config))

    def product(pixel, filters):
        *place, q = pixel
        elements = (image(*place, q * config.dot + at) for at in range(config.dot))
        return bf16_dot(word(*elements), weight(*filters))

    return summed(product, Bf16Geometry(conv, config))


def _rounded(data: te.Tensor, geometry: Bf16Geometry) -> te.Tensor:
    """The image in words: (N, blocks, rows, columns, channels of whole words).

    What fills up the last word of a block is its last channel once more; its weights are zero.
    """
    conv, config = geometry.conv, geometry.config
    (top, left, bottom, right), (rows, cols) = conv.padding, geometry.padded_extent
    image, step = (conv.height, conv.width), (1, 1)
    if geometry.skips_pixels:
        image, step = (conv.out_height, conv.out_width), conv.stride
    whole = max(image[0] + top + bottom, rows), max(image[1] + left + right, cols)
    lanes = geometry.words * config.dot

    def copied(n, b, y, x, c):
        channel = tirx.min(c, geometry.ic_bn - 1) if lanes > geometry.ic_bn else c
        row, col = (y - top) * step[0], (x - left) * step[1]
        plain = config.ic_bn == 0
        pixel = data(n, channel, row, col) if plain else data(n, b, row, col, channel)
        return inside_or((y, x), (top, left), image, whole, rounded_bits(pixel), 0)

    blocks = conv.in_channels // geometry.ic_bn
    return te.compute((conv.batch, blocks, *whole, lanes), copied, name=COPY)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = Bf16Geometry(anchor.workload, anchor.config)
    output, chunk = schedule_tiles(sch, anchor, geometry, cpu)
    place_copy(sch, padded_in(sch, anchor.block, chunk, geometry), geometry, cpu)
    return output


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: Bf16Config) -> np.ndarray:
    """(K, C/groups, R, S) -> words (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels).

    Channels that only fill a vector or a word are zero.
    """
    geometry = Bf16Geometry(conv, config)
    ic_bn, (height, width) = geometry.ic_bn, conv.kernel
    elements = np.zeros((*geometry.packed_shape, config.dot), geometry.data_type)
    blocked = as_packed(weight).reshape(
        geometry.out_blocks, config.oc_bn, geometry.in_blocks, ic_bn, height, width
    )
    filling = [(0, 0)] * 3 + [(0, geometry.words * config.dot - ic_bn)] + [(0, 0)] * 2
    filled = np.pad(blocked, filling)
    words = filled.reshape(*blocked.shape[:3], geometry.words, config.dot, height, width)
    elements[..., : config.oc_bn, :] = words.transpose(0, 2, 5, 6, 3, 1, 4)
    return elements.view(WORD_TYPE)[..., 0]


def packed_shape(conv: ConvWorkload, config: Bf16Config) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return Bf16Geometry(conv, config).packed_shape
