"""What a config means for a convolution to few channels: tiles of pixels, lanes, chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload


@dataclass(frozen=True, order=True)
class FewConfig:
    """Outputs of ``reg_n`` pixels, all ``oc_bn`` channels of each, as sums over lanes.

    ``ic_bn``: channels in a block of the input, of which ``lanes`` are multiplied side by side.
    ``oc_bn``: all output channels, one block. ``oh_bn``: output rows of a parallel chunk.
    """

    template: ClassVar[str] = "conv2d_NCHWc_to_few"

    ic_bn: int
    oc_bn: int
    reg_n: int
    lanes: int
    oh_bn: int = 1


@dataclass(frozen=True)
class FewGeometry:
    """The extents that template, space and cost share."""

    conv: ConvWorkload
    config: FewConfig

    @property
    def in_blocks(self) -> int:
        return self.conv.in_channels // self.config.ic_bn

    @property
    def parts(self) -> int:
        """Vectors of a pixel's block."""
        return self.config.ic_bn // self.config.lanes

    @property
    def steps(self) -> int:
        """Vectors of input that an output is the sum over."""
        return math.prod(self.conv.kernel) * self.in_blocks * self.parts

    @property
    def tiles(self) -> int:
        """Register tiles of an output row; the last one may overhang it."""
        return math.ceil(self.conv.out_width / self.config.reg_n)

    @property
    def columns(self) -> int:
        """Columns that are computed."""
        return self.tiles * self.config.reg_n

    @property
    def overhangs(self) -> bool:
        return self.columns > self.conv.out_width

    @property
    def chunk_rows(self) -> int:
        """Output rows of a chunk: at most ``oh_bn``, and a factor of all."""
        return largest_factor(self.conv.out_height, self.config.oh_bn)

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.conv.batch * self.conv.out_height // self.chunk_rows

    @property
    def padded_extent(self) -> tuple[int, int]:
        """Input rows and columns that the computed outputs read."""
        (down, across), reach = self.conv.stride, self.conv.reach
        rows = (self.conv.out_height - 1) * down + reach[0]
        return rows, (self.columns - 1) * across + reach[1]

    @property
    def is_padded(self) -> bool:
        """Whether the template reads a padded copy."""
        _, columns = self.padded_extent
        return any(self.conv.padding) or columns > self.conv.width

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight: (C/ic_bn, R, S, parts, K, lanes)."""
        config = self.config
        return (self.in_blocks, *self.conv.kernel, self.parts, config.oc_bn, config.lanes)


def misfit(conv: ConvWorkload, config: FewConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if conv.groups > 1:
        return "it sums over all channels, which no grouped convolution does"
    if config.ic_bn < 1 or conv.in_channels % config.ic_bn:
        return f"its ic_bn {config.ic_bn} does not divide {conv.in_channels} channels"
    if config.oc_bn != conv.out_channels:
        return f"its oc_bn {config.oc_bn} is not all {conv.out_channels} channels"
    if min(config.reg_n, config.oh_bn) < 1:
        return "its register tiles or chunks are empty"
    lanes = config.lanes
    if lanes < 2 or lanes & (lanes - 1) or config.ic_bn % lanes:
        return f"its lanes {lanes} are no power of two that divides a block of {config.ic_bn}"
    return None
