"""Squares of vectors turned by shuffles."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from tvm_neocpu.topi.tir.transpose_tiles import _shared, turned


@pytest.mark.parametrize(
    ("side", "dtype"),
    [(4, "float32"), (8, "float32"), (16, "float32"), (4, "int64"), (8, "float64")],
)
def test_rows_become_columns(side: int, dtype: str) -> None:
    rows = [tirx.Var(f"row{at}", f"{dtype}x{side}") for at in range(side)]
    values = dict(zip(rows, np.arange(side * side).reshape(side, side), strict=True))

    def value(expr) -> np.ndarray:
        if isinstance(expr, tirx.Var):
            return values[expr]
        both = np.concatenate([value(vector) for vector in expr.vectors])
        return both[[int(index) for index in expr.indices]]

    shuffles = []

    def named(expr):
        shuffles.append(expr)
        return expr

    found = np.stack([value(column) for column in turned(rows, dtype, named)])
    np.testing.assert_array_equal(found, np.arange(side * side).reshape(side, side).T)


@pytest.mark.parametrize("extent", [*range(4, 90), 15 * 256 + 3])
@pytest.mark.parametrize("wanted", [1, 2, 8, 16])
def test_no_two_groups_share_elements(extent: int, wanted: int) -> None:
    groups, in_group = _shared(extent, 4, wanted)
    starts = [
        [min(4 * tile, extent - 4) for tile in range(group * in_group, (group + 1) * in_group)]
        for group in range(groups)
    ]
    touched = [{start + at for start in group for at in range(4)} for group in starts]
    assert set().union(*touched) == set(range(extent))
    assert sum(map(len, touched)) == extent
