"""A depthwise layer and the 1x1 layer behind it as one group, computed some rows at a time.

    parallel for each group of ``rows`` output rows of an image:
      for each block of channels:
        depthwise, these rows of the block   -> between     stays in the core's L1 or L2
      1x1 layer, these rows                  -> output

No sum is split: the 1x1 layer runs once all channels of its rows are there (Zheng et al., section
5.2). No row is computed twice, because a 1x1 layer reads just the rows that it writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tvm_neocpu.core.layout import factors
from tvm_neocpu.core.types import FP32, item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry


@dataclass(frozen=True)
class Member:
    """One layer of a group, and its config."""

    workload: ConvWorkload
    config: Any


@dataclass(frozen=True)
class FusedBlock:
    """The two layers under the plan's configs, and the output ``rows`` of a group."""

    depthwise: Member
    project: Member
    rows: int

    @property
    def conv(self) -> ConvWorkload:
        """The depthwise layer."""
        return self.depthwise.workload

    @property
    def blocks(self) -> int:
        """Blocks of channels between the layers."""
        return self.conv.out_channels // int(self.depthwise.config.oc_bn)

    @property
    def groups(self) -> int:
        """Groups of rows in an image."""
        return self.conv.out_height // self.rows

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.conv.batch * self.groups

    @property
    def between_shape(self) -> tuple[int, int, int, int]:
        """What a group hands from layer to layer: (blocks, rows, OW, oc_bn)."""
        return self.blocks, self.rows, self.conv.out_width, int(self.depthwise.config.oc_bn)

    @property
    def between_bytes(self) -> int:
        return math.prod(self.between_shape) * item_bytes(self.conv.types.output)

    @property
    def chunked(self) -> tuple[Member, Member]:
        """The layers under configs whose chunks are a group's rows; register tiles stay."""
        depthwise, project = self.depthwise, self.project
        down = replace(depthwise.config, oh_bn=self.rows // depthwise.config.reg_m)
        across = replace(project.config, oh_bn=self.rows // project.config.reg_m, parallel_oc=False)
        return replace(depthwise, config=down), replace(project, config=across)


def candidates(depthwise: Member, project: Member) -> tuple[FusedBlock, ...]:
    """Groups of every number of rows that whole register tiles compute and that divides the image.

    The layers must fit together (:func:`misfit`).
    """
    step = math.lcm(depthwise.config.reg_m, project.config.reg_m)
    heights = [rows for rows in factors(depthwise.workload.out_height) if rows % step == 0]
    return tuple(FusedBlock(depthwise, project, rows) for rows in heights)


def misfit(depthwise: Member, project: Member) -> str | None:
    """Why two layers, the second of which reads the first, are no group; ``None`` if they are."""
    return next(_reasons(depthwise, project), None)


def _reasons(depthwise: Member, project: Member) -> Iterator[str]:
    conv, config = depthwise.workload, depthwise.config
    reader, read_by = project.workload, project.config
    if not isinstance(config, DepthwiseConfig) or conv.multiplier != 1:
        yield f"{conv} is no depthwise layer of one output a channel"
    elif conv.out_height % config.reg_m:
        yield f"tiles of {config.reg_m} rows overhang the {conv.out_height} rows of {conv}"
    elif conv.types != FP32 or reader.types != FP32:
        yield "only fp32 layers are fused"
    elif not reader.is_pointwise or reader.groups != 1:
        yield f"{reader} is no 1x1 layer"
    elif not isinstance(read_by, ConvConfig):
        yield f"{reader} is not computed by the direct template"
    elif DirectGeometry(reader, read_by).is_padded:
        yield f"register tiles overhang the image of {reader}"
    elif reader.in_shape != conv.out_shape or read_by.ic_bn != config.oc_bn:
        yield f"{reader} does not read what {conv} writes"
