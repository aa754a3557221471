"""The oracle of the template against other ones: ONNX Runtime, and ONNX's reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from deformable import (
    DEFORMS,
    assert_close,
    by_onnx_reference,
    by_onnx_runtime,
    deform_model,
    names_of,
    operands_of,
)

from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.deform_conv2d.reference import deformed
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

SMALL = DeformConvWorkload(
    1, 4, 4, 5, 2, (2, 3), (1, 2), (1, 0, 2, 1), (2, 1), groups=2, offset_groups=2, masked=True
)


@pytest.mark.parametrize("reach", [0.0, 2.0, 30.0])
@pytest.mark.parametrize("name", DEFORMS)
def test_onnx_runtime_agrees(name: str, reach: float) -> None:
    deform = DEFORMS[name]
    arrays = operands_of(deform, reach)
    feeds = dict(zip(names_of(deform), arrays, strict=True))
    expected = by_onnx_runtime(deform_model(deform, feeds, {}), feeds)
    assert_close(deformed(deform, *arrays), expected)


@pytest.mark.parametrize("name", ["deformable, prime", "deformable, groups"])
def test_onnx_runtime_agrees_on_doubles(name: str) -> None:
    deform = replace(DEFORMS[name], types=uniform("float64"))
    arrays = operands_of(deform)
    feeds = dict(zip(names_of(deform), arrays, strict=True))
    expected = by_onnx_runtime(deform_model(deform, feeds, {}), feeds)
    assert_close(deformed(deform, *arrays), expected, 1e-13)


@pytest.mark.parametrize("masked", [False, True])
def test_onnx_reference_agrees(masked: bool) -> None:
    deform = replace(SMALL, masked=masked)
    arrays = operands_of(deform)
    feeds = dict(zip(names_of(deform), arrays, strict=True))
    expected = by_onnx_reference(deform_model(deform, feeds, {}), feeds)
    assert_close(deformed(deform, *arrays), expected)


def test_the_border_fades_out_over_one_pixel() -> None:
    deform = DeformConvWorkload(1, 1, 1, 4, 1, (1, 1))
    data = np.array([8, 0, 0, 4], "float32").reshape(deform.in_shape)
    offset = np.zeros(deform.offset_shape, "float32")
    offset[0, 1, 0] = [-0.75, -2.5, 1.5, 0.25]
    found = deformed(deform, data, np.ones(deform.weight_shape, "float32"), offset)
    assert found.ravel().tolist() == [2, 0, 2, 3]
