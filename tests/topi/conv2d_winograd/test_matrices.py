"""Winograd's matrices compute convolutions exactly, in rational numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.matrices import (
    BALANCED,
    COARSE,
    EXACT,
    Matrix,
    conv_matrices,
    factored,
    winograd_matrices,
)

# Tile, kernel, stride and how many products that takes.
ALGORITHMS = {
    (2, 3, 1): 4,
    (4, 3, 1): 6,
    (6, 3, 1): 8,
    (2, 2, 1): 3,
    (2, 5, 1): 6,
    (3, 7, 1): 9,
    (2, 3, 2): 3 + 2,
    (4, 3, 2): 5 + 4,
    (3, 7, 2): 6 + 5,
    (2, 2, 2): 2 + 2,
    (4, 1, 2): 4,
    (3, 5, 3): 4 + 4 + 3,
    (5, 1, 1): 5,
}


def times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix]


@pytest.mark.parametrize(("algorithm", "products"), ALGORITHMS.items(), ids=str)
@given(data=st.data())
def test_a_tile_is_a_convolution(
    algorithm: tuple[int, int, int], products: int, data: st.DataObject
) -> None:
    tile, kernel, stride = algorithm
    matrices = winograd_matrices(tile, kernel, stride)
    assert (matrices.outputs, matrices.products) == (tile, products)
    assert matrices.pixels == (tile - 1) * stride + kernel
    numbers = st.integers(-9, 9).map(Fraction)
    taps = data.draw(st.lists(numbers, min_size=kernel, max_size=kernel))
    pixels = data.draw(st.lists(numbers, min_size=matrices.pixels, max_size=matrices.pixels))
    factors = zip(times(matrices.g, taps), times(matrices.b, pixels), strict=True)
    expected = [
        sum(tap * pixels[at * stride + k] for k, tap in enumerate(taps)) for at in range(tile)
    ]
    assert times(matrices.a, [tap * pixel for tap, pixel in factors]) == expected


def test_a_kernel_of_one_row_leaves_rows_alone() -> None:
    down, across = conv_matrices(ConvWorkload(1, 8, 9, 9, 8, (1, 7)), tile=3)
    assert (down.outputs, down.products, down.pixels) == (1, 1, 1)
    assert (across.outputs, across.products, across.pixels) == (3, 9, 9)


def test_points_are_finite() -> None:
    with pytest.raises(ValueError, match=r"F\(6, 7\) needs 11 points; 8 are known"):
        winograd_matrices(6, 7)


@pytest.mark.parametrize(("tile", "kernel", "stride"), ALGORITHMS)
@pytest.mark.parametrize("kind", [BALANCED, EXACT, COARSE])
def test_the_factors_of_a_matrix_are_it(tile: int, kernel: int, stride: int, kind: str) -> None:
    matrices = winograd_matrices(tile, kernel, stride, kind)
    for matrix in (matrices.a, matrices.b):
        outer, inner = factored(matrix)
        columns = list(zip(*inner, strict=True))
        assert [times(columns, list(row)) for row in outer] == [list(row) for row in matrix]


def test_sums_are_shared() -> None:
    """F(4, 3): two pairs of B^T's rows and of A^T's columns differ in signs only."""
    matrices = winograd_matrices(4)
    outer, inner = factored(matrices.b)
    assert [sum(map(bool, row)) for row in outer] == [1, 2, 2, 2, 2, 1]
    assert [sum(map(bool, row)) for row in inner] == [3, 2, 2, 2, 2, 3]
    outer, inner = factored(matrices.a)
    assert [sum(map(bool, row)) for row in inner] == [1, 2, 2, 2, 2, 1]
    assert (matrices.adds_before, matrices.adds_behind) == (14, 12)


def test_nothing_is_shared_where_all_signs_differ() -> None:
    matrix = tuple(tuple(map(Fraction, row)) for row in ((1, 2), (-1, -2), (3, 4)))
    assert matrix in factored(matrix)
