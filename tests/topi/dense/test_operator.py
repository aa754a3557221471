"""The dense operator: its log lines, its text, its reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.types import Types, uniform
from tvm_neocpu.topi.dense.operator import DENSE, DENSE_PACK
from tvm_neocpu.topi.dense.workload import DenseWorkload

LAYER = DenseWorkload(4, 30, 50)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_log_line_is_read_back(dtype: str) -> None:
    layer = replace(LAYER, types=uniform(dtype))
    assert DENSE.decode(DENSE_PACK.name, layer.args(), {}) == layer


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({0: ["TENSOR", [4, 31], "float32"]}, "does not fit weight"),
        ({1: ["TENSOR", [50, 30], "int8"]}, "mixed types"),
        ({0: ["TENSOR", [4, 30, 1], "float32"]}, "tensors of 3 and 2 dimensions"),
        ({0: "data"}, "is not a tensor"),
    ],
)
def test_lines_of_others_are_refused(change: dict[int, Any], reason: str) -> None:
    args = [change.get(at, arg) for at, arg in enumerate(LAYER.args())]
    with pytest.raises(LineError, match=reason):
        DENSE.decode(DENSE_PACK.name, args, {})


def test_its_text_is_read_back() -> None:
    assert DENSE.parse is not None
    assert DENSE.parse(str(LAYER)) == LAYER
    assert DENSE.parse("64x56x56->64 1x1") is None
    assert DENSE.parse(DENSE.example) == DenseWorkload(1, 512, 1000)


def test_the_reference_is_summed_in_double_precision() -> None:
    """Terms of 1e-4 are lost beside 1e4 in single precision."""
    layer = DenseWorkload(1, 3, 1, Types("float32", "float32", "float32", "float32"))
    data, ones = np.array([[1e4, 1e-4, -1e4]], "float32"), np.ones((3, 1), "float32")
    found = DENSE.reference(layer, data, ones)
    assert found.dtype == np.float32
    assert found.item() == pytest.approx(1e-4, rel=1e-6)
