"""Integer convolution of a plain image, whose kernel's rows are runs of bytes.

    for ky, q in (7, 6):                             # q: words of a row of 7 x 3 bytes
        acc[x, c] += dot(image[ky, 6 x + 4 q ..], weight[ky, q, c])    # stride 2

The image is copied with its channels innermost and none between them. A word may begin at any
byte, and its four bytes may belong to two pixels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.template import padded_in, schedule_tiles, summed
from tvm_neocpu.topi.conv2d_integer.geometry import WEIGHT_TYPES
from tvm_neocpu.topi.conv2d_integer.template import Weight
from tvm_neocpu.topi.conv2d_integer_rows.geometry import (
    ELEMENTS,
    ImageRowsConfig,
    ImageRowsGeometry,
)
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, dot, word
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import inside_or
from tvm_neocpu.topi.tir.functions.cut_loops import cut_loop

COPY = "conv2d_rows"


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: ImageRowsConfig
) -> te.Tensor:
    """``data``: (N, C, H, W); ``weight``: (K/oc_bn, 1, R, 1, words, tile_channels).

    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    return computed(data, weight, ImageRowsGeometry(conv, config))


def computed(data: te.Tensor, weight: Weight, geometry: ImageRowsGeometry) -> te.Tensor:
    """The same of a geometry like this one's."""
    conv = geometry.conv
    image = copied_in_rows(data, geometry, lambda byte: byte, conv.pad_value)

    def product(pixel, filters):
        words = word_of_row(image, pixel, geometry), weight(*filters)
        return dot(words, weight_bits=conv.weight_bits)

    return summed(product, geometry)


def word_of_row(
    image: te.Tensor, pixel: tuple[tirx.Expr, ...], geometry: ImageRowsGeometry
) -> tirx.Expr:
    """The word of the copied image at (n, block, row, column, step) of :func:`.summed`."""
    n, _, row, col, step = pixel
    elements = geometry.config.dot
    first = col * geometry.conv.in_channels + step * elements
    return word(*(image(n, row, first + at) for at in range(elements)))


def copied_in_rows(
    data: te.Tensor, geometry: ImageRowsGeometry, element: Callable[..., tirx.Expr], outside: int
) -> te.Tensor:
    """The image as (N, rows, columns x channels), padded by ``outside``.

    ``element`` converts a number of ``data`` to a word's element.
    """
    conv, channels = geometry.conv, geometry.conv.in_channels
    top, left, _, _ = conv.padding
    rows, cols = geometry.image_extent

    def copied(n, y, place):
        x, c = place // channels, place % channels
        pixel = element(data(n, c, y - top, x - left))
        inside = (conv.height, conv.width)
        return inside_or((y, x), (top, left), inside, (rows, cols), pixel, outside)

    return te.compute((conv.batch, rows, cols * channels), copied, name=COPY)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = ImageRowsGeometry(anchor.workload, anchor.config)
    output, chunk = schedule_tiles(sch, anchor, geometry, cpu)
    place_rows(sch, padded_in(sch, anchor.block, chunk, geometry), geometry)
    return output


def place_rows(sch: Schedule, loop: LoopRV | None, geometry: ImageRowsGeometry) -> None:
    """Inside the loop, what a pass of it reads, plane by plane.

    # for i: rows[i] = data[i % 3, i // 3]  ->  for x: rows[3 x] = data[0, x]; rows[3 x + 1] = ..
    """
    copy = steps.find_block(sch, COPY)
    if loop is not None:
        sch.compute_at(copy, loop, preserve_unit_loops=True)
    else:
        steps.parallel_fused(sch, *sch.get_loops(copy)[:-1])
    cols, channels = steps.split_off(sch, sch.get_loops(copy)[-1], geometry.conv.in_channels)
    cut_loop(sch, cols)
    steps.unroll_all(sch, channels)


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: ImageRowsConfig) -> np.ndarray:
    """(K, C, R, S) -> words (K/oc_bn, 1, R, 1, words, tile_channels).

    Channels that only fill a vector and elements that only fill a word are zero.
    """
    return rows_of_words(weight, ImageRowsGeometry(conv, config), WEIGHT_TYPES[ELEMENTS])


def rows_of_words(weight: np.ndarray, geometry: ImageRowsGeometry, kind: str) -> np.ndarray:
    """The packed weight, whose words consist of elements of type ``kind``."""
    conv, config, size = geometry.conv, geometry.config, geometry.config.dot
    elements = np.zeros((*geometry.packed_shape, size), kind)
    rows = weight.transpose(0, 2, 3, 1).reshape(conv.out_channels, conv.kernel[0], -1)
    filled = np.pad(rows, [(0, 0), (0, 0), (0, geometry.words * size - rows.shape[-1])])
    blocks = geometry.out_blocks, config.oc_bn, conv.kernel[0], geometry.words, size
    elements[:, 0, :, 0, :, : config.oc_bn] = filled.reshape(blocks).transpose(0, 2, 3, 1, 4)
    return elements.view(WORD_TYPE)[..., 0]


def packed_shape(conv: ConvWorkload, config: ImageRowsConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return ImageRowsGeometry(conv, config).packed_shape
