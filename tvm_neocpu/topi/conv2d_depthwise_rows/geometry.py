"""What a config means for a depthwise convolution whose words hold two rows of the image.

    word[r, x, c] = (row 2 r, row 2 r + 1) at column x, channel c, 16 bits each

A kernel of 3 rows reads 2 words of a column. Output rows that begin in the second half of a word
need weights that are shifted by a row: these are the *phases* of the packed weight.

    phase 0: (w0, w1), (w2, 0)        phase 1: (0, w0), (w1, w2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.core.machine.dot import WORD_BYTES
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise import geometry as depthwise
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig, DepthwiseGeometry

# Rows of the image in a word.
ROWS = 2


@dataclass(frozen=True, order=True)
class RowsConfig(DepthwiseConfig):
    """The depthwise template's schedule tuple; ``reg_m`` is a multiple of the phases."""

    template: ClassVar[str] = "depthwise_conv2d_NCHWc_int"


def phases_of(conv: ConvWorkload) -> int:
    """In how many places of a word output rows begin."""
    return ROWS if conv.stride[0] == 1 else 1


@dataclass(frozen=True)
class RowsGeometry(DepthwiseGeometry):
    """The extents that template, space and cost share."""

    config: RowsConfig

    @property
    def phases(self) -> int:
        """See :func:`phases_of`."""
        return phases_of(self.conv)

    @property
    def taps(self) -> int:
        """Words of a column that an output reads, of any phase."""
        return math.ceil((self.conv.kernel[0] + self.phases - 1) / ROWS)

    def word_rows(self, out_rows: int) -> int:
        """Rows of words that so many output rows read, which begin with a word."""
        return (out_rows // self.phases - 1) + self.taps

    @property
    def words_extent(self) -> tuple[int, int]:
        """Rows and columns of words that the computed outputs read."""
        return self.word_rows(self.rows), self.padded_extent[1]

    @property
    def chunk_bytes(self) -> int:
        """Words of a chunk."""
        rows = self.word_rows(self.config.reg_m * self.chunk_rows)
        return WORD_BYTES * self.config.oc_bn * rows * self.words_extent[1]

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight, in words: (K/oc_bn, phases, taps, S, 1, oc_bn)."""
        return (
            self.blocks,
            self.phases,
            self.taps,
            self.conv.kernel[1],
            1,
            self.config.oc_bn,
        )


def misfit(conv: ConvWorkload, config: RowsConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    reason = depthwise.misfit(conv, config)
    if reason is None and config.reg_m % phases_of(conv):
        return f"its tiles of {config.reg_m} rows end within a word"
    return reason
