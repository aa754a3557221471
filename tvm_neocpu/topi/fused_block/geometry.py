"""Layers, each of which reads the one before, as one group that is computed some rows at a time.

Of dense layers alone :mod:`.stack` tells. A depthwise layer with the 1x1 layers around it::

    parallel for each run of bands of an image:
      for each band of ``rows`` output rows:
        for each block of expanded channels:
          expansion (1x1), the rows of the block that are not there yet -> expanded
          depthwise, the band's rows of the block                       -> between
        projection (1x1), the band's rows                               -> output

The group may lack the expansion or the projection: a squeeze-excite gate ends it. What lies between
the layers stays in the core's L1 or L2. No sum is split: the projection runs once all channels of
its rows are there (Zheng et al., section 5.2).

``expanded`` is a ring of rows: the bands of a run find there what the bands before them have
computed. A run of one band computes its halo anew, and keeps one block of channels at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from tvm_neocpu.core.network.layer_group import Bands
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.core.types import FP32, item_bytes
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry, may_stream
from tvm_neocpu.topi.fused_block import stack
from tvm_neocpu.topi.fused_block.course import Course, course_of
from tvm_neocpu.topi.fused_block.member import Member, Step, padded_rows, scratch_bytes, tile_rows


@dataclass(frozen=True)
class FusedBlock:
    """Layers under the plan's configs, each of which reads the one before, and the group's bands.

    ``whole``: the expansion computes all channels of its rows before the depthwise layer begins.
    ``taps``: the places of inner layers that something else reads too. What these make is an output
    as well as rows between layers.
    """

    members: tuple[Member, ...]
    bands: Bands
    whole: bool = False
    taps: tuple[int, ...] = ()

    @property
    def is_stack(self) -> bool:
        """Whether all layers are dense."""
        return stack.is_stack(self.members)

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.members[-1].workload.batch * self.course.runs

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The layers as the group computes them; their register tiles are the plan's."""
        if self.is_stack:
            return stack.steps_of(self.members, self.bands.rows)
        deep = depthwise_of(self.members)
        found = []
        for at, member in enumerate(self.members):
            if at == deep:
                found.append(_depthwise_step(member, self.bands.rows))
            elif at > deep:
                found.append(_projection_step(member, self.bands.rows))
            else:
                # Bands by themselves begin and end anywhere: finer tiles compute less in vain.
                added = self.bands.rows * self.members[deep].workload.stride[0]
                rows = 1 if self.bands.run == 1 else added
                found.append(_expansion_step(member, rows, self.whole))
        return tuple(found)

    @cached_property
    def course(self) -> Course:
        """The rows of each layer, band by band."""
        return course_of(tuple(step.down for step in self.steps), self.bands)

    def shape_behind(self, at: int) -> tuple[int, int, int, int]:
        """What layer ``at`` hands on at a time: (blocks, rows, width, lanes)."""
        step, reader = self.steps[at], self.steps[at + 1]
        lanes = int(step.member.config.oc_bn)
        # A band alone takes a block at a time where the reader does, too.
        alone = self.bands.run == 1 and step.blocks and reader.blocks
        blocks = 1 if alone else step.conv.out_channels // lanes
        return blocks, self.course.kept[at], step.conv.out_width, lanes

    def bytes_behind(self, at: int) -> int:
        return math.prod(self.shape_behind(at)) * item_bytes(self.steps[at].conv.types.output)

    @property
    def kept_bytes(self) -> int:
        """What a core keeps between the layers."""
        return sum(self.bytes_behind(at) for at in range(len(self.steps) - 1))

    @property
    def working_bytes(self) -> int:
        """What a core reads again and again, besides weights: rows between layers, and scratch."""
        scratch = max(scratch_bytes(step.member) for step in self.steps) if self.is_stack else 0
        return self.kept_bytes + scratch


def candidates(
    members: Sequence[Member], cores: int, taps: tuple[int, ...] = ()
) -> tuple[FusedBlock, ...]:
    """Groups of every number of rows that whole register tiles compute and that divides the image.

    The image ends with its last register tile. Where a layer has a halo to keep, an image is also
    split into a few runs for each core. The layers must fit together (:func:`misfit`), and bands
    compute all of what is a tap.
    """
    found = (
        FusedBlock(tuple(members), Bands(rows, run), taps=taps)
        for rows in factors(_height(members))
        if rows % _tile_rows(members) == 0
        for run in (_runs(_count(members, rows), cores) if _keeps_rows(members) else (1,))
    )
    return tuple(block for block in found if block.course.whole.issuperset(taps))


