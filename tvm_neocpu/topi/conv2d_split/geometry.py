"""What a config means for products of bytes over data that are split.

``vpmaddubsw`` adds two products in 16 bits and saturates. It does not where the two bytes of data
sum up to 256 at most: 256 * 127 <= 32767, 256 * -128 >= -32768. So data are split, x = low + high:

    low = min(x, 128), high = x - low    of two bytes whose sum is larger
    low = x,           high = 0          of all others

Sums of both parts fit, whatever the weights are. Behind a ReLU one pair in some thousand has a high
part: a tile multiplies the high parts of a block of channels only if any of them is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.dot import DotProduct
from tvm_neocpu.topi.conv2d.workload import ConvWorkload, Pair
from tvm_neocpu.topi.conv2d_integer import geometry as integer
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig, IntegerGeometry

# Two bytes whose sum is larger are cut, each at half of it.
LARGEST_SUM, LARGEST_LOW = 256, 128
# Low and high.
PARTS = 2
# What the products of split data are exact for: those of weights that never saturate.
AS_SMALL_AS = 7
# Channels of a word.
ELEMENTS = 4


@dataclass(frozen=True, order=True)
class SplitConfig(IntegerConfig):
    """The integer template's schedule tuple; words have 4 elements, a step has one word."""

    template: ClassVar[str] = "conv2d_NCHWc_int_split"


@dataclass(frozen=True)
class SplitGeometry(IntegerGeometry):
    """The extents that template, space and cost share."""

    config: SplitConfig

    @property
    def pairs(self) -> int:
        """Pairs of a block: channels c and c + ``pairs`` are added in 16 bits."""
        return self.ic_bn // 2

    @property
    def is_padded(self) -> bool:
        """The split data are a copy."""
        return True

    @property
    def copied_extent(self) -> Pair:
        """Rows and columns of whole tiles."""
        return self.rows, self.tiles[1] * self.config.reg_n

    @property
    def image_bytes(self) -> int:
        """Bytes of the low parts, which are what is read as a rule."""
        return self.conv.in_bytes

    def dot(self, cpu: Cpu) -> DotProduct:
        return cpu.dot_of(ELEMENTS, 1, AS_SMALL_AS)


def misfit(conv: ConvWorkload, config: SplitConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if config.ic_bn % ELEMENTS or not config.ic_bn:
        return f"its ic_bn {config.ic_bn} is no whole number of words"
    if config.dot != ELEMENTS or config.words != 1 or config.signed:
        return f"its steps are words of {ELEMENTS} bytes"
    return integer.misfit(conv, config)
