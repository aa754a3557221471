"""What a config of the depthwise template means for a convolution: tiles, extents, chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.core.types import INTEGER_PRODUCTS, item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

# Kernels with more taps in a row than this are unrolled along their rows only. 49 taps of 7 pixels
# were a quarter of what NASNet-A mobile's kernels took to compile, and run no faster than a loop.
# Rows of five taps do: MobileNet-v3 large 1.01 to 1.02 (Zen 3).
MOST_UNROLLED_ACROSS = 5


@dataclass(frozen=True, order=True)
class DepthwiseConfig:
    """Depthwise NCHW[x]c: output blocks of ``oc_bn`` channels, from input blocks of ``ic_bn``.

    ``oc_bn`` is ``ic_bn`` times the convolution's multiplier. ``reg_n`` output pixels of a row are
    held in registers, ``reg_m`` rows of them, each with ``reg_c`` channels of its block (0: all); a
    chunk covers ``oh_bn`` rows of tiles (0: all).
    """

    template: ClassVar[str] = "depthwise_conv2d_NCHWc"

    ic_bn: int
    oc_bn: int
    reg_n: int
    unroll_ker: bool = True
    reg_m: int = 1
    oh_bn: int = 0
    reg_c: int = 0

    @property
    def tile_channels(self) -> int:
        """Channels of a register tile."""
        return self.reg_c or self.oc_bn


@dataclass(frozen=True)
class DepthwiseGeometry:
    """The extents that template, space and cost share."""

    conv: ConvWorkload
    config: DepthwiseConfig

    @cached_property
    def tiles(self) -> tuple[int, int]:
        """Register tiles down and across the output; the last ones may overhang it."""
        down = math.ceil(self.conv.out_height / self.config.reg_m)
        return down, math.ceil(self.conv.out_width / self.config.reg_n)

    @property
    def rows(self) -> int:
        """Output rows computed: those of whole tiles."""
        return self.tiles[0] * self.config.reg_m

    @property
    def columns(self) -> int:
        """Output columns computed: those of whole tiles."""
        return self.tiles[1] * self.config.reg_n

    @property
    def padded_extent(self) -> tuple[int, int]:
        """Input rows and columns that the computed outputs read, padding included."""
        (down, across), reach = self.conv.stride, self.conv.reach
        return (self.rows - 1) * down + reach[0], (self.columns - 1) * across + reach[1]

    @property
    def tile_count(self) -> int:
        """Register tiles that a run computes."""
        parts = self.config.oc_bn // self.config.tile_channels
        return self.conv.batch * self.blocks * self.tiles[0] * self.tiles[1] * parts

    @property
    def unrolls_rows(self) -> bool:
        """Whether the loop over the kernel's rows is unrolled beside that over its columns."""
        return self.conv.kernel[1] <= MOST_UNROLLED_ACROSS

    @property
    def is_copied(self) -> bool:
        """Whether the template reads a copy of its input, in which channels are repeated.

        A prologue is computed into such a copy too, which only the schedule knows.
        """
        return self.conv.multiplier > 1

    @property
    def blocks(self) -> int:
        """Blocks of output channels."""
        return self.conv.out_channels // self.config.oc_bn

    @cached_property
    def chunk_rows(self) -> int:
        """Rows of tiles that a chunk covers: at most ``oh_bn`` (0: all), and a factor of all."""
        return largest_factor(self.tiles[0], self.config.oh_bn or self.tiles[0])

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.conv.batch * self.blocks * (self.tiles[0] // self.chunk_rows)

    @property
    def chunk_bytes(self) -> int:
        """Input of a chunk as its padding stage stores it."""
        return padded_bytes(self.conv, self.config.reg_m * self.chunk_rows, self.config.oc_bn)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight: (K/oc_bn, 1, R, S, 1, oc_bn)."""
        return (self.blocks, 1, *self.conv.kernel, 1, self.config.oc_bn)


def is_integer(conv: ConvWorkload) -> bool:
    """Whether it multiplies integers, whose products are sums of words."""
    return conv.types in INTEGER_PRODUCTS


def padded_bytes(conv: ConvWorkload, out_rows: int, oc_bn: int) -> int:
    """Input of one block of channels for so many output rows, as the padding stage stores it."""
    _, left, _, right = conv.padding
    rows = (out_rows - 1) * conv.stride[0] + conv.reach[0]
    return item_bytes(conv.types.data) * oc_bn * rows * (conv.width + left + right)


def misfit(conv: ConvWorkload, config: DepthwiseConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if config.ic_bn < 1 or conv.in_channels % config.ic_bn:
        return f"its ic_bn {config.ic_bn} does not divide {conv.in_channels} channels"
    if config.oc_bn != config.ic_bn * conv.multiplier:
        return f"its oc_bn {config.oc_bn} is not ic_bn {config.ic_bn} times {conv.multiplier}"
    if config.reg_c < 0 or config.oc_bn % config.tile_channels:
        return f"its tiles of {config.reg_c} channels do not divide oc_bn {config.oc_bn}"
    return None if min(config.reg_n, config.reg_m) >= 1 else "its tiles are empty"


def upgrade(knobs: dict[str, Any]) -> dict[str, Any]:
    """Knobs of version 0.1, which told ``oc_bn`` and ``multiplier`` where ``ic_bn`` stands now."""
    if not {"multiplier", "oc_bn"} <= knobs.keys():
        return knobs
    rest = {name: value for name, value in knobs.items() if name != "multiplier"}
    return {**rest, "ic_bn": knobs["oc_bn"] // max(1, knobs["multiplier"])}
