"""The deformable template: every kind of column, places far away, and the loops it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tvm
from deformable import SAME, assert_close, deformables, operands_of
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nests import SKYLAKE, nest
from samples import BIAS, as_read, check, compiled, stored

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.deform_conv2d.reference import deformed
from tvm_neocpu.topi.deform_conv2d.space import space
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.table import implementation_of

DEFORM = DeformConvWorkload(2, 16, 6, 8, 48, (3, 3), padding=SAME, masked=True)
CASES = {
    "whole images": (DEFORM, DeformConfig(16, 48, 8, 6)),
    "vectors of pixels": (replace(DEFORM, batch=1), DeformConfig(8, 16, 8, 2)),
    "chunks across images": (DEFORM, DeformConfig(16, 24, 8, 4)),
    "overhanging": (DEFORM, DeformConfig(16, 16, 7, 3)),
    "columns in one pass": (DEFORM, DeformConfig(8, 16, 7, 3, True)),
    "no mask": (replace(DEFORM, masked=False), DeformConfig(16, 48, 6, 2)),
    "filled vectors": (replace(DEFORM, out_channels=39), DeformConfig(16, 13, 8, 3, False, 16)),
    "channel by channel": (replace(DEFORM, offset_groups=16), DeformConfig(1, 48, 8, 2)),
    "groups across offset groups": (
        DeformConvWorkload(1, 24, 7, 9, 36, (2, 3), (1, 2), SAME, groups=3, offset_groups=2),
        DeformConfig(4, 12, 6, 2),
    ),
    "dilated": (
        DeformConvWorkload(2, 8, 9, 11, 16, (3, 2), (1, 2), (2, 1, 1, 2), (2, 3), offset_groups=2),
        DeformConfig(4, 16, 9, 3, True),
    ),
    "one row": (DeformConvWorkload(1, 8, 1, 9, 16, (1, 3)), DeformConfig(8, 16, 7)),
}


@pytest.mark.parametrize("case", CASES)
def test_columns_of_every_kind(case: str) -> None:
    check(*CASES[case], SKYLAKE, BIAS)


def run(deform: DeformConvWorkload, config: DeformConfig, arrays: list[np.ndarray]) -> np.ndarray:
    """The standalone kernel, with a bias of zero and its ReLU, on operands of any values."""
    entry = implementation_of(config)
    pairs = zip(deform.operands, arrays, strict=True)
    inputs = [as_read(*pair, entry, deform, config) for pair in pairs]
    after = layouts_of(config)[1]
    shape = after.shape_of(deform.out_shape)
    bias = np.zeros((1, shape[1], 1, 1, shape[4]), deform.types.output)
    got = np.full(shape, np.nan, deform.types.output)
    tensors = [tvm.runtime.tensor(array) for array in (*inputs, bias, got)]
    built(deform, config)(*tensors)
    return tensors[-1].numpy()


@cache
def built(deform: DeformConvWorkload, config: DeformConfig) -> Callable[..., None]:
    """Compiled once for all data."""
    return compiled(kernel(deform, config, SKYLAKE))


@pytest.mark.parametrize("reach", [0.0, 1.0, 100.0])
def test_near_places_and_far_ones(reach: float) -> None:
    deform, config = DEFORM, DeformConfig(16, 48, 8, 2)
    arrays = operands_of(deform, reach)
    expected = np.maximum(deformed(deform, *arrays), 0)
    assert_close(run(deform, config, arrays), stored(expected, layouts_of(config)[1]))


@pytest.mark.parametrize("far", [np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31)])
def test_places_beyond_all_numbers_read_nothing(far: float) -> None:
    """ONNX Runtime takes them, and NaN, for places outside the image."""
    deform, config = replace(DEFORM, masked=False), DeformConfig(16, 48, 8, 2)
    data, weight, offset = operands_of(deform)
    offset[0, :, 2, 3] = far
    expected = np.maximum(deformed(deform, data, weight, offset), 0)
    assert not expected[0, :, 2, 3].any()
    found = run(deform, config, [data, weight, offset])
    assert_close(found, stored(expected, layouts_of(config)[1]))


@given(data=st.data())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
def test_any_config_of_any_workload(data: st.DataObject) -> None:
    deform = data.draw(deformables())
    check(deform, data.draw(st.sampled_from(space(deform, SKYLAKE))), SKYLAKE, BIAS)


LOOPS = DeformConvWorkload(1, 64, 8, 14, 64, (3, 3), padding=SAME, offset_groups=2, masked=True)


@pytest.mark.parametrize(
    ("parallel_oc", "block", "expected"),
    [
        (False, "deform_row", "parallel 2, 2, 3, 3, unroll 7, vector 8"),
        (False, "deform_share", "parallel 2, 2, 3, 3, unroll 2, unroll 2, unroll 7, vector 8"),
        (False, "deform_columns", "parallel 2, 56, 2, 3, 3, 2, vector 16"),
        (False, "deform_product_update", "parallel 2, 2, 4, 36, 16, unroll 14, vector 32"),
        (True, "deform_columns", "parallel 2, 56, 2, 3, 3, 2, vector 16"),
        (True, "deform_product_update", "parallel 4, 4, 36, 16, unroll 14, vector 32"),
    ],
)
def test_loops(parallel_oc: bool, block: str, expected: str) -> None:
    """Chunks; offset groups, taps, blocks of channels; tiles; vectors of pixels or channels."""
    assert nest(LOOPS, DeformConfig(16, 32, 14, 4, parallel_oc), block) == expected


def test_columns_of_neighbouring_taps_lie_in_other_sets_of_the_cache() -> None:
    """A tap's 56 pixels of 16 channels are 56 lines; it takes 57 of them, 912 elements."""
    scheduled = kernel(LOOPS, DeformConfig(16, 32, 14, 4), SKYLAKE).script()
    (columns,) = (line for line in scheduled.splitlines() if "deform_columns = " in line)
    assert "(4, 3, 3, 56, 16)" in columns and ", 2736, 912, 16, 1)" in columns


def test_offsets_of_a_chunk_are_read_as_vectors() -> None:
    """Only an overhanging chunk asks for each pixel's own place in the offsets."""
    exact, over = (
        kernel(LOOPS, DeformConfig(16, 32, reg_n, 4), SKYLAKE).script() for reg_n in (14, 13)
    )
    last = LOOPS.conv.out_height * LOOPS.conv.out_width - 1
    assert f", {last})" in over and f", {last})" not in exact
