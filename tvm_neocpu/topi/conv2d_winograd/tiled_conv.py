"""What Winograd's tiles see of a convolution.

A strided first convolution is computed over its phases (:mod:`.phases`): template, space, cost,
packing and explain ask :class:`TiledConv` what that makes of shapes, and nobody else decides it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.matrices import WinogradMatrices, conv_matrices
from tvm_neocpu.topi.conv2d_winograd.tails import Tail, tail_of


@dataclass(frozen=True)
class TiledConv:
    """The convolution that tiles of ``tile`` outputs see.

    ``seen`` is it: the given convolution over blocked data, that over its phases over plain data.
    """

    seen: ConvWorkload
    tile: int
    plain: bool

    @cached_property
    def matrices(self) -> tuple[WinogradMatrices, WinogradMatrices]:
        """Down and across."""
        return conv_matrices(self.seen, self.tile)

    @property
    def products(self) -> int:
        """Multiplications of a tile, for one channel."""
        down, across = self.matrices
        return down.products * across.products

    @property
    def outputs(self) -> tuple[int, int]:
        """Output rows and columns of a tile."""
        down, across = self.matrices
        return down.outputs, across.outputs

    @property
    def hop(self) -> tuple[int, int]:
        """Input rows and columns from one tile to the next."""
        (rows, columns), (down, across) = self.outputs, self.seen.stride
        return rows * down, columns * across

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles down and across that cover the output."""
        rows, columns = self.outputs
        return math.ceil(self.seen.out_height / rows), math.ceil(self.seen.out_width / columns)

    @property
    def tails(self) -> tuple[Tail | None, Tail | None]:
        """What the last tile down and the last one across take, where they overhang the output.

        Of a stride nobody measured it: there they count as whole tiles.
        """
        if self.seen.stride != (1, 1):
            return None, None
        sides = zip(self.matrices, (self.seen.out_height, self.seen.out_width), strict=True)
        down, across = (tail_of(m, (side - 1) % m.outputs + 1) for m, side in sides)
        return down, across

    @property
    def lanes(self) -> int:
        """Channels of a pixel in memory where the data is plain: one vector, 16 for 12."""
        return 1 << (self.seen.in_channels - 1).bit_length()


def seen_by_tiles(conv: ConvWorkload, plain: bool) -> ConvWorkload:
    """The convolution itself; over its phases, with stride 1, where the data is plain."""
    return unit_stride(conv) if plain else conv


def unit_stride(conv: ConvWorkload) -> ConvWorkload:
    """The same convolution over phases: channels are (channel, row's phase, column's phase)."""
    down, across = conv.stride
    kernel = -(-conv.kernel[0] // down), -(-conv.kernel[1] // across)
    return replace(
        conv,
        in_channels=conv.in_channels * down * across,
        height=conv.out_height + kernel[0] - 1,
        width=conv.out_width + kernel[1] - 1,
        kernel=kernel,
        stride=(1, 1),
        padding=(0, 0, 0, 0),
    )
