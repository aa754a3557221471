"""The last tile with fewer products: what it computes, exactly, in rational numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.topi.conv2d_winograd.matrices import (
    BALANCED,
    COARSE,
    EXACT,
    Matrix,
    WinogradMatrices,
    winograd_matrices,
)
from tvm_neocpu.topi.conv2d_winograd.tails import Tail, tail_matrix, tail_of
from tvm_neocpu.topi.conv2d_winograd_integer.matrices import in_integers, largest_sum

ALGORITHMS = [(2, 3), (3, 3), (4, 3), (6, 3), (4, 4), (2, 5), (3, 5), (2, 7), (3, 7)]
POINTS = [BALANCED, EXACT, COARSE]
TAILS = [
    pytest.param(
        winograd_matrices(tile, taps, 1, points), outputs, id=f"{outputs} of F{(tile, taps)}"
    )
    for tile, taps in ALGORITHMS
    for points in POINTS
    for outputs in range(1, tile)
]


def tail(matrices: WinogradMatrices, outputs: int) -> Tail:
    found = tail_of(matrices, outputs)
    assert found is not None
    return found


def times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix]


@pytest.mark.parametrize(
    ("tile", "taps", "outputs", "products"),
    [
        (4, 3, 1, 3),
        (4, 3, 2, 4),
        (4, 3, 3, 5),
        (2, 3, 1, 3),
        (3, 3, 2, 4),
        (3, 7, 2, 8),
        (6, 3, 2, 4),
    ],
)
def test_a_tail_takes_the_products_of_a_smaller_tile(
    tile: int, taps: int, outputs: int, products: int
) -> None:
    for points in POINTS:
        found = tail(winograd_matrices(tile, taps, 1, points), outputs)
        # Points with halves have no recurrence of integers for every tail; then one is left out.
        assert sum(found.needed) == products or (points == EXACT and not found.recurrence)


def test_a_whole_tile_is_no_tail() -> None:
    assert tail_of(winograd_matrices(4, 3), 4) is None


def test_only_what_may_be_anything_follows_from_other_pixels() -> None:
    """F(4, 3) of 3 outputs leaves infinity out, and reads its pixels as they are."""
    assert tail(winograd_matrices(4, 3), 3).recurrence == ()
    two = tail(winograd_matrices(4, 3), 2)
    assert (two.given, two.recurrence) == (4, (-1, 0, Fraction(97, 36), 0))
    assert two.needed == (False, True, True, True, True, False)


@pytest.mark.parametrize(("matrices", "outputs"), TAILS)
@given(data=st.data())
def test_a_tail_is_a_convolution(
    matrices: WinogradMatrices, outputs: int, data: st.DataObject
) -> None:
    found, taps = tail(matrices, outputs), len(matrices.g[0])
    numbers = st.integers(-9, 9).map(Fraction)
    kernel = data.draw(st.lists(numbers, min_size=taps, max_size=taps))
    pixels = data.draw(st.lists(numbers, min_size=found.given, max_size=found.given))
    factors = zip(
        times(matrices.g, kernel), times(tail_matrix(matrices, found), pixels), strict=True
    )
    expected = [sum(tap * pixels[at + k] for k, tap in enumerate(kernel)) for at in range(outputs)]
    assert times(matrices.a, [tap * pixel for tap, pixel in factors])[:outputs] == expected


@pytest.mark.parametrize(("matrices", "outputs"), TAILS)
def test_pixels_that_follow_make_the_products_zero(
    matrices: WinogradMatrices, outputs: int
) -> None:
    """All products that no output uses, but for those at infinity, which are left out anyway."""
    found = tail(matrices, outputs)
    everything = tail_matrix(
        matrices, Tail((True,) * matrices.products, found.given, found.recurrence)
    )
    for u, needed in enumerate(found.needed):
        used = any(row[u] for row in matrices.a[:outputs])
        assert needed or not used or not any(everything[u])


@pytest.mark.parametrize("tile", [2, 3, 4])
def test_tails_of_integers_are_integers_no_larger_than_whole_tiles(tile: int) -> None:
    exact = in_integers(winograd_matrices(tile, 3, 1, EXACT))
    whole = largest_sum((exact.b, exact.b), 0, 255)
    for outputs in range(1, tile):
        found = tail(exact, outputs)
        matrix = tail_matrix(exact, found)
        assert all(factor.denominator == 1 for row in matrix for factor in row)
        assert sum(found.needed) == outputs + 2
        assert max(largest_sum((matrix, other), 0, 255) for other in (matrix, exact.b)) <= whole


@pytest.mark.parametrize(("matrices", "outputs"), TAILS)
def test_tails_round_no_worse_than_whole_tiles(matrices: WinogradMatrices, outputs: int) -> None:
    """No output has more noise than the noisiest one of a whole tile."""
    found = tail(matrices, outputs)
    a, g, whole, b = (
        np.array(m, dtype="float64")
        for m in (matrices.a, matrices.g, matrices.b, tail_matrix(matrices, found))
    )

    def noise(rows: np.ndarray, data: np.ndarray) -> float:
        powers = (g**2).sum(axis=1) * (data**2).sum(axis=1)
        return float((rows**2 @ powers).max())

    assert noise(a[:outputs], b) <= noise(a, whole) * (1 + 1e-9)


def test_a_single_tap_of_a_stride_has_a_product_for_each_output() -> None:
    """F(4, 3) of stride 2: two outputs take 5 less infinity of F(4, 2), and 2 of F(4, 1)."""
    found = tail(winograd_matrices(4, 3, 2), 2)
    assert (sum(found.needed), found.recurrence) == (4 + 2, ())
