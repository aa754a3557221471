"""Depthwise convolution of integers: one product multiplies two rows of the image.

Bytes that are widened one by one take three instructions for each tap (load, product, sum). Words
of two rows halve that, and ``vpmaddwd`` reads them from memory itself. A chunk's rows become words
in a copy, in L1 as a rule: a load and a shift for each row and column, whatever the kernel is.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.template import ACCUMULATE, STORE, schedule_tiles
from tvm_neocpu.topi.conv2d_depthwise_rows.geometry import (
    ROWS,
    RowsConfig,
    RowsGeometry,
)
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, dot
from tvm_neocpu.topi.schedule.pad import inside_or, place_padding

COPY = "depthwise_words"
# Where the second row stands in a word.
UPPER = 16


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: RowsConfig
) -> te.Tensor:
    """``data``: (N, C/x, H, W, x), ``weight`` of :func:`pack_weight` -> (N, C/x, OH, OW, x)."""
    geometry = RowsGeometry(conv, config)
    words, phases = _words(data, geometry), geometry.phases
    kh = te.reduce_axis((0, geometry.taps), name="kh")
    kw = te.reduce_axis((0, conv.kernel[1]), name="kw")

    def tap(n, o, y, x, c):
        col = x * conv.stride[1] + kw * conv.dilation[1]
        filters = weight[o, y % phases, kh, kw, 0, c]
        return dot((words[n, o, y // phases + kh, col, c], filters))

    acc = te.compute(
        (conv.batch, geometry.blocks, geometry.rows, geometry.columns, config.oc_bn),
        lambda *index: te.sum(tap(*index), axis=[kh, kw]),
        name=ACCUMULATE,
        attrs=anchor_attrs(conv, config),
    )
    out_shape = (conv.batch, geometry.blocks, conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, lambda *i: acc(*i).astype(conv.types.output), name=STORE)


def _words(data: te.Tensor, geometry: RowsGeometry) -> te.Tensor:
    """(N, C/x, rows of words, columns, x): rows 2 r and 2 r + 1 of the padded image."""
    conv = geometry.conv
    top, left, _, _ = conv.padding
    rows, cols = geometry.words_extent
    image, whole = (conv.height, conv.width), (ROWS * rows, cols)

    def row(n, b, y, x, c):
        pixel = data(n, b, y - top, x - left, c).astype(WORD_TYPE)
        return inside_or((y, x), (top, left), image, whole, pixel, conv.pad_value)

    def word(n, b, r, x, c):
        first, second = (row(n, b, ROWS * r + at, x, c) for at in range(ROWS))
        return first | (second << tirx.const(UPPER, WORD_TYPE))

    shape = (conv.batch, geometry.blocks, rows, cols, geometry.config.oc_bn)
    return te.compute(shape, word, name=COPY)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """# parallel for n_o_yb: words; for yo, xo, part: for kh, kw: tile of xi, yi, c in registers.

    Rows of a tile share its words, so that they are next to each other.
    """
    geometry = RowsGeometry(anchor.workload, anchor.config)
    output, chunk = schedule_tiles(sch, anchor, geometry, cpu, rows_first=False)
    place_padding(sch, COPY, chunk, cpu.unit(WORD_TYPE))
    return output


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: RowsConfig) -> np.ndarray:
    """(K, 1, R, S) -> words (K/x, phases, taps, S, 1, x): rows of the kernel in pairs."""
    geometry = RowsGeometry(conv, config)
    channels, _, height, width = weight.shape
    blocks, phases, taps = geometry.packed_shape[:3]
    rows = np.zeros((phases, ROWS * taps, channels, width), "int16")
    for phase in range(phases):
        rows[phase, phase : phase + height] = weight[:, 0].transpose(1, 0, 2)
    pairs = rows.reshape(phases, taps, ROWS, blocks, config.oc_bn, width)
    words = np.ascontiguousarray(pairs.transpose(3, 0, 1, 5, 4, 2)).view(WORD_TYPE)
    return words.reshape(geometry.packed_shape)


def packed_shape(conv: ConvWorkload, config: RowsConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return RowsGeometry(conv, config).packed_shape
