"""The loops of a layout transform, as scheduled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from nests import nest
from samples import Epilogue, check
from tvm import topi

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.operator import LAYOUT_TRANSFORM
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
MOVE = TransformWorkload(1, 48, 6, 7, 16, 8)


# Rows of blocks; pixels; runs of a block; channels of a run.
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (16, 8, "parallel 36, 7, vector 8"),
        (8, 16, "parallel 18, 7, unroll 2, vector 8"),
    ],
)
def test_loops(before: int, after: int, expected: str) -> None:
    move = replace(MOVE, before=before, after=after)
    assert nest(move, TransformConfig(), "layout_transform") == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0, 16, "parallel 3, 3, vector 16"), (16, 0, "parallel 48, 3")],
)
def test_loops_over_fewer_pixels_than_a_tile_has(before: int, after: int, expected: str) -> None:
    move = replace(MOVE, height=1, width=3, before=before, after=after)
    assert nest(move, TransformConfig(), "layout_transform") == expected


@pytest.mark.parametrize(
    ("before", "after"), [(0, 16), (16, 0), (0, 48), (24, 0), (0, 12), (16, 1), (1, 48)]
)
def test_pixels_and_channels_are_turned_in_tiles(before: int, after: int) -> None:
    move = replace(MOVE, batch=2, before=before, after=after)
    (data,) = move.operands
    x = np.random.default_rng(0).normal(size=data.shape).astype("float32")
    y = tvm.runtime.tensor(np.full(move.out_shape, np.nan, "float32"))
    func = kernel(move, TransformConfig(), SKYLAKE)
    assert "T.Shuffle(" in func.script()
    tvm.compile(func, target=tvm.target.Target("llvm"))["main"](tvm.runtime.tensor(x), y)
    np.testing.assert_array_equal(y.numpy(), LAYOUT_TRANSFORM.reference(move, x))


@pytest.mark.parametrize(("before", "after"), [(0, 16), (16, 0)])
def test_tiles_of_few_blocks_run_in_one_fork(before: int, after: int) -> None:
    """A fork for each of the 3 blocks was judged too small, so that all ran on one core."""
    move = replace(MOVE, height=56, width=56, before=before, after=after)
    script = kernel(move, TransformConfig(), SKYLAKE).script()
    loops = [line for line in script.splitlines() if line.lstrip().startswith("for ")]
    assert "T.parallel(" in loops[0] and script.count("T.parallel(") == 1


def test_a_statement_takes_so_many_registers_of_its_type() -> None:
    wide = TransformWorkload(1, 256, 1, 3, 0, 256)
    assert nest(wide, TransformConfig(), "layout_transform").endswith("unroll 2, vector 128")
    doubles = replace(wide, types=uniform("float64"))
    assert nest(doubles, TransformConfig(), "layout_transform").endswith("unroll 4, vector 64")


@pytest.mark.parametrize(("before", "after"), [(0, 16), (16, 0), (0, 13), (13, 0)])
def test_an_epilogue_may_read_its_element_twice(before: int, after: int) -> None:
    channels = 2 * max(before, after)
    squared = Epilogue(
        lambda shape: [],
        lambda y: topi.multiply(y, topi.nn.relu(y)),
        lambda y: y * np.maximum(y, 0),
    )
    move = TransformWorkload(1, channels, 6, 7, before, after)
    check(move, TransformConfig(), SKYLAKE, squared)
