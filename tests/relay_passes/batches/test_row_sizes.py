"""Which numbers of rows get code of their own, and from where on others are padded to them."""

from __future__ import annotations

import pytest

from tvm_neocpu.relay_passes.batches.row_sizes import MAX_ROWS, RowSizes, worthwhile_row_sizes
from tvm_neocpu.relay_passes.batches.sizes import RUN_SECONDS


def test_rows_that_cost_all_need_no_second_size() -> None:
    assert worthwhile_row_sizes(lambda rows: 1e-3 * rows) == RowSizes((1,), {})


def test_no_size_exceeds_the_most() -> None:
    assert max(worthwhile_row_sizes(lambda rows: 1e-2, most=10).sizes) == 8


def test_large_weights_are_read_seldom() -> None:
    """51 MB of weights, 0.26 ms a row: Faster R-CNN's first dense layer."""
    chosen = worthwhile_row_sizes(lambda rows: 2.5e-3 + 0.26e-3 * rows)
    assert max(chosen.sizes) == MAX_ROWS
    assert 1 not in chosen.sizes, "four rows take little longer than one"
    assert chosen.padded_from[min(chosen.sizes)] == 1


@pytest.mark.parametrize("once", [0.0, 1e-5, 1e-4, 1e-3, 1e-2])
def test_no_number_of_rows_takes_much_longer_than_one_run(once: float) -> None:
    each = 1e-4
    chosen = worthwhile_row_sizes(lambda rows: once + each * rows)
    for rows in range(1, 2 * MAX_ROWS):
        done, taken = 0, 0.0
        for run in _runs(rows, chosen):
            done, taken = done + run, taken + once + each * run + RUN_SECONDS
        assert done >= rows
        least = -(-rows // max(chosen.sizes)) * (once + RUN_SECONDS) + each * rows
        assert taken <= 1.6 * least


def _runs(rows: int, chosen: RowSizes) -> list[int]:
    """The sizes that the dispatch runs, as its functions do one after another."""
    runs = []
    for size in sorted(chosen.sizes, reverse=True):
        runs += [size] * (rows // size)
        rows %= size
        if rows and rows >= chosen.padded_from.get(size, size):
            return [*runs, size]
    assert rows == 0
    return runs
