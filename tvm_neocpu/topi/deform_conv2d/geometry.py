"""What a config means for a deformable convolution: pixels, chunks, columns, looked-up places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d_direct.geometry import misfit_of_blocks
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig, Im2colGeometry
from tvm_neocpu.topi.deform_conv2d.workload import CORNERS, DeformConvWorkload

# Of a pixel's place in its image.
INDEX_TYPE = "int32"


@dataclass(frozen=True, order=True)
class DeformConfig(Im2colConfig):
    """The knobs of im2col: only how a column is filled differs. Plain data (0) is not read."""

    template: ClassVar[str] = "deform_conv2d_NCHWc"


@dataclass(frozen=True)
class DeformGeometry:
    """The extents that template, space and cost share."""

    deform: DeformConvWorkload
    config: DeformConfig

    @cached_property
    def product(self) -> Im2colGeometry:
        """The matrix product over the columns of one group's channels, with all filters."""
        deform = self.deform
        filters = replace(deform.conv, in_channels=deform.in_channels // deform.groups, groups=1)
        return Im2colGeometry(filters, self.config, computed=True)

    @property
    def in_blocks(self) -> int:
        """Blocks of all input channels."""
        return self.deform.in_channels // self.config.ic_bn

    @property
    def blocks_of_place(self) -> int:
        """Blocks of channels that share their offsets."""
        return self.in_blocks // self.deform.offset_groups

    @property
    def groups_blocks(self) -> tuple[int, int]:
        """Blocks of input channels, and of output channels, of one group."""
        return self.product.in_blocks, self.product.out_blocks // self.deform.groups

    @property
    def computed_samples(self) -> int:
        """Places that are looked up: those of overhanging pixels too."""
        kernel = self.deform.kernel
        taps = self.deform.offset_groups * kernel[0] * kernel[1]
        return taps * self.product.computed_pixels

    @property
    def scatters_offsets(self) -> bool:
        """Whether offsets of neighbouring pixels do not lie side by side in all chunks."""
        image = self.deform.conv.out_height * self.deform.conv.out_width
        several = self.deform.batch > 1 and image % self.product.chunk_pixels != 0
        return self.product.overhangs or several

    @property
    def column_bytes(self) -> float:
        """Bytes of a chunk's columns."""
        return self.product.column_bytes * self.deform.groups

    @property
    def place_bytes(self) -> float:
        """Bytes of a chunk's table: four pixels' places and shares for each tap."""
        item = item_bytes(INDEX_TYPE) + item_bytes(self.deform.types.data)
        return float(item * CORNERS * self.computed_samples / self.product.row_chunks)


def misfit(deform: DeformConvWorkload, config: DeformConfig) -> str | None:
    """Why a config from a log cannot compute the workload; ``None`` where it can."""
    if min(config.reg_n, config.tiles) < 1:
        return "its tiles are empty"
    if config.parts != 1:
        return "its reduction is not cut into parts"
    if config.ic_bn < 1 or deform.shared_channels % config.ic_bn:
        return f"its ic_bn {config.ic_bn} does not divide the {deform.shared_channels} channels"
    return misfit_of_blocks(deform.conv, config.ic_bn, config.oc_bn, config.oc_lanes)
