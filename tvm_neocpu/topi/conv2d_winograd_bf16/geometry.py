"""What a config of the bf16 Winograd template means: the integer one's words, of pairs of bf16."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import DotProduct
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.matrices import COARSE, WinogradMatrices, conv_matrices
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import TiledConv, seen_by_tiles
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import (
    IntegerWinogradGeometry,
    misfit_of_words,
)
from tvm_neocpu.topi.math.half_precision import BITS


@dataclass(frozen=True, order=True)
class Bf16WinogradConfig(WinogradConfig):
    """The fp32 template's schedule tuple; a step multiplies one word of two channels."""

    template: ClassVar[str] = "conv2d_NCHWc_winograd_bf16"


@dataclass(frozen=True)
class Bf16TiledConv(TiledConv):
    """The convolution that tiles see, under matrices that lose little in bf16."""

    @cached_property
    def matrices(self) -> tuple[WinogradMatrices, WinogradMatrices]:
        return conv_matrices(self.seen, self.tile, COARSE)


@dataclass(frozen=True)
class Bf16WinogradGeometry(IntegerWinogradGeometry):
    """The extents that template, space and cost share."""

    config: Bf16WinogradConfig

    @cached_property
    def tiled(self) -> Bf16TiledConv:  # type: ignore[override]
        return tiled_conv(self.conv, self.config.tile, self.config.ic_bn == 0)

    @property
    def factor_type(self) -> str:
        """The type in which data are transformed, before they are rounded."""
        return self.conv.types.accumulator

    @property
    def packed_type(self) -> str:
        """That of the elements of a word of transformed data: their bits."""
        return BITS

    def dot(self, cpu: Cpu) -> DotProduct | None:
        return cpu.bf16


def tiled_conv(conv: ConvWorkload, tile: int, plain: bool) -> Bf16TiledConv:
    """What tiles see of a convolution over blocked data, or over plain data in its phases."""
    return Bf16TiledConv(seen_by_tiles(conv, plain), tile, plain)


def misfit(conv: ConvWorkload, config: Bf16WinogradConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    return misfit_of_words(conv, config)
