"""How a template computes a workload: frozen, printable, replayable decisions."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, order=True)
class ConvConfig:
    """The direct NCHW[x]c template's schedule tuple (NeoCPU, section 3.1.1), extended.

    ``ic_bn``, ``oc_bn``: channels in a block of the input and of the output; ``ic_bn == 0`` reads
    plain NCHW (the first convolution). ``reg_n``: output pixels of a row held in registers.
    ``unroll_ker``: unroll the kernel's width. Ours: ``reg_m`` output rows in the register tile,
    ``oh_bn`` output rows (or, for a 1x1 kernel, tiles of ``reg_n`` pixels) that one parallel chunk
    covers, ``parallel_oc`` whether chunks are also split over the output's channel blocks,
    ``oc_lanes`` the channels that a block is computed with where no vector divides ``oc_bn`` (0:
    just those), so that 13 or 59 or 126 channels run in whole vectors.
    """

    template: ClassVar[str] = "conv2d_NCHWc"

    ic_bn: int
    oc_bn: int
    reg_n: int
    unroll_ker: bool = True
    reg_m: int = 1
    oh_bn: int = 1
    parallel_oc: bool = False
    oc_lanes: int = 0

    @property
    def tile_channels(self) -> int:
        """Channels of a register tile: ``oc_bn`` and what fills its last vector."""
        return self.oc_lanes or self.oc_bn


@dataclass(frozen=True, order=True)
class DepthwiseConfig:
    """Depthwise NCHW[x]c: output blocks of ``oc_bn`` channels, from inputs of ``ic_bn``.

    ``reg_n`` output pixels of a row are held in registers, ``reg_m`` rows of them; a chunk covers
    ``oh_bn`` rows of tiles (0: all). Every input channel makes ``multiplier`` output channels.
    """

    template: ClassVar[str] = "depthwise_conv2d_NCHWc"

    oc_bn: int
    reg_n: int
    unroll_ker: bool = True
    reg_m: int = 1
    oh_bn: int = 0
    multiplier: int = 1

    @property
    def ic_bn(self) -> int:
        return self.oc_bn // self.multiplier


@dataclass(frozen=True, order=True)
class DenseConfig:
    """Dense packed in blocks of ``oc_bn`` outputs; ``reg_n`` rows of the batch at once.

    ``unroll_k``: how many input features the reduction advances per step.
    """

    template: ClassVar[str] = "dense_pack"

    oc_bn: int
    reg_n: int = 1
    unroll_k: int = 4


@dataclass(frozen=True, order=True)
class WinogradConfig:
    """Winograd over NCHW[x]c in tiles of ``tile`` x ``tile`` outputs (Wang et al. 2020).

    A tile has one row or column where the kernel has one; ``ic_bn == 0`` reads plain NCHW.
    ``reg_m`` x ``reg_n`` transformed tiles are held in registers by the product; a chunk covers
    ``th_bn`` rows of tiles, or all of them when ``parallel_oc`` splits the output channels instead.
    """

    template: ClassVar[str] = "conv2d_NCHWc_winograd"

    ic_bn: int
    oc_bn: int
    tile: int
    reg_n: int
    reg_m: int = 1
    th_bn: int = 1
    parallel_oc: bool = False


@dataclass(frozen=True, order=True)
class Im2colConfig:
    """im2col and one matrix product, in NCHW[x]c: batch, rows and columns are one axis of pixels.

    ``reg_n`` pixels are held in registers; a chunk covers ``tiles`` such tiles. ``ic_bn``,
    ``oc_bn``, ``parallel_oc`` and ``oc_lanes`` are those of :class:`ConvConfig`.
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


@dataclass(frozen=True, order=True)
class TransformConfig:
    """A layout transform has one schedule: its widest contiguous run of channels is a vector."""

    template: ClassVar[str] = "layout_transform"


Config = (
    ConvConfig | DepthwiseConfig | DenseConfig | WinogradConfig | Im2colConfig | TransformConfig
)

# Every template's config type, by template name; a new template adds its line.
CONFIG_TYPES: dict[str, type[Config]] = {
    kind.template: kind
    for kind in (
        ConvConfig,
        DepthwiseConfig,
        DenseConfig,
        WinogradConfig,
        Im2colConfig,
        TransformConfig,
    )
}


def knobs(config: Config) -> dict[str, int | bool]:
    """The config as an ordered name -> value mapping."""
    return {field.name: getattr(config, field.name) for field in fields(config)}
