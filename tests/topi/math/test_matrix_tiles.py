"""How register tiles are cut for a matrix unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.machine.matrix_unit import ROWS
from tvm_neocpu.topi.math.matrix_tiles import cut


@pytest.mark.parametrize(
    ("pixels", "joined", "starts", "taken"),
    [
        ((1, 14), False, ((0, 0),), 14),
        ((1, 28), False, ((0, 0), (0, 14)), 14),
        ((2, 14), False, ((0, 0), (1, 0)), 14),
        # The second tile begins a pixel early, where 17 are no two times the same.
        ((1, 17), False, ((0, 0), (0, 8)), 9),
        # Rows that follow each other are one: 49 pixels in four tiles of 13.
        ((7, 7), True, ((0, 0), (1, 6), (3, 5), (5, 1)), 13),
    ],
)
def test_cuts(
    pixels: tuple[int, int], joined: bool, starts: tuple[tuple[int, int], ...], taken: int
) -> None:
    found = cut(pixels, joined, channels=32, words=16)
    assert (found.starts, found.pixels, found.filters) == (starts, taken, 2)
    assert found.products == 2 * len(starts) and found.loads == 2 + len(starts)


@given(rows=st.integers(1, 7), columns=st.integers(1, 64), joined=st.booleans())
def test_every_pixel_is_in_a_tile_and_no_other(rows: int, columns: int, joined: bool) -> None:
    found = cut((rows, columns), joined, channels=16, words=1)
    covered = set()
    for row, column in found.starts:
        run = [column + at for at in range(found.pixels)]
        places = [(row + at // columns, at % columns) if joined else (row, at) for at in run]
        covered.update(places)
    assert covered == {(row, column) for row in range(rows) for column in range(columns)}
    assert found.pixels <= ROWS
