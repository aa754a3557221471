"""Which int8 weights keep sums of two or four products with bytes within 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tvm_neocpu.topi.conv2d_integer.small_weights import (
    SUMMED,
    from_halves,
    in_halves,
    is_small,
    small_bits,
)


def of_channels(*values: int) -> np.ndarray:
    return np.array(values, "int8").reshape(1, -1, 1, 1)


@pytest.mark.parametrize(
    ("weight", "bits"),
    [
        (of_channels(32, -32, 32, 32, 32, 32, 32, 32), 6),
        (of_channels(64, 64, -64, -64, 64, 64, -64, -64), 7),
        (of_channels(127, 2, 0, 0, 0, 0, 0, 0), 8),
        (of_channels(-128, -1, 0, 0, 0, 0, 0, 0), 8),
        # Large weights whose neighbours are small, or of the other sign.
        (of_channels(127, 1, -128, 0, 0, 0, 0, 0), 6),
        (of_channels(127, -128, 127, -128, 0, 0, 0, 0), 6),
        (of_channels(127, 1, 0, 0, 1, 0, 0, 0), 7),
        # The halves of a word are summed apart.
        (of_channels(0, 127, 127, 0, 0, 0, 0, 0), 6),
        # Blocks of five channels would begin between the channels of a pair.
        (of_channels(127, 0, 0, 0, 0), 8),
        (of_channels(64, 64, 64, 64, 64), 7),
    ],
    ids=str,
)
def test_bits(weight: np.ndarray, bits: int) -> None:
    assert small_bits(weight) == bits


def test_other_types_are_not_small() -> None:
    assert small_bits(np.zeros((1, 8, 1, 1), "int16")) == 8


@given(arrays("int8", (2, 12, 1, 2)), st.sampled_from([6, 7]))
def test_small_weights_do_not_saturate(weight: np.ndarray, bits: int) -> None:
    """Whatever the data are; and what is not small does, for some data."""
    channels = SUMMED[bits]
    filled = np.pad(weight.astype(int), ((0, 0), (0, 4), (0, 0), (0, 0)))
    step = 4 * len(channels) // 2
    sums = [
        255
        * np.maximum(sign * filled[:, [first + half + c for c in channels]], 0).sum(axis=1).max()
        for first in range(0, 16, step)
        for half in (0, 2)
        for sign in (1, -1)
    ]
    assert is_small(weight, bits) == (max(sums) <= 255 * 128)


def test_halves_and_back() -> None:
    weight = np.arange(2 * 12 * 6).astype("int8").reshape(2, 12, 2, 3)
    halves = in_halves(weight, 6)
    assert halves.shape == (2, 2, 2, 2, 2, 2, 3)
    np.testing.assert_array_equal(halves[1, 1, 0, 1, 0], weight[1, 10])
    np.testing.assert_array_equal(from_halves(halves)[:, :12], weight)
