"""A layer of a group: what it computes, and how it goes down its image chunk by chunk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import DirectGeometry
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.fused_block.course import Rows


@dataclass(frozen=True)
class Member:
    """One layer of a group, and its config."""

    workload: ConvWorkload
    config: Any


@dataclass(frozen=True)
class Step:
    """A layer as its group computes it: tile by tile, each of ``rows`` rows of an image.

    ``member`` has the config whose parallel loop runs over these tiles. ``blocks``: into how many
    blocks of channels the tiles are split; 0 for tiles of all channels. The last tile may overhang
    the image.
    """

    member: Member
    rows: int
    blocks: int = 0

    @property
    def conv(self) -> ConvWorkload:
        return self.member.workload

    @property
    def extents(self) -> tuple[int, ...]:
        """The axes that the parallel loop of the layer's template runs over."""
        split = (self.blocks,) if self.blocks else ()
        conv = self.conv
        tiles = conv.out_height // self.rows if conv.is_depthwise else row_chunks(self.member)
        return (conv.batch, *split, tiles)

    @property
    def down(self) -> Rows:
        conv = self.conv
        image = conv.height, conv.stride[0], conv.reach[0], conv.padding[0]
        return Rows(self.rows, conv.out_height, *image)


def geometry_of(layer: Member) -> DirectGeometry | WinogradGeometry:
    """What the template makes of a dense layer."""
    if isinstance(layer.config, WinogradConfig):
        return WinogradGeometry(layer.workload, layer.config)
    return DirectGeometry(layer.workload, layer.config)


def row_chunks(layer: Member) -> int:
    """Chunks of an image in a dense layer's own loop."""
    return geometry_of(layer).row_chunks


def tile_rows(layer: Member) -> int:
    """Output rows of a register tile of a dense layer."""
    geometry = geometry_of(layer)
    if isinstance(geometry, WinogradGeometry):
        return max(geometry.config.reg_m, 1) * geometry.tiled.outputs[0]
    return geometry.config.reg_m


def padded_rows(layer: Member) -> int:
    """Output rows of whole register tiles of a dense layer."""
    geometry = geometry_of(layer)
    if isinstance(geometry, WinogradGeometry):
        return geometry.grid[0] * geometry.tiled.outputs[0]
    return geometry.rows


def scratch_bytes(layer: Member) -> int:
    """What a chunk of a dense layer keeps beside weights: the padded copy of what it reads.

    Of Winograd the transformed input, and the products of one block of channels.
    """
    geometry = geometry_of(layer)
    if not isinstance(geometry, WinogradGeometry):
        return geometry.image_bytes // geometry.row_chunks * geometry.is_padded
    tiles = geometry.chunk_tiles * geometry.tiled.products
    channels = geometry.in_channels + geometry.config.oc_bn
    return tiles * channels * item_bytes(layer.workload.types.accumulator)


def packed_bytes(layer: Member) -> int:
    """Weights of a dense layer as its kernel reads them."""
    elements = math.prod(geometry_of(layer).packed_shape)
    return elements * item_bytes(layer.workload.types.accumulator)
