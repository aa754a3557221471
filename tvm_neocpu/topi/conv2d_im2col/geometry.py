"""What a config of the im2col template means for a convolution: pixels, chunks, columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import misfit_of_blocks


@dataclass(frozen=True, order=True)
class Im2colConfig:
    """im2col and one matrix product, in NCHW[x]c: batch, rows and columns are one axis of pixels.

    ``reg_n`` pixels are held in registers; a chunk covers ``tiles`` such tiles. ``ic_bn``,
    ``oc_bn``, ``parallel_oc`` and ``oc_lanes`` are those of the direct template's ``ConvConfig``.
    """

    template: ClassVar[str] = "conv2d_NCHWc_im2col"

    ic_bn: int
    oc_bn: int
    reg_n: int
    tiles: int = 1
    parallel_oc: bool = False
    oc_lanes: int = 0

    @property
    def tile_channels(self) -> int:
        """Channels of a register tile: ``oc_bn`` and what fills its last vector."""
        return self.oc_lanes or self.oc_bn


@dataclass(frozen=True)
class Im2colGeometry:
    """The extents that template, space and cost share."""

    conv: ConvWorkload
    config: Im2colConfig

    @property
    def pixels(self) -> int:
        """Output pixels of the whole batch."""
        return self.conv.batch * self.conv.out_height * self.conv.out_width

    @cached_property
    def row_chunks(self) -> int:
        """Chunks of pixels; the last one may overhang."""
        tiles = math.ceil(self.pixels / self.config.reg_n)
        return math.ceil(tiles / self.config.tiles)

    @property
    def chunk_pixels(self) -> int:
        return self.config.tiles * self.config.reg_n

    @property
    def computed_pixels(self) -> int:
        return self.row_chunks * self.chunk_pixels

    @property
    def overhangs(self) -> bool:
        return self.computed_pixels > self.pixels

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.row_chunks * (self.out_blocks if self.config.parallel_oc else 1)

    @property
    def ic_bn(self) -> int:
        """Channels of a block of the columns; one where the data is plain."""
        return self.config.ic_bn or 1

    @property
    def in_blocks(self) -> int:
        return self.conv.in_channels // self.ic_bn

    @property
    def out_blocks(self) -> int:
        return self.conv.out_channels // self.config.oc_bn

    @property
    def reads_in_place(self) -> bool:
        """Whether the data is its own column matrix, and no tile reads beyond its end."""
        return self.conv.is_pointwise and self.config.ic_bn > 0 and not self.overhangs

    @property
    def column_bytes(self) -> float:
        """Bytes of a chunk's columns."""
        item = item_bytes(self.conv.types.data)
        return float(item * self.conv.taps * self.chunk_pixels)

    @property
    def passes_before(self) -> int:
        """Parallel loops before the product's: padding of plain data, columns of all chunks."""
        if self.reads_in_place:
            return 0
        return int(self.config.ic_bn == 0) + int(self.config.parallel_oc)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight: (K/oc_bn, C/ic_bn * R * S, ic_bn, tile_channels)."""
        taps = self.in_blocks * self.conv.kernel[0] * self.conv.kernel[1]
        return (self.out_blocks, taps, self.ic_bn, self.config.tile_channels)


def misfit(conv: ConvWorkload, config: Im2colConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if min(config.reg_n, config.tiles) < 1:
        return "its tiles are empty"
    return misfit_of_blocks(conv, config.ic_bn, config.oc_bn, config.oc_lanes)
