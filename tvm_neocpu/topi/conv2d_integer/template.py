"""Integer convolution in NCHW[x]c: the direct template's loops over words of channels.

Each step of the reduction loads ``oc_bn`` words of weights once and multiplies them with broadcast
words of pixels; the sums are 32 bits wide and exact. Where words are not what the image consists
of, a chunk's rows are copied first: widened to 16 bits, shifted to signed bytes, padded by the zero
point, filled up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import SIGNED_BYTES
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.template import padded_in, schedule_tiles, summed
from tvm_neocpu.topi.conv2d_integer.geometry import (
    CENTRE,
    WEIGHT_TYPES,
    Corrections,
    IntegerConfig,
    IntegerGeometry,
)
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, dot, word
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import inside_or, place_padding
from tvm_neocpu.topi.tir.functions.cut_loops import cut_loop

COPY = "conv2d_words"
# The packed weight, or what finds its elements.
Weight: TypeAlias = Callable[..., tirx.Expr]


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: IntegerConfig
) -> te.Tensor:
    """The convolution over blocked tensors.

    ``data``: (N, C/ic_bn, H, W, ic_bn), or (N, C, H, W) when ``ic_bn == 0``.
    ``weight``: (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels) of :func:`pack_weight`.
    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    return computed(data, weight, IntegerGeometry(conv, config))


def computed(data: te.Tensor, weight: Weight, geometry: IntegerGeometry) -> te.Tensor:
    """The same of a geometry like this one's."""
    conv, config = geometry.conv, geometry.config

    def element(code):
        return shifted(code) if config.signed else code.astype(geometry.data_type)

    image = data
    if geometry.is_padded:
        image = copied_in_words(data, geometry, element, geometry.outside)

    def product(pixel, filters):
        *place, step = pixel
        *panel, _, c = filters

        def pair(q):
            elements = (image(*place, q * config.dot + at) for at in range(config.dot))
            return word(*elements), weight(*panel, q, c)

        pairs = (pair(step * config.words + at) for at in range(config.words))
        return dot(*pairs, weight_bits=conv.weight_bits)

    if not config.signed:
        return summed(product, geometry)
    return summed(product, geometry, lambda o, c: weight(*geometry.corrections.row(o), c))


def copied_in_words(
    data: te.Tensor, geometry: IntegerGeometry, element: Callable[..., tirx.Expr], outside: int
) -> te.Tensor:
    """The image in words: (N, blocks, rows, columns, channels of whole words).

    ``element`` converts a number of ``data`` to a word's element; ``outside`` is the padding's.
    What fills up the last word of a block is its last channel once more; its weights are zero.
    """
    conv, config = geometry.conv, geometry.config
    (top, left, _, _), whole = conv.padding, geometry.image_extent
    image, step = (conv.height, conv.width), (1, 1)
    if geometry.skips_pixels:
        image, step = (conv.out_height, conv.out_width), conv.stride
    lanes = geometry.words * config.dot

    def copied(n, b, y, x, c):
        channel = tirx.min(c, geometry.ic_bn - 1) if lanes > geometry.ic_bn else c
        row, col = (y - top) * step[0], (x - left) * step[1]
        plain = config.ic_bn == 0
        pixel = data(n, channel, row, col) if plain else data(n, b, row, col, channel)
        return inside_or((y, x), (top, left), image, whole, element(pixel), outside)

    blocks = conv.in_channels // geometry.ic_bn
    return te.compute((conv.batch, blocks, *whole, lanes), copied, name=COPY)


def shifted(byte: tirx.Expr) -> tirx.Expr:
    """A uint8 as the int8 that is smaller by :data:`CENTRE`: the highest bit turned over."""
    return tirx.reinterpret(SIGNED_BYTES, byte ^ tirx.const(CENTRE, "uint8"))


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = IntegerGeometry(anchor.workload, anchor.config)
    output, chunk = schedule_tiles(sch, anchor, geometry, cpu)
    place_copy(sch, padded_in(sch, anchor.block, chunk, geometry), geometry, cpu)
    return output


def place_copy(sch: Schedule, loop: LoopRV | None, geometry: IntegerGeometry, cpu: Cpu) -> None:
    """Inside the loop, what a pass of it reads; an image in plain NCHW is read plane by plane.

    # for x: for c: words[x, c] = data[c, x]  ->  for x: words[x, 0] = data[0, x]; words[x, 1] = ..
    """
    copy = steps.find_block(sch, COPY)
    if copy is None or geometry.config.ic_bn:
        place_padding(sch, COPY, loop, cpu.unit(geometry.data_type))
        return
    if loop is not None:
        sch.compute_at(copy, loop, preserve_unit_loops=True)
    else:
        steps.parallel_fused(sch, *sch.get_loops(copy)[:-2])
    *_, cols, channels = sch.get_loops(copy)
    cut_loop(sch, cols)
    steps.unroll_all(sch, channels)


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: IntegerConfig) -> np.ndarray:
    """(K, C/groups, R, S) -> words (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels).

    Channels that only fill a vector or a word are zero. Corrections stand behind signed data's.
    """
    geometry, kind = IntegerGeometry(conv, config), WEIGHT_TYPES[config.dot]
    return corrected(panels_of_words(weight, geometry, kind), kind, geometry.corrections)


def panels_of_words(weight: np.ndarray, geometry: IntegerGeometry, kind: str) -> np.ndarray:
    """The packed weight without corrections, whose words consist of elements of type ``kind``."""
    conv, config, ic_bn = geometry.conv, geometry.config, geometry.ic_bn
    height, width = conv.kernel
    panels = (geometry.out_blocks, *geometry.packed_shape[1:], config.dot)
    elements = np.zeros(panels, kind)
    blocked = weight.reshape(
        geometry.out_blocks, config.oc_bn, geometry.in_blocks, ic_bn, height, width
    )
    filling = [(0, 0)] * 3 + [(0, geometry.words * config.dot - ic_bn)] + [(0, 0)] * 2
    filled = np.pad(blocked, filling)
    words = filled.reshape(*blocked.shape[:3], geometry.words, config.dot, height, width)
    elements[..., : config.oc_bn, :] = words.transpose(0, 2, 5, 6, 3, 1, 4)
    return elements.view(WORD_TYPE)[..., 0]


def corrected(words: np.ndarray, kind: str, corrections: Corrections) -> np.ndarray:
    """Panels of words (blocks, .., lanes), whose elements are of type ``kind``, and corrections."""
    if not corrections.exist:
        return words
    elements = words[..., None].view(kind)
    sums = elements.sum(axis=(*range(1, elements.ndim - 2), elements.ndim - 1), dtype=WORD_TYPE)
    behind = np.zeros((corrections.panels, *words.shape[1:]), WORD_TYPE)
    behind.reshape(-1, words.shape[-1])[: len(sums)] = CENTRE * sums
    return np.concatenate([words, behind])


def packed_shape(conv: ConvWorkload, config: IntegerConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return IntegerGeometry(conv, config).packed_shape