def is_band(members: Sequence[Member], bands: Bands) -> bool:
    """Whether the layers, which fit together, may be computed in bands like these."""
    if bands.rows < 1 or bands.rows % _tile_rows(members):
        return False
    if _height(members) % bands.rows:
        return False
    return 1 <= bands.run <= (_count(members, bands.rows) if _keeps_rows(members) else 1)


def _height(members: Sequence[Member]) -> int:
    """Rows of the last layer's image, and those by which register tiles overhang it."""
    last = members[-1]
    return padded_rows(last) if stack.is_stack(members) else last.workload.out_height


def _count(members: Sequence[Member], rows: int) -> int:
    """Bands of an image."""
    return math.ceil(members[-1].workload.out_height / rows)


def _keeps_rows(members: Sequence[Member]) -> bool:
    """Whether a layer has a halo that a band may find in a ring."""
    return stack.is_stack(members) or depthwise_of(members) > 0


def _tile_rows(members: Sequence[Member]) -> int:
    if stack.is_stack(members):
        return tile_rows(members[-1])
    return math.lcm(*(member.config.reg_m for member in members[depthwise_of(members) :]))


def misfit(members: Sequence[Member]) -> str | None:
    """Why layers, each of which reads the one before, are no group; ``None`` if they are."""
    return next(_reasons(members), None)


def depthwise_of(members: Sequence[Member]) -> int:
    """The place of the depthwise layer; 0 without one."""
    places = (at for at, member in enumerate(members) if member.workload.is_depthwise)
    return next(places, 0)


def _runs(count: int, cores: int) -> tuple[int, ...]:
    """Bands in a run: one, or so many that an image has up to four runs for each core."""
    return tuple(sorted({1, *(math.ceil(count / (cores * share)) for share in (1, 2, 3, 4))}))


def _depthwise_step(member: Member, rows: int) -> Step:
    config = replace(member.config, oh_bn=rows // member.config.reg_m)
    return Step(replace(member, config=config), rows, _blocks(member))


def _projection_step(member: Member, rows: int) -> Step:
    config = replace(member.config, oh_bn=rows // member.config.reg_m, parallel_oc=False)
    return Step(replace(member, config=config), rows)


def _expansion_step(member: Member, wanted: int, whole: bool) -> Step:
    """Tiles of about as many rows as are ``wanted``."""
    height, reg_m = member.workload.out_height, member.config.reg_m
    fitting = [f for f in factors(height) if f % reg_m == 0 and f <= max(wanted, reg_m)]
    rows = fitting[-1]
    config = replace(member.config, oh_bn=rows // reg_m, parallel_oc=not whole)
    return Step(replace(member, config=config), rows, 0 if whole else _blocks(member))


def _blocks(member: Member) -> int:
    return member.workload.out_channels // int(member.config.oc_bn)


def _reasons(members: Sequence[Member]) -> Iterator[str]:
    if stack.is_stack(members):
        yield from stack.reasons_against(members)
    else:
        yield from _reasons_against_block(members)
    if any(member.workload.types != FP32 for member in members):
        yield "only fp32 layers are fused"
    for member, reader in pairwise(members):
        same = member.workload.out_shape == reader.workload.in_shape
        if not same or member.config.oc_bn != reader.config.ic_bn:
            yield f"{reader.workload} does not read what {member.workload} writes"


def _reasons_against_block(members: Sequence[Member]) -> Iterator[str]:
    deep = depthwise_of(members)
    conv, config = members[deep].workload, members[deep].config
    if not conv.is_depthwise or not isinstance(config, DepthwiseConfig) or conv.multiplier != 1:
        yield f"{conv} is no depthwise layer of one output a channel"
        return
    if not 1 < len(members) <= 3 or deep > 1 or len(members) - deep > 2:
        yield f"{conv} is not between 1x1 layers"
    if conv.out_height % config.reg_m:
        yield f"tiles of {config.reg_m} rows overhang the {conv.out_height} rows of {conv}"
    for at, member in enumerate(members):
        if at != deep:
            yield from _reasons_against(member)


def _reasons_against(member: Member) -> Iterator[str]:
    """Why a layer is no expansion or projection."""
    conv, config = member.workload, member.config
    if not conv.is_pointwise or conv.groups != 1:
        yield f"{conv} is no 1x1 layer"
    elif not isinstance(config, ConvConfig):
        yield f"{conv} is not computed by the direct template"
    elif DirectGeometry(conv, config).is_padded:
        yield f"register tiles overhang the image of {conv}"
    elif may_stream(conv):
        yield f"blocks of channels share register tiles of {conv}"
