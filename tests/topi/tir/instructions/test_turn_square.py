"""Squares of vectors turned by shuffles."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from tvm_neocpu.topi.tir.instructions.turn_square import turned


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
