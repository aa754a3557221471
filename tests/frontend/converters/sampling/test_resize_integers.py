"""Resize of integers: ONNX Runtime's to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx_node import node_model, onnx_runtime, ours
from resizes import MODES, by_scales, scales

Array = NDArray[Any]

# Images; images whose channels come last; matrices; volumes; a stack of maps.
IMAGES: list[tuple[tuple[int, ...], tuple[float, ...]]] = [
    ((1, 2, 5, 6), (1, 1, 1.7, 2)),
    ((2, 3, 7, 10), (1, 1, 3, 1 / 3)),
    ((1, 2, 5, 6), (1, 1, 2.6, 1)),
    ((2, 5, 6, 3), (1, 1.3, 2.6, 1)),
    ((1, 5, 1, 3), (1, 1.5, 3, 1)),
    ((6, 9), (3, 0.7)),
    ((4, 6, 5), (1, 1.3, 2.6)),
    ((1, 2, 3, 4, 5), (1, 1, 3, 1.3, 2.6)),
]
EACH_COORDINATES = (*MODES, "tf_crop_and_resize")


def some_integers(shape: tuple[int, ...], dtype: str) -> Array:
    """Of the whole range of the type; an int32 below 2 ** 20 on both sides of 0."""
    low, high = (
        (-(2**20), 2**20) if dtype == "int32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    )
    return np.random.default_rng(len(shape)).integers(low, high + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("place", range(len(IMAGES)))
def test_linear_of_integers_is_onnx_runtimes_to_the_last_bit(place: int, dtype: str) -> None:
    shape, factors = IMAGES[place]
    x = some_integers(shape, dtype)
    # Each of the modes is drawn a few times; a build takes longer than a node.
    coordinates = EACH_COORDINATES[(place + (dtype == "int8") * 3) % len(EACH_COORDINATES)]
    attributes: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    roi = None
    if coordinates == "tf_crop_and_resize":
        ends = [(0.1, 1.2) if factor != 1 else (0, 1) for factor in factors]
        roi = np.array([end for side in (0, 1) for end in (pair[side] for pair in ends)], "float32")
        attributes["extrapolation_value"] = 7.5
    model = node_model("Resize", [x], [roi, scales(*factors)], opset=19, **attributes)
    found, expected = ours(model, [x])[0], onnx_runtime(model, [x])[0]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("outside", [300.0, -3.5, -200.0, 1e20])
def test_bytes_outside_a_crop_keep_the_lowest_bits(outside: float, mode: str) -> None:
    """A value that no byte holds was refused with numpy's words."""
    attributes: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    roi = scales(0.5, 0.5, 2, 2)
    for dtype in ("uint8", "int8"):
        x = some_integers((4, 6), dtype)
        inputs = [roi, scales(2, 2)]
        model = node_model(
            "Resize", [x], inputs, opset=19, mode=mode, extrapolation_value=outside, **attributes
        )
        np.testing.assert_array_equal(ours(model, [x])[0], onnx_runtime(model, [x])[0])


def test_onnxs_reference_rounds_bytes_otherwise() -> None:
    """By at most 1: where the reference learns to cut fractions off, this test is to go."""
    x = some_integers((1, 2, 5, 6), "uint8")
    model = by_scales(scales(1, 1, 1.7, 2), 19, x, mode="linear")
    found, reference = ours(model, [x])[0], ReferenceEvaluator(model).run(None, {"x0": x})[0]
    differences = np.abs(found.astype(int) - reference.astype(int))
    assert differences.max() == 1


def test_bytes_along_axes_that_onnx_runtime_refuses() -> None:
    x = some_integers((2, 3, 4, 5), "uint8")
    model = by_scales(scales(1.5, 2, 1, 0.8), 19, x, mode="linear")
    exact = by_scales(scales(1.5, 2, 1, 0.8), 19, x.astype("float32"), mode="linear")
    expected = ours(exact, [x.astype("float32")])[0]
    np.testing.assert_allclose(ours(model, [x])[0], np.floor(expected), rtol=0, atol=1)
