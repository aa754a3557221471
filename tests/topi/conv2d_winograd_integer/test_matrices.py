"""Winograd's matrices in integers compute convolutions modulo 2^32, and their bounds are tight."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.topi.conv2d_winograd.matrices import EXACT, winograd_matrices
from tvm_neocpu.topi.conv2d_winograd_integer.matrices import (
    in_integers,
    inverse_of,
    largest_sum,
    shift_of,
)

ALGORITHMS = {(2, 3, 1): 2, (3, 3, 1): 6, (4, 3, 1): 30, (2, 5, 1): 30, (2, 3, 2): 1, (4, 3, 2): 6}


@pytest.mark.parametrize(("algorithm", "divisor"), ALGORITHMS.items(), ids=str)
@given(data=st.data())
def test_a_tile_is_a_convolution_whatever_wraps(
    algorithm: tuple[int, int, int], divisor: int, data: st.DataObject
) -> None:
    tile, kernel, stride = algorithm
    matrices = in_integers(winograd_matrices(tile, kernel, stride, points=EXACT))
    assert matrices.divisor == divisor
    a, g, b = (np.array(m, dtype=np.int64) for m in (matrices.a, matrices.g, matrices.b))
    draw = data.draw
    taps = np.array(draw(st.lists(st.integers(-128, 127), min_size=kernel, max_size=kernel)))
    size = matrices.pixels
    pixels = np.array(draw(st.lists(st.integers(0, 255), min_size=size, max_size=size)))
    expected = [int(taps @ pixels[at * stride :][:kernel]) for at in range(tile)]
    # As if many channels had been summed: beyond 32 bits on the way, not at its end.
    most = (2**31 - 1) // (128 * 255 * kernel) >> shift_of(divisor)
    channels = draw(st.integers(1, most))
    outputs = wrap(a @ wrap((g @ taps) * (b @ pixels) * channels))
    found = wrap(outputs * inverse_of(divisor)) >> shift_of(divisor)
    assert found.tolist() == [channels * value for value in expected]


def wrap(numbers: np.ndarray) -> np.ndarray:
    """As 32 bits hold them."""
    return ((numbers + 2**31) % 2**32) - 2**31


@pytest.mark.parametrize(("tile", "data", "weight"), [(2, 1020, 1152), (4, 24990, 28800)])
def test_bounds_of_bytes(tile: int, data: int, weight: int) -> None:
    matrices = in_integers(winograd_matrices(tile, points=EXACT))
    assert largest_sum((matrices.b, matrices.b), 0, 255) == data
    assert largest_sum((matrices.g, matrices.g), -128, 127) == weight


def test_outputs_are_transformed_by_ones_where_weights_have_room() -> None:
    matrices = in_integers(winograd_matrices(4, points=EXACT))
    rows = (1, 1, 1, 8, 1, 0), (0, 1, -1, 4, -2, 0), (0, 1, 1, 2, 4, 0), (0, 1, -1, 1, -8, 1)
    assert matrices.a == rows
    # 7 taps of 128 times 64 leave no room.
    kept = in_integers(winograd_matrices(2, 5, points=EXACT))
    assert [int(factor) for factor in kept.a[0]] == [15, 5, 5, 2, 1, 0]


def test_a_bound_is_reached() -> None:
    matrices = in_integers(winograd_matrices(2, points=EXACT))
    g = np.array(matrices.g, dtype=np.int64)
    one = in_integers(winograd_matrices(1, 1, points=EXACT))
    signs = np.array(list(product((-128, 127), repeat=3)))
    reached = np.abs(signs @ g.T).max()
    assert largest_sum((matrices.g, one.g), -128, 127) == reached == 384
