"""Words of channels: when the image is copied into them, what weights they make."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.machine.dot import PORTABLE_4, VPMADDWD
from tvm_neocpu.core.types import U8S8, U8S16
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer.geometry import (
    Corrections,
    IntegerConfig,
    IntegerGeometry,
    misfit,
)

CONV = ConvWorkload(1, 24, 14, 14, 48, (3, 3), types=U8S8)
CONFIG = IntegerConfig(ic_bn=8, oc_bn=16, reg_n=6, dot=4)


def test_bytes_are_read_as_they_lie_and_16_bits_are_a_copy() -> None:
    assert not IntegerGeometry(CONV, CONFIG).is_padded
    assert IntegerGeometry(CONV, replace(CONFIG, dot=2)).is_padded
    assert IntegerGeometry(replace(CONV, padding=(1, 1, 1, 1)), CONFIG).is_padded
    assert IntegerGeometry(replace(CONV, in_channels=6), replace(CONFIG, ic_bn=6)).is_padded
    assert IntegerGeometry(replace(CONV, in_channels=4), replace(CONFIG, ic_bn=0)).is_padded


def test_signed_bytes_are_a_copy() -> None:
    geometry = IntegerGeometry(CONV, replace(CONFIG, signed=True))
    assert geometry.is_padded and geometry.data_type == "int8"
    assert misfit(CONV, replace(CONFIG, signed=True)) is None
    assert misfit(CONV, replace(CONFIG, signed=True, dot=2)) is not None


@given(st.integers(1, 30), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_every_block_has_a_correction_of_its_own(blocks: int, shape: list[int]) -> None:
    corrections = Corrections(blocks, tuple(shape), exist=True)
    rows = [corrections.row(block) for block in range(blocks)]
    assert len(set(rows)) == blocks
    ends = (blocks + corrections.panels, *shape)
    assert all(0 <= at < end for row in rows for at, end in zip(row, ends, strict=True))
    assert all(row[0] >= blocks for row in rows)
    assert replace(corrections, exist=False).panels == 0


@pytest.mark.parametrize(("dot", "ic_bn", "words"), [(4, 8, 2), (2, 8, 4), (4, 6, 2), (2, 3, 2)])
def test_words_of_a_block(dot: int, ic_bn: int, words: int) -> None:
    geometry = IntegerGeometry(CONV, replace(CONFIG, ic_bn=ic_bn, dot=dot))
    assert geometry.words == words
    assert geometry.packed_shape == (3, 24 // ic_bn, 3, 3, words, 16)
    assert geometry.steps == 9 * 24 // ic_bn * words
    assert geometry.weight_bytes == 4 * 48 * geometry.steps


def test_a_copy_for_a_strided_1x1_kernel_has_only_what_is_read() -> None:
    strided = replace(CONV, kernel=(1, 1), stride=(2, 3))
    copied = IntegerGeometry(strided, replace(CONFIG, dot=2, reg_n=5))
    assert copied.skips_pixels and copied.stride == (1, 1) and copied.padded_extent == (7, 5)
    in_place = IntegerGeometry(strided, replace(CONFIG, reg_n=5))
    assert not in_place.skips_pixels and in_place.stride == (2, 3)
    padded = replace(strided, padding=(1, 1, 1, 1))
    assert not IntegerGeometry(padded, replace(CONFIG, dot=2)).skips_pixels


def test_the_image_counts_in_the_type_that_is_read() -> None:
    assert IntegerGeometry(CONV, CONFIG).image_bytes == CONV.in_bytes
    assert IntegerGeometry(CONV, replace(CONFIG, dot=2)).image_bytes == 2 * CONV.in_bytes


def test_the_cpu_says_what_multiplies() -> None:
    cpu = Cpu("haswell", AVX2, 1, dots=(VPMADDWD,))
    assert IntegerGeometry(CONV, replace(CONFIG, dot=2)).dot(cpu) == VPMADDWD
    assert IntegerGeometry(CONV, CONFIG).dot(cpu) == PORTABLE_4


@pytest.mark.parametrize(
    ("conv", "config", "reason"),
    [
        (CONV, replace(CONFIG, dot=3), "no word has 3 elements"),
        (replace(CONV, types=U8S16), CONFIG, "its words have no room for weights of int16"),
        (CONV, replace(CONFIG, ic_bn=7), "its ic_bn 7 does not divide 24 channels"),
        (
            replace(CONV, groups=2),
            replace(CONFIG, ic_bn=24),
            "its ic_bn 24 does not divide 12 channels",
        ),
        (CONV, replace(CONFIG, words=3), "no step has 3 words"),
        (
            CONV,
            replace(CONFIG, words=2, dot=2),
            "steps of 2 words have 4 elements a word, of blocked data",
        ),
        (
            replace(CONV, weight_bits=7),
            replace(CONFIG, ic_bn=6),
            "its ic_bn 6 is no whole number of words",
        ),
        (
            replace(CONV, weight_bits=6),
            replace(CONFIG, ic_bn=12, words=2),
            "its ic_bn 12 is no whole number of words",
        ),
    ],
)
def test_misfits(conv: ConvWorkload, config: IntegerConfig, reason: str) -> None:
    assert misfit(conv, config) == reason
    assert misfit(CONV, CONFIG) is None
