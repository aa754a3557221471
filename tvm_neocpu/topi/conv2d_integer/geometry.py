"""What a config of the integer template means for a convolution: the direct one's, in words.

A word is 32 bits of neighbouring channels: 4 of 8 bits, or 2 of 16. One instruction multiplies a
word of data, broadcast, with a word of weights for each lane (:mod:`tvm_neocpu.core.machine.dot`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import ANY_WEIGHTS, SIGNED_BYTES, WORD_BYTES, DotProduct
from tvm_neocpu.core.types import Types, item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload, Pair
from tvm_neocpu.topi.conv2d_direct import geometry as direct
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry

# A number, or TVM's expression of one.
Index: TypeAlias = Any
# Elements of a word -> the type in which data and weights stand in it.
DATA_TYPES = {4: "uint8", 2: "int16"}
WEIGHT_TYPES = {4: "int8", 2: "int16"}
# What is subtracted from uint8 data for words of signed bytes.
CENTRE = 128
# Words that one step of the reduction multiplies at most.
MAX_WORDS = 2


def data_type_of(elements: int, signed: bool) -> str:
    """The type of the data in words of so many elements."""
    return SIGNED_BYTES if signed else DATA_TYPES[elements]


@dataclass(frozen=True)
class Corrections:
    """What is added to the sums of shifted data: a row for each block of output channels.

    sum(x * w) = sum((x - 128) * w) + 128 * sum(w). The rows stand behind the ``blocks`` panels of
    the packed weight, as many in a panel as it has words, ``shape``.
    """

    blocks: int
    shape: tuple[int, ...]
    exist: bool

    @property
    def panels(self) -> int:
        """Panels that they take; the last one is filled up with zeros."""
        return math.ceil(self.blocks / math.prod(self.shape)) if self.exist else 0

    def row(self, block: Index) -> tuple[Index, ...]:
        """The index of a block's row in the packed weight; ``block`` may be an expression."""
        index: list[Index] = []
        for axis, extent in enumerate(self.shape):
            place = block // math.prod(self.shape[axis + 1 :])
            index.append(place % extent)
        return (self.blocks + block // math.prod(self.shape), *index)


@dataclass(frozen=True, order=True)
class IntegerConfig(ConvConfig):
    """The direct template's schedule tuple, and the words that a step multiplies.

    ``dot``: elements of a word; ``words``: how many a step adds up before it widens the sum.
    ``signed``: words of bytes are shifted by :data:`CENTRE`, for what multiplies signed ones.
    """

    template: ClassVar[str] = "conv2d_NCHWc_int"

    dot: int = 4
    words: int = 1
    signed: bool = False


@dataclass(frozen=True)
class IntegerGeometry(DirectGeometry):
    """The extents that template, space and cost share."""

    config: IntegerConfig

    @property
    def data_type(self) -> str:
        """The type of the elements of a word of data."""
        return data_type_of(self.config.dot, self.config.signed)

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
        types = self.conv.types
        return self.conv.in_bytes * item_bytes(self.data_type) // item_bytes(types.data)

    def dot(self, cpu: Cpu) -> DotProduct | None:
        config = self.config
        return cpu.dot_of(config.dot, config.words, self.conv.weight_bits, config.signed)

    @property
    def is_padded(self) -> bool:
        """Whether the template reads a copy of its input: padded, widened, or filled up."""
        is_filled = self.words * self.config.dot != self.ic_bn
        return super().is_padded or self.converts or is_filled or self.config.ic_bn == 0

    @property
    def converts(self) -> bool:
        """Whether the image has another type than the words that are multiplied."""
        return self.data_type != self.conv.types.data

    @property
    def skips_padding(self) -> bool:
        """Whether padding is a zero of the words that are multiplied."""
        return self.outside == 0

    @property
    def outside(self) -> int:
        """What stands in words in the place of padding."""
        return self.conv.pad_value - CENTRE * self.config.signed

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
    def image_extent(self) -> Pair:
        """Rows and columns of the image that the reduction reads: the copy's, if there is one."""
        conv, (top, left, bottom, right) = self.conv, self.conv.padding
        if not self.is_padded:
            return conv.height, conv.width
        image = conv.height, conv.width
        if self.skips_pixels:
            image = conv.out_height, conv.out_width
        rows, cols = self.padded_extent
        return max(image[0] + top + bottom, rows), max(image[1] + left + right, cols)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight, in words: (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels).

        With corrections behind it where the data are signed.
        """
        panel = self.in_blocks, *self.kernel, self.words, self.config.tile_channels
        return (self.out_blocks + self.corrections.panels, *panel)

    @property
    def corrections(self) -> Corrections:
        """Their place in the packed weight; they take no panel unless the data are signed."""
        panel = self.in_blocks, *self.kernel, self.words
        return Corrections(self.out_blocks, panel, self.config.signed)


def misfit(conv: ConvWorkload, config: IntegerConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    return (
        misfit_of_words(conv.types, config.dot, config.signed)
        or direct.misfit_in_groups(conv, config)
        or _misfit_of_small_weights(conv, config)
    )


def _misfit_of_small_weights(conv: ConvWorkload, config: IntegerConfig) -> str | None:
    """Why products cannot be added in 16 bits; ``None`` where they can, or are not.

    Weights are known to be small in words counted from the first channel, so that blocks of
    channels have to begin where words do.
    """
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


def misfit_of_words(types: Types, elements: int, signed: bool) -> str | None:
    """Why no product of such types has words of so many elements; ``None`` where it has."""
    if elements not in DATA_TYPES:
        return f"no word has {elements} elements"
    if signed and DATA_TYPES[elements] != "uint8":
        return f"words of {elements} elements are signed as they are"
    if types.weight != "int8" and WEIGHT_TYPES[elements] == "int8":
        return f"its words have no room for weights of {types.weight}"
    return None
