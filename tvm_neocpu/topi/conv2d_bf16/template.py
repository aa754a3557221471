"""Convolution in bf16 in NCHW[x]c: the direct template's loops over words of two channels.

A chunk's rows are copied first: rounded to bf16, padded, filled up to whole words; data that are
bf16 already and need no padding are read as they are, unless a prologue computes them. Each step of
the reduction loads ``oc_bn`` words of weights once and multiplies them with broadcast words of
pixels; sums are fp32.
"""

from __future__ import annotations

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config, Bf16Geometry
from tvm_neocpu.topi.conv2d_direct.template import padded_in, schedule_tiles, summed
from tvm_neocpu.topi.conv2d_integer.template import (
    Weight,
    copied_in_words,
    panels_of_words,
    place_copy,
)
from tvm_neocpu.topi.math.bf16_products import bf16_dot, rounded_bits
from tvm_neocpu.topi.math.dot_products import word
from tvm_neocpu.topi.math.half_precision import BITS, as_packed
from tvm_neocpu.topi.schedule.prologue import is_computed


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: Bf16Config
) -> te.Tensor:
    """The convolution over blocked tensors.

    ``data``: fp32 or the bits of bf16 (N, C/ic_bn, H, W, ic_bn), or fp32 (N, C, H, W) when
    ``ic_bn == 0``.
    ``weight``: (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels) of :func:`pack_weight`.
    Returns fp32 (N, K/oc_bn, OH, OW, oc_bn).
    """
    return computed(data, weight, Bf16Geometry(conv, config))


def computed(data: te.Tensor, weight: Weight, geometry: Bf16Geometry) -> te.Tensor:
    """The same of a geometry like this one's."""
    config = geometry.config
    element = (lambda bits: bits) if geometry.reads_bf16 else rounded_bits
    image = data
    # What a prologue computes is read as words: it has to lie in memory.
    if geometry.is_padded or is_computed(data):
        image = copied_in_words(data, geometry, element, outside=0)

    def product(pixel, filters):
        *place, q = pixel
        elements = (image(*place, q * config.dot + at) for at in range(config.dot))
        return bf16_dot(word(*elements), weight(*filters))

    return summed(product, geometry)


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
    return panels_of_words(as_packed(weight), Bf16Geometry(conv, config), BITS)


def packed_shape(conv: ConvWorkload, config: Bf16Config) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return Bf16Geometry(conv, config).packed_shape
