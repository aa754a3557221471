"""The workload of a deformable 2-D convolution (ONNX's DeformConv; Dai et al., ICCV 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.core.types import FP32, Types
from tvm_neocpu.topi.conv2d.workload import ConvWorkload, Padding, Pair, Shape4

# Multiply-adds of a sampled value: one for each of the four pixels around the sampled place.
CORNERS = 4


@dataclass(frozen=True, order=True)
class DeformConvWorkload(Workload):
    """A convolution whose taps are moved by an offset of their own at every output pixel.

    Shapes are logical NCHW, ``padding`` is (top, left, bottom, right). The input channels are split
    into ``offset_groups``; a group shares its offsets. ``masked``: each tap has a factor, too.
    """

    batch: int
    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    offset_groups: int = 1
    masked: bool = False
    types: Types = FP32

    @cached_property
    def conv(self) -> ConvWorkload:
        """The convolution that it is where all offsets are zero."""
        return ConvWorkload(
            self.batch,
            self.in_channels,
            self.height,
            self.width,
            self.out_channels,
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.types,
        )

    @property
    def misfit(self) -> str | None:
        """Why there is no such convolution; ``None`` if there is."""
        for count in (self.groups, self.offset_groups):
            if count < 1 or self.in_channels % count:
                return f"{count} groups do not divide {self.in_channels} input channels"
        if self.out_channels % self.groups:
            return f"{self.groups} groups do not divide {self.out_channels} output channels"
        if min(self.conv.out_height, self.conv.out_width) < 1:
            return "its window is larger than its input"
        return None

    @property
    def in_shape(self) -> Shape4:
        return self.conv.in_shape

    @property
    def out_shape(self) -> Shape4:
        return self.conv.out_shape

    @property
    def weight_shape(self) -> Shape4:
        """OIHW; I counts the channels of one group."""
        return self.conv.weight_shape

    @property
    def offset_shape(self) -> Shape4:
        """(N, 2 * offset_groups * R * S, OH, OW): for each tap rows down, then columns right."""
        return (self.batch, 2 * self._moved_taps, self.conv.out_height, self.conv.out_width)

    @property
    def mask_shape(self) -> Shape4:
        """(N, offset_groups * R * S, OH, OW)."""
        return (self.batch, self._moved_taps, self.conv.out_height, self.conv.out_width)

    @property
    def shared_channels(self) -> int:
        """The widest run of input channels of one group and one offset group, from any multiple.

        A block of channels is a factor of it.
        """
        groups, offset_groups = self.groups, self.offset_groups
        return gcd(self.in_channels // groups, self.in_channels // offset_groups)

    @property
    def samples(self) -> int:
        """Places that one run looks up: those of every tap, offset group and output pixel."""
        return self.batch * self._moved_taps * self.conv.out_height * self.conv.out_width

    @property
    def flops(self) -> int:
        """The product's, and the interpolation's of every sampled value."""
        sampled = self.samples * (self.in_channels // self.offset_groups)
        return self.conv.flops + 2 * CORNERS * sampled

    @property
    def operands(self) -> tuple[Operand, ...]:
        types = self.types
        mask = (Operand("mask", self.mask_shape, types.data),) if self.masked else ()
        return (
            Operand("data", self.in_shape, types.data, Role.FEATURE_MAP),
            Operand("weight", self.weight_shape, types.weight, Role.WEIGHT),
            Operand("offset", self.offset_shape, types.data),
            *mask,
        )

    def args(self) -> list[Any]:
        """The argument list of AutoTVM's ``deformable_conv2d_nchw`` task, and a mask behind it."""
        data, weight, *moves = (
            ["TENSOR", list(operand.shape), operand.dtype] for operand in self.operands
        )
        offset, *mask = moves
        window = [list(self.stride), list(self.padding), list(self.dilation)]
        groups = [self.offset_groups, self.groups]
        return [data, offset, weight, *window, *groups, self.types.output, *mask]

    def __str__(self) -> str:
        """``"deformable 64x56x56->64 3x3 p1 og2 masked"``."""
        parts = [f"deformable {self.conv}"]
        if self.offset_groups != 1:
            parts.append(f"og{self.offset_groups}")
        if self.masked:
            parts.append("masked")
        return " ".join(parts)

    @property
    def _moved_taps(self) -> int:
        return self.offset_groups * self.kernel[0] * self.kernel[1]
