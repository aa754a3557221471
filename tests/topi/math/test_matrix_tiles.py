"""How register tiles are cut for a matrix unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.machine.matrix_unit import ROWS
from tvm_neocpu.topi.math.matrix_tiles import MAX_SUMS, cut


@pytest.mark.parametrize(
    ("pixels", "pitch", "starts", "taken"),
    [
        ((1, 14), None, ((0, 0),), 14),
        ((1, 28), None, ((0, 0), (0, 14)), 14),
        ((2, 14), None, ((0, 0), (1, 0)), 14),
        # The second tile begins a pixel early, where 17 are no two times the same.
        ((1, 17), None, ((0, 0), (0, 8)), 9),
        # Rows that follow each other are one: 49 pixels in four tiles of 13.
        ((7, 7), 7, ((0, 0), (1, 6), (3, 5), (5, 1)), 13),
        # With two pixels between them, which are computed in vain, they are 61.
        ((7, 7), 9, ((0, 0), (1, 7), (3, 5), (5, 0)), 16),
        # No fewer tiles than those of rows.
        ((2, 14), 16, ((0, 0), (1, 0)), 14),
    ],
)
def test_cuts(
    pixels: tuple[int, int],
    pitch: int | None,
    starts: tuple[tuple[int, int], ...],
    taken: int,
) -> None:
    found = cut(pixels, pitch, channels=32, words=16)
    assert (found.starts, found.pixels, found.filters * found.passes) == (starts, taken, 2)
    assert found.products <= MAX_SUMS and found.loads == found.filters + len(starts)


@pytest.mark.parametrize(
    ("columns", "channels", "filters", "passes"),
    [(28, 32, 2, 1), (28, 64, 2, 2), (64, 32, 1, 2), (14, 48, 3, 1), (28, 48, 1, 3)],
)
def test_more_filters_than_have_registers_take_passes(
    columns: int, channels: int, filters: int, passes: int
) -> None:
    found = cut((1, columns), None, channels, words=16)
    assert (found.filters, found.passes) == (filters, passes)


@pytest.mark.parametrize(("words", "at_once"), [(16, 16), (32, 16), (24, 12), (13, 13)])
def test_a_product_sums_words_that_fit(words: int, at_once: int) -> None:
    assert cut((1, 14), None, 16, words).words == at_once


@given(rows=st.integers(1, 7), columns=st.integers(1, 64), gap=st.none() | st.integers(0, 3))
def test_every_pixel_is_in_a_tile_and_no_other_but_those_between(
    rows: int, columns: int, gap: int | None
) -> None:
    pitch = None if gap is None else columns + gap
    found = cut((rows, columns), pitch, channels=16, words=1)
    runs_on = pitch is not None and (gap == 0 or found.gap > 0)
    covered = set()
    for row, column in found.starts:
        for at in range(column, column + found.pixels):
            covered.add((row + at // pitch, at % pitch) if pitch and runs_on else (row, at))
    wanted = {(row, column) for row in range(rows) for column in range(columns)}
    assert wanted <= covered and found.pixels <= ROWS
    between = covered - wanted
    assert all(
        row < rows - 1 and columns <= column < columns + found.gap for row, column in between
    )
    by_rows = cut((rows, columns), None, channels=16, words=1)
    assert len(found.starts) < len(by_rows.starts) or not found.gap
