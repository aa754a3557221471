"""What a layout transform moves at once."""

from __future__ import annotations

import pytest

from tvm_neocpu.topi.layout_transform.geometry import contiguous_run
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload


@pytest.mark.parametrize(
    ("before", "after", "run"), [(16, 8, 8), (8, 16, 8), (12, 18, 6), (0, 16, 16), (16, 0, 0)]
)
def test_channels_that_stay_side_by_side(before: int, after: int, run: int) -> None:
    assert contiguous_run(TransformWorkload(1, 144, 5, 5, before, after)) == run
