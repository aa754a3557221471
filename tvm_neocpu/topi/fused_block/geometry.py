"""A group of layers that runs band by band: 1x1 -> depthwise -> 1x1, and what it keeps of each.

    for each band of output rows, on a core of its own:
      for each group of ``rows`` output rows of the band:
        for each block of expanded channels:
          expand the input rows that are not in the ring yet -> ring      stays in L1 or L2
          depthwise on the ring                               -> between  the same
        project all expanded channels of these rows           -> output

The ring holds the expanded rows that one group reads. The rows that the next group reads too move
to its beginning; a band computes anew what it shares with the band before (the halo). Either 1x1
layer may be missing. No sum is ever split: the projection runs once all its channels are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_neocpu.core.layout import factors
from tvm_neocpu.core.types import FP32
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry

# Bytes of an element; members compute in fp32.
ITEM = 4


@dataclass(frozen=True)
class Member:
    """One layer of a group, and the config that the network's plan gives it."""

    workload: ConvWorkload
    config: Any


@dataclass(frozen=True)
class Rows:
    """Input rows that a group's depthwise layer reads: from ``base`` to ``top``, exclusive.

    Both are multiples of the rows of the expanding layer's register tile.
    """

    base: int
    top: int


@dataclass(frozen=True)
class FusedBlock:
    """The layers of a group, and the output ``rows`` that it computes at a time."""

    depthwise: Member
    expand: Member | None
    project: Member | None
    rows: int

    @property
    def members(self) -> tuple[Member, ...]:
        """In the order in which they run."""
        found = (self.expand, self.depthwise, self.project)
        return tuple(member for member in found if member is not None)

    @property
    def conv(self) -> ConvWorkload:
        return self.depthwise.workload

    @property
    def blocks(self) -> int:
        """Blocks of expanded channels."""
        return self.conv.in_channels // int(self.depthwise.config.oc_bn)

    @property
    def groups(self) -> int:
        """Groups of output rows in an image."""
        return self.conv.out_height // self.rows

    @property
    def tile_rows(self) -> int:
        """Rows of the expanding layer's register tile."""
        return 1 if self.expand is None else int(self.expand.config.reg_m)

    def bands(self, cores: int) -> int:
        """Bands of an image: one if the batch alone keeps all cores busy."""
        return 1 if self.conv.batch % cores == 0 else min(self.groups, cores)

    def group_range(self, band: int, cores: int) -> range:
        """The groups of a band."""
        bands = self.bands(cores)
        return range(band * self.groups // bands, (band + 1) * self.groups // bands)

    def input_rows(self, group: int) -> Rows:
        """The expanded rows that a group reads, as whole register tiles compute them."""
        conv, tile = self.conv, self.tile_rows
        first = group * self.rows * conv.stride[0] - conv.padding[0]
        end = first + (self.rows - 1) * conv.stride[0] + conv.reach[0]
        base, top = max(first, 0) // tile, math.ceil(min(end, conv.height) / tile)
        return Rows(base * tile, top * tile)

    @cached_property
    def ring_rows(self) -> int:
        """The most rows that a group reads."""
        reads = [self.input_rows(group) for group in range(self.groups)]
        return max(rows.top - rows.base for rows in reads)

    @property
    def ring_elements(self) -> int:
        """Elements of a band's ring: (blocks, ring_rows, W, oc_bn); none without expansion."""
        if self.expand is None:
            return 0
        return self.conv.in_channels * self.ring_rows * self.conv.width

    @property
    def between_elements(self) -> int:
        """Elements of what a group hands to the projection: (blocks, rows, OW, oc_bn)."""
        if self.project is None:
            return 0
        return self.conv.out_channels * self.rows * self.conv.out_width

    @property
    def band_bytes(self) -> int:
        """What a band holds between its layers."""
        return ITEM * (self.ring_elements + self.between_elements)


def candidate_rows(expand: Member | None, depthwise: Member, project: Member | None) -> list[int]:
    """Rows of a group that whole register tiles compute and that divide the image."""
    step = math.lcm(
        depthwise.config.reg_m, 1 if project is None else int(project.config.reg_m)
    )
    return [rows for rows in factors(depthwise.workload.out_height) if rows % step == 0]


def misfit(expand: Member | None, depthwise: Member, project: Member | None) -> str | None:
    """Why these layers cannot be a group; ``None`` where they can."""
    return next(_reasons(expand, depthwise, project), None)


def _reasons(
    expand: Member | None, depthwise: Member, project: Member | None
) -> Iterator[str]:
    conv, config = depthwise.workload, depthwise.config
    if expand is None and project is None:
        yield "a depthwise layer alone is no group"
    if not isinstance(config, DepthwiseConfig) or conv.multiplier != 1:
        yield f"{conv} is no depthwise layer of one output a channel"
        return
    if conv.reach[0] < conv.stride[0]:
        yield f"{conv} leaves rows out"
    if conv.out_height % config.reg_m:
        yield f"tiles of {config.reg_m} rows overhang the {conv.out_height} rows of {conv}"
    for member in (expand, project):
        if member is not None:
            yield from _pointwise_reasons(member)
    if expand is not None and expand.config.oc_bn != config.oc_bn:
        yield f"blocks of {expand.config.oc_bn} channels meet blocks of {config.oc_bn}"
    if project is not None and project.config.ic_bn != config.oc_bn:
        yield f"blocks of {config.oc_bn} channels meet blocks of {project.config.ic_bn}"
    if any(m.workload.types != FP32 for m in (expand, depthwise, project) if m is not None):
        yield "only fp32 layers are fused"


def _pointwise_reasons(member: Member) -> Iterator[str]:
    conv, config = member.workload, member.config
    if not conv.is_pointwise or conv.groups != 1:
        yield f"{conv} is no 1x1 layer"
    elif not isinstance(config, ConvConfig) or config.ic_bn == 0:
        yield f"{conv} is not computed by the direct template over blocks"
    elif DirectGeometry(conv, config).is_padded:
        yield f"register tiles overhang the image of {conv}"
    elif config.oc_lanes not in (0, config.oc_bn):
        yield f"{conv} computes more channels than it stores"
