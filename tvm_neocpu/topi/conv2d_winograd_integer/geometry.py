"""What a config of the integer Winograd template means: the fp32 one's, in words of 16 bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import DotProduct
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd import misfit as fp32
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd.matrices import EXACT, conv_matrices
from tvm_neocpu.topi.conv2d_winograd.tails import tail_matrix
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import TiledConv, seen_by_tiles
from tvm_neocpu.topi.conv2d_winograd_integer.matrices import (
    IntegerMatrices,
    in_integers,
    largest_sum,
    shift_of,
)

# Transformed data and weights, and how many of them make a word.
FACTOR_TYPE, WORD = "int16", 2


@dataclass(frozen=True, order=True)
class IntegerWinogradConfig(WinogradConfig):
    """The fp32 template's schedule tuple; its precision needs no choice: sums are exact."""

    template: ClassVar[str] = "conv2d_NCHWc_winograd_int"


@dataclass(frozen=True)
class IntegerTiledConv(TiledConv):
    """The convolution that tiles see, under matrices of integers."""

    @cached_property
    def matrices(self) -> tuple[IntegerMatrices, IntegerMatrices]:
        down, across = conv_matrices(self.seen, self.tile, EXACT)
        return in_integers(down), in_integers(across)

    @property
    def divisor(self) -> int:
        """What the inverse transform's results are too large by."""
        down, across = self.matrices
        return down.divisor * across.divisor


@dataclass(frozen=True)
class IntegerWinogradGeometry(WinogradGeometry):
    """The extents that template, space and cost share."""

    @cached_property
    def tiled(self) -> IntegerTiledConv:
        return tiled_conv(self.conv, self.config.tile, self.config.ic_bn == 0)

    @property
    def ic_bn(self) -> int:
        """All lanes of a first convolution: those without a channel have weights of zero."""
        return self.stored_ic_bn

    @property
    def in_blocks(self) -> int:
        return math.ceil(self.in_channels / self.ic_bn)

    @property
    def factor_type(self) -> str:
        return FACTOR_TYPE

    @property
    def weight_bytes(self) -> int:
        """Of the transformed weights, whose words have 16 bits an element."""
        return item_bytes(FACTOR_TYPE)

    @property
    def inner_steps(self) -> int:
        return self.ic_bn // WORD

    def dot(self, cpu: Cpu) -> DotProduct | None:
        return cpu.dot_of(WORD)


def tiled_conv(conv: ConvWorkload, tile: int, plain: bool) -> IntegerTiledConv:
    """What tiles see of a convolution over blocked data, or over plain data in its phases."""
    return IntegerTiledConv(seen_by_tiles(conv, plain), tile, plain)


def misfit(conv: ConvWorkload, config: IntegerWinogradConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    return misfit_of_words(conv, config) or overflow(conv, config.tile, config.ic_bn == 0)


def misfit_of_words(conv: ConvWorkload, config: WinogradConfig) -> str | None:
    """The same of any words of two channels, all of one group."""
    if conv.groups > 1:
        return "it multiplies words of channels, which no grouped convolution has"
    if config.ic_bn % WORD:
        return f"its ic_bn {config.ic_bn} is no whole number of words"
    return fp32.misfit(conv, config)


def overflow(conv: ConvWorkload, tile: int, plain: bool = False) -> str | None:
    """What does not fit its type in the worst case; ``None`` where everything fits.

    Transformed data and weights have 16 bits. An output has 32, less the bits of its divisor:
    1827 channels of a 3x3 kernel, whether F(2x2) or F(4x4).
    """
    tiled = tiled_conv(conv, tile, plain)
    down, across = tiled.matrices
    data, weight = np.iinfo(conv.types.data), np.iinfo(conv.types.weight)
    largest = np.iinfo(FACTOR_TYPE).max
    ends = zip((down, across), tiled.tails, strict=True)
    below, beside = (
        matrices.b if end is None else tail_matrix(matrices, end) for matrices, end in ends
    )
    every = product((down.b, below), (across.b, beside))
    if any(largest_sum(both, data.min, data.max) > largest for both in every):
        return f"transformed data of tiles of {tile} do not fit {FACTOR_TYPE}"
    if largest_sum((down.g, across.g), weight.min, weight.max) > largest:
        return f"transformed weights of tiles of {tile} do not fit {FACTOR_TYPE}"
    output = conv.in_channels * math.prod(conv.kernel) * int(data.max) * -int(weight.min)
    if output << shift_of(tiled.divisor) > np.iinfo("int32").max:
        return f"sums over {conv.in_channels} channels do not fit 32 bits in tiles of {tile}"
    return None
