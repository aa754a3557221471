"""Taps that read padding only are left out of products, and nothing else is."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.conv2d_direct.taps import TapAxis
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig, IntegerGeometry

HEAD = ConvWorkload(1, 64, 65, 65, 32, (3, 3), (1, 1), (36,) * 4, (36, 36))
AXES = st.builds(
    TapAxis,
    tiles=st.integers(1, 6),
    pixels=st.integers(1, 5),
    taps=st.integers(1, 5),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 7),
    begin=st.integers(0, 9),
    end=st.integers(10, 25),
)


@given(AXES)
def test_a_tap_that_reads_a_pixel_is_kept(axis: TapAxis) -> None:
    for tile, tap in itertools.product(range(axis.tiles), range(axis.taps)):
        pixels = np.arange(tile * axis.pixels, (tile + 1) * axis.pixels)
        places = pixels * axis.stride + tap * axis.dilation
        if ((places >= axis.begin) & (places < axis.end)).any():
            assert axis.reads(tile, tap)
    assert 0 <= axis.share <= 1


def test_deeplabs_head_multiplies_half() -> None:
    """Of each axis 123 of 195 products are with pixels; tiles of 13 columns keep some more."""
    geometry = DirectGeometry(HEAD, ConvConfig(16, 32, 13))
    rows, columns = geometry.tap_axes
    assert rows.share == 123 / 195
    assert columns.share == 11 / 15
    assert geometry.share_of_taps == rows.share * columns.share


def test_other_zero_points_are_multiplied() -> None:
    """A zero of a word: of unsigned bytes 0, of shifted ones the centre."""
    kinds = ((0, False, True), (3, False, False), (128, True, True), (0, True, False))
    for zero, signed, skips in kinds:
        conv = ConvWorkload(1, 16, 7, 7, 16, (3, 3), (1, 1), (1,) * 4, types=U8S8, pad_value=zero)
        geometry = IntegerGeometry(conv, IntegerConfig(16, 16, 7, signed=signed))
        assert (geometry.share_of_taps < 1) == skips
