"""The loops of a layout transform, as scheduled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nests import nest

from tvm_neocpu.core.cpu import AVX512, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
MOVE = TransformWorkload(1, 48, 6, 7, 16, 8)


# Rows of blocks; pixels; runs of a block; channels of a run.
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (16, 8, "parallel 36, 7, vector 8"),
        (8, 16, "parallel 18, 7, unroll 2, vector 8"),
        (0, 16, "parallel 18, 7, vector 16"),
        (16, 0, "parallel 288, 7"),
    ],
)
def test_loops(before: int, after: int, expected: str) -> None:
    move = replace(MOVE, before=before, after=after)
    assert nest(move, TransformConfig(), "layout_transform") == expected


def test_a_statement_takes_so_many_registers_of_its_type() -> None:
    wide = TransformWorkload(1, 256, 6, 7, 0, 256)
    assert nest(wide, TransformConfig(), "layout_transform").endswith("unroll 2, vector 128")
    doubles = replace(wide, types=uniform("float64"))
    assert nest(doubles, TransformConfig(), "layout_transform").endswith("unroll 4, vector 64")
