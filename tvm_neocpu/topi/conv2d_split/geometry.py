"""What a config means for products of bytes over data that are split.

``vpmaddubsw`` adds two products in 16 bits and saturates. It does not where the two bytes of data
sum up to 256 at most: 256 * 127 <= 32767, 256 * -128 >= -32768. So data are split, x = low + high:

    low = min(x, 128), high = x - low    of two bytes whose sum is larger
    low = x,           high = 0          of all others

Sums of both parts fit, whatever the weights are. Behind a ReLU one pair in some thousand has a high
part: a tile multiplies the high parts of a block of channels only if any of them is not zero. Where
even four bytes sum up to 256 at most, those of two words are added before they are widened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import FOURS_FIT, DotProduct
from tvm_neocpu.topi.conv2d.workload import ConvWorkload, Pair
from tvm_neocpu.topi.conv2d_integer import geometry as integer
from tvm_neocpu.topi.conv2d_integer.geometry import Index, IntegerConfig, IntegerGeometry

# Bytes whose sum is larger do not fit: two are cut, each at half of it; four are not added.
LARGEST_SUM, LARGEST_LOW = 256, 128
# Low and high.
PARTS = 2
# Channels of a word, and words of a step.
ELEMENTS, WORDS = 4, 2
# Steps of the widest block, 64 channels.
MOST_STEPS = 8


@dataclass(frozen=True, order=True)
class SplitConfig(IntegerConfig):
    """The integer template's schedule tuple; words have 4 elements, a step has two words."""

    template: ClassVar[str] = "conv2d_NCHWc_int_split"

    words: int = WORDS


@dataclass(frozen=True)
class SplitGeometry(IntegerGeometry):
    """The extents that template, space and cost share."""

    config: SplitConfig

    @property
    def pairs(self) -> int:
        """Pairs of a block: channels c and c + ``pairs`` are added in 16 bits."""
        return self.ic_bn // 2

    @property
    def loop_steps(self) -> int:
        """A block's test costs little, whatever the block's width: it is counted apart."""
        return MOST_STEPS

    @property
    def blocks_of_tile(self) -> int:
        """Blocks of channels, of all taps, that a tile multiplies: each is tested."""
        return self.in_blocks * math.prod(self.conv.kernel)

    @property
    def is_padded(self) -> bool:
        """The split data are a copy."""
        return True

    @property
    def skips_padding(self) -> bool:
        """No: a tile looks at each tap's data anyway."""
        return False

    @property
    def copied_extent(self) -> Pair:
        """Rows and columns of the padded image that whole tiles read."""
        (down, across), reach = self.stride, self.conv.reach
        columns = self.tiles[1] * self.config.reg_n
        return (self.rows - 1) * down + reach[0], (columns - 1) * across + reach[1]

    @property
    def flags_tiles(self) -> bool:
        """Whether a tile has one flag for each block of channels: there is one tap."""
        return self.conv.kernel == (1, 1) and self.stride == (1, 1)

    def flag_of(self, pixel: tuple[Index, Index], tap: tuple[Index, Index]) -> tuple[Index, Index]:
        """Where the flag of an output pixel's tile is, for a tap of the kernel."""
        config, dilation = self.config, self.conv.dilation
        tile = pixel[0] // config.reg_m, pixel[1] // config.reg_n
        if self.flags_tiles:
            return tile
        begin = pixel[0], tile[1] * config.reg_n
        row, column = (
            at * step + which * apart
            for at, step, which, apart in zip(begin, self.stride, tap, dilation, strict=True)
        )
        return row, column

    @property
    def image_bytes(self) -> int:
        """Bytes of the low parts, which are what is read as a rule."""
        return self.conv.in_bytes

    def dot(self, cpu: Cpu) -> DotProduct:
        return product(cpu)

    @property
    def order(self) -> list[int]:
        """A block's channels in the order of packed weights.

        A word has channels c, c + n, c + 1 and c + n + 1 of 2 n; the next one the same of the next
        quarter. So whole vectors of channels are neighbours in 16 bits, and in sums of four.
        """
        half, quarter = self.pairs, self.pairs // 2
        return [
            pair + at
            for first in range(0, quarter, 2)
            for word in (first, first + quarter)
            for pair in (word, word + 1)
            for at in (0, half)
        ]


def product(cpu: Cpu) -> DotProduct:
    """What multiplies most blocks of channels: two words at once, as if weights were small."""
    return cpu.dot_of(ELEMENTS, WORDS, FOURS_FIT)


def temporaries_of(vectors: int, cpu: Cpu) -> int:
    """Registers that a step takes beside its tile and one word's weights and pixel.

    These are the product's own, the other word's weights and pixel, and one that LLVM wants (Zen 3,
    256x14x14->1024: tiles of 4 pixels x 2 vectors, which leave none, take 720 us, 7 x 1 510).
    """
    return product(cpu).temporaries + (WORDS - 1) * (vectors + 1) + 1


def upgrade(knobs: dict[str, Any]) -> dict[str, Any]:
    """The knobs of a log line as they are today: steps of one word have become steps of two."""
    return knobs | {"words": WORDS} if knobs.get("words") == 1 else knobs


def misfit(conv: ConvWorkload, config: SplitConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if config.ic_bn % (ELEMENTS * WORDS) or not config.ic_bn:
        return f"its ic_bn {config.ic_bn} is no whole number of steps"
    if config.dot != ELEMENTS or config.words != WORDS or config.signed:
        return f"its steps are {WORDS} words of {ELEMENTS} bytes"
    if conv.kernel[1] > 1 and config.unroll_ker:
        return "its taps are a loop"
    if config.reg_m > 1 and not SplitGeometry(conv, config).flags_tiles:
        return "its tiles are parts of a row"
    return integer.misfit(conv, config)
