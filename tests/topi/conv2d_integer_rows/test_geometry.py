"""What the row template's configs mean: words of whole rows, and a copy that holds them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer_rows.geometry import (
    ImageRowsConfig,
    ImageRowsGeometry,
    saves_words,
    words_of_row,
)

STEM = ConvWorkload(1, 3, 28, 28, 32, (7, 7), (2, 2), (3, 3, 3, 3), types=U8S8)
CONFIG = ImageRowsConfig(ic_bn=0, oc_bn=16, reg_n=7, unroll_ker=False, oh_bn=14)


@pytest.mark.parametrize(
    ("width", "channels", "words", "saves"),
    [(7, 3, 6, True), (5, 3, 4, True), (11, 3, 9, True), (3, 3, 3, False), (7, 4, 7, False)],
)
def test_a_row_of_bytes_is_cut_into_words(
    width: int, channels: int, words: int, saves: bool
) -> None:
    conv = replace(STEM, in_channels=channels, kernel=(7, width))
    assert words_of_row(conv) == words
    assert saves_words(conv) == saves


def test_grey_images_take_a_word_for_four_columns() -> None:
    assert words_of_row(replace(STEM, in_channels=1)) == 2


def test_the_copy_has_what_the_last_word_reads() -> None:
    geometry = ImageRowsGeometry(STEM, CONFIG)
    last = (geometry.columns - 1) * 2 * 3 + geometry.words * 4
    assert geometry.image_extent[1] * 3 >= last
