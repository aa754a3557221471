"""What a config of the row template means: the integer template's, in words of whole rows.

A first convolution's three channels leave a quarter of each word empty. Here the row of a kernel,
7 columns x 3 channels, is one run of 21 bytes: 6 words instead of 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.topi.conv2d.workload import ConvWorkload, Pair
from tvm_neocpu.topi.conv2d_integer import geometry as integer
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig, IntegerGeometry

# Elements of a word: only words of bytes are offered.
ELEMENTS = 4


@dataclass(frozen=True, order=True)
class ImageRowsConfig(IntegerConfig):
    """The integer template's schedule tuple, of plain data."""

    template: ClassVar[str] = "conv2d_NCHWc_int_rows"


@dataclass(frozen=True)
class ImageRowsGeometry(IntegerGeometry):
    """The extents that template, space and cost share."""

    config: ImageRowsConfig

    @property
    def kernel(self) -> Pair:
        """A row of the kernel is one column of many channels."""
        return self.conv.kernel[0], 1

    @property
    def skips_padding(self) -> bool:
        """No: a kernel's columns are channels here, and a first convolution has little padding."""
        return False

    @property
    def skips_pixels(self) -> bool:
        """No: words are runs of the image as it is, of a 1x1 kernel, too."""
        return False

    @property
    def row_elements(self) -> int:
        """Elements of a kernel's row: its columns, and their channels."""
        return row_elements(self.conv)

    @property
    def inner_steps(self) -> int:
        return words_of_row(self.conv, self.config.dot)

    @property
    def image_extent(self) -> Pair:
        """Rows and columns of the copy, with what the last word reads behind its row."""
        conv, (rows, cols) = self.conv, self.padded_extent
        top, left, bottom, right = conv.padding
        read = (self.columns - 1) * conv.stride[1] * conv.in_channels + self.words * self.config.dot
        columns = max(conv.width + left + right, cols, math.ceil(read / conv.in_channels))
        return max(conv.height + top + bottom, rows), columns


def row_elements(conv: ConvWorkload) -> int:
    """Elements that a row of the kernel multiplies."""
    return conv.kernel[1] * conv.in_channels


def words_of_row(conv: ConvWorkload, elements: int = ELEMENTS) -> int:
    """Words of them; zero weights stand against what fills the last one."""
    return math.ceil(row_elements(conv) / elements)


def has_runs(conv: ConvWorkload) -> bool:
    """Whether the rows of the kernel are runs of a plain image."""
    return conv.reads_plain and conv.groups == 1 and conv.dilation[1] == 1


def saves_words(conv: ConvWorkload) -> bool:
    """Whether words of rows are fewer than those of single pixels, whose rows are unbroken."""
    if not has_runs(conv):
        return False
    return words_of_row(conv) < conv.kernel[1] * math.ceil(conv.in_channels / ELEMENTS)


def misfit(conv: ConvWorkload, config: ImageRowsConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if config.ic_bn or config.dot != ELEMENTS or config.words > 1 or config.signed:
        return "it reads plain data in single words of unsigned bytes"
    if not has_runs(conv):
        return "the rows of its kernel are no runs of a plain image"
    return integer.misfit(conv, config)
