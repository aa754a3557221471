"""What a config of the integer template means for a convolution: the direct one's, in words.

A word is 32 bits of neighbouring channels: 4 of 8 bits, or 2 of 16. One instruction multiplies a
word of data, broadcast, with a word of weights for each lane (:mod:`tvm_neocpu.core.dot`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.dot import ANY_WEIGHTS, WORD_BITS, DotProduct
from tvm_neocpu.core.types import Types, item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload, Pair
from tvm_neocpu.topi.conv2d_direct import geometry as direct
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry

WORD_BYTES = WORD_BITS // 8
# Elements of a word -> the type in which data and weights stand in it.
DATA_TYPES = {4: "uint8", 2: "int16"}
WEIGHT_TYPES = {4: "int8", 2: "int16"}
# Words that one step of the reduction multiplies at most.
MAX_WORDS = 2


@dataclass(frozen=True, order=True)
class IntegerConfig(ConvConfig):
    """The direct template's schedule tuple, and the words that a step multiplies.

    ``dot``: elements of a word; ``words``: how many a step adds up before it widens the sum.
    """

    template: ClassVar[str] = "conv2d_NCHWc_int"

    dot: int = 4
    words: int = 1


@dataclass(frozen=True)
class IntegerGeometry(DirectGeometry):
    """The extents that template, space and cost share."""

    config: IntegerConfig

    @property
    def data_type(self) -> str:
        """The type of the elements of a word of data."""
        return DATA_TYPES[self.config.dot]

    @property
    def words(self) -> int:
        """Words of an input block; zero weights stand against what fills the last one."""
        return self.inner_steps * self.config.words

    @property
    def inner_steps(self) -> int:
        return math.ceil(self.ic_bn / (self.config.dot * self.config.words))

    @property
    def row_bytes(self) -> int:
        return WORD_BYTES * self.config.words * self.config.tile_channels

    @property
    def weight_bytes(self) -> int:
        return WORD_BYTES * self.config.words * self.steps * self.conv.out_channels

    @property
    def image_bytes(self) -> int:
        return item_bytes(self.data_type) * self.conv.in_bytes

    def dot(self, cpu: Cpu) -> DotProduct | None:
        return cpu.dot_of(self.config.dot, self.config.words, self.conv.weight_bits)

    @property
    def is_padded(self) -> bool:
        """Whether the template reads a copy of its input: padded, widened, or filled up."""
        is_filled = self.words * self.config.dot != self.ic_bn
        is_widened = self.data_type != self.conv.types.data
        return super().is_padded or is_widened or is_filled or self.config.ic_bn == 0

    @property
    def skips_pixels(self) -> bool:
        """Whether the copy leaves out what a strided 1x1 kernel does not read."""
        conv = self.conv
        strided = conv.kernel == (1, 1) and conv.stride != (1, 1) and not any(conv.padding)
        return strided and self.is_padded

    @property
    def stride(self) -> Pair:
        return (1, 1) if self.skips_pixels else self.conv.stride

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight, in words: (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels)."""
        blocks = self.out_blocks, self.in_blocks
        return (*blocks, *self.conv.kernel, self.words, self.config.tile_channels)


def misfit(conv: ConvWorkload, config: IntegerConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    return (
        misfit_of_words(conv.types, config.dot)
        or direct.misfit(conv, config)
        or _misfit_of_small_weights(conv, config)
    )


def _misfit_of_small_weights(conv: ConvWorkload, config: IntegerConfig) -> str | None:
    """The same of words whose products are added in 16 bits: as the weights were looked at."""
    if config.words not in (1, MAX_WORDS):
        return f"no step has {config.words} words"
    if config.words > 1 and (config.dot != 4 or not config.ic_bn):
        return f"steps of {config.words} words have 4 elements a word, of blocked data"
    channels, step = conv.in_channels // conv.groups, config.dot * config.words
    if config.dot != 4 or not config.ic_bn or config.ic_bn % step == 0:
        return None
    if conv.weight_bits == ANY_WEIGHTS or channels % 4 or config.ic_bn == channels:
        return None
    return f"its ic_bn {config.ic_bn} is no whole number of words"


def misfit_of_words(types: Types, elements: int) -> str | None:
    """The same of words of so many elements."""
    if elements not in DATA_TYPES:
        return f"no word has {elements} elements"
    if types.weight != "int8" and WEIGHT_TYPES[elements] == "int8":
        return f"its words have no room for weights of {types.weight}"
    return None
