"""The layout transform as an operator: its log lines and its reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.layout_transform.operator import LAYOUT_TRANSFORM, MOVE
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

TENSOR = ["TENSOR", [2, 48, 6, 7], "float32"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("before", "after"), [(0, 16), (16, 0), (12, 24)])
def test_a_log_line_is_read_back(before: int, after: int, dtype: str) -> None:
    move = TransformWorkload(2, 48, 6, 7, before, after, uniform(dtype))
    assert LAYOUT_TRANSFORM.decode(MOVE.name, move.args(), {}) == move


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ([TENSOR, "NCHW"], "not a transform of a feature map"),
        ([["TENSOR", [2, 3, 6, 7, 16], "float32"], "NCHW16c", "NCHW"], "not a transform"),
        ([TENSOR, "NCHW16c", "NHWC"], "NHWC"),
        (["data", "NCHW16c", "NCHW"], "is not a tensor"),
    ],
)
def test_lines_of_others_are_refused(args: list[Any], reason: str) -> None:
    with pytest.raises(LineError, match=reason):
        LAYOUT_TRANSFORM.decode(MOVE.name, args, {})


def test_the_reference_moves_every_channel_to_its_block() -> None:
    move = TransformWorkload(1, 12, 2, 3, 4, 6)
    data = np.arange(72, dtype="float32").reshape(1, 3, 2, 3, 4)
    found = LAYOUT_TRANSFORM.reference(move, data)
    assert found.shape == move.out_shape
    # Channel 7 of pixel (1, 2): element 3 of block 1 before, element 1 of block 1 after.
    assert found[0, 1, 1, 2, 1] == data[0, 1, 1, 2, 3]
    plain = LAYOUT_TRANSFORM.reference(TransformWorkload(1, 12, 2, 3, 4, 0), data)
    assert plain[0, 7, 1, 2] == data[0, 1, 1, 2, 3]
