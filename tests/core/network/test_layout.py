"""Layouts: their names, the shapes they store, the channel counts they fit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.network.layout import NCHW, Layout, factors, largest_factor


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1, (1,)), (12, (1, 2, 3, 4, 6, 12)), (13, (1, 13)), (49, (1, 7, 49))],
)
def test_factors(number: int, expected: tuple[int, ...]) -> None:
    assert factors(number) == expected


@given(st.integers(1, 3000))
def test_factors_are_all_divisors_in_order(number: int) -> None:
    assert factors(number) == tuple(d for d in range(1, number + 1) if number % d == 0)


@pytest.mark.parametrize(("text", "block"), [("NCHW", 0), ("NCHW1c", 1), ("NCHW16c", 16)])
def test_names_are_read_and_written(text: str, block: int) -> None:
    assert Layout.parse(text) == Layout(block)
    assert str(Layout(block)) == text


@pytest.mark.parametrize("text", ["", "NHWC", "NCHWc", "NCHW0c", "NCHW-4c", "NCHW16c ", "nchw8c"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected NCHW or NCHW<x>c"):
        Layout.parse(text)


def test_negative_block_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        Layout(-1)


def test_fits() -> None:
    assert NCHW.fits(7)
    assert Layout(4).fits(12)
    assert not Layout(8).fits(12)


def test_shape_of() -> None:
    assert NCHW.shape_of((2, 12, 5, 6)) == (2, 12, 5, 6)
    assert Layout(4).shape_of((2, 12, 5, 6)) == (2, 3, 5, 6, 4)


def test_shape_of_channels_that_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="12 channels cannot be stored as NCHW8c"):
        Layout(8).shape_of((1, 12, 5, 6))


@given(st.integers(0, 16).map(Layout), st.tuples(*[st.integers(1, 9)] * 4))
def test_logical_shape_undoes_shape_of(layout: Layout, shape: tuple[int, int, int, int]) -> None:
    batch, channels, height, width = shape
    logical = (batch, channels * max(layout.block, 1), height, width)
    stored = layout.shape_of(logical)
    assert math.prod(stored) == math.prod(logical)
    assert layout.logical_shape(stored) == logical


@pytest.mark.parametrize(
    ("number", "at_most", "factor"), [(12, 5, 4), (12, 12, 12), (13, 5, 1), (7, 0, 1)]
)
def test_largest_factor(number: int, at_most: int, factor: int) -> None:
    assert largest_factor(number, at_most) == factor
