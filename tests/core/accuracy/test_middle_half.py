"""Readings without the fastest and the slowest quarter."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.accuracy.middle_half import middle_half


@pytest.mark.parametrize(
    ("readings", "found"),
    [
        ([], []),
        ([3.0], [3.0]),
        ([9.0, 1.0, 5.0], [1.0, 5.0, 9.0]),
        ([9.0, 1.0, 5.0, 7.0], [5.0, 7.0]),
        ([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [3.0, 4.0, 5.0, 6.0]),
    ],
)
def test_a_quarter_is_left_out_at_either_end(readings: list[float], found: list[float]) -> None:
    assert middle_half(readings, float) == found
