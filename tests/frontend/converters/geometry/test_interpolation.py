"""The tables of one resized axis against ONNX Runtime, and what they look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx_node import node_model, onnx_runtime

from tvm_neocpu.frontend.converters.geometry.interpolation import Method, ResizedAxis

Array = NDArray[Any]

COORDINATES = (
    "align_corners",
    "asymmetric",
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
)
ROUNDINGS = ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor")
LENGTHS = (1, 2, 5, 7, 14)
SCALES = (0.3, 0.5, 0.6, 1.3, 2.0, 2.5, 3.7)
SIZES = (1, 2, 3, 4, 9, 16, 20)


def axes() -> list[ResizedAxis]:
    """Axes by scales and by sizes; those whose length stays are left out.

    ONNX Runtime copies these, whatever their scale.
    """
    scaled = [
        ResizedAxis(length, int(np.float32(scale) * np.float32(length)), float(np.float32(scale)))
        for length in LENGTHS
        for scale in SCALES
    ]
    sized = [ResizedAxis(length, size, size / length) for length in LENGTHS for size in SIZES]
    return [axis for axis in (*scaled, *sized) if axis.resized not in (0, axis.length)]


def applied(method: Method, axis: ResizedAxis, x: Array) -> Array:
    taps = method.taps(axis)
    return (x[taps.index] * taps.weight).sum(axis=1)


def runtime(axis: ResizedAxis, x: Array, **attributes: Any) -> Array:
    """ONNX Runtime's answer, by ``scales`` where the scale is no ratio of lengths."""
    data = x.astype("float32").reshape(1, 1, 1, -1)
    if axis.scale == axis.resized / axis.length:
        rest = [None, None, np.array([1, 1, 1, axis.resized])]
    else:
        rest = [None, np.array([1, 1, 1, axis.scale], "float32")]
    model = node_model("Resize", [data], rest, opset=19, **attributes)
    return onnx_runtime(model, [data])[0].reshape(-1)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_nearest(rounding: str, coordinates: str) -> None:
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": coordinates}
    for axis in axes():
        x = np.arange(axis.length)
        found = applied(Method("nearest", coordinates, rounding), axis, x)
        np.testing.assert_array_equal(
            found, runtime(axis, x, mode="nearest", **attributes), str(axis)
        )


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_filters(mode: str, exclude: bool, antialias: bool, coordinates: str) -> None:
    if exclude and mode == "linear" and not antialias:
        return  # ONNX Runtime refuses it
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "antialias": int(antialias),
        "exclude_outside": int(exclude),
    }
    method = Method(mode, coordinates, "floor", antialias, exclude)
    for axis in axes():
        x = np.random.default_rng(0).standard_normal(axis.length)
        np.testing.assert_allclose(
            applied(method, axis, x), runtime(axis, x, **attributes), atol=2e-5, err_msg=str(axis)
        )


def test_twice_the_size() -> None:
    axis = ResizedAxis(2, 4, 2.0)
    taps = Method("linear", "half_pixel", "floor").taps(axis)
    assert taps.index.tolist() == [[0, 0], [0, 1], [0, 1], [1, 1]]
    assert taps.weight.tolist() == [[0.25, 0.75], [0.75, 0.25], [0.25, 0.75], [0.75, 0.25]]


def test_taps_without_weight_are_dropped() -> None:
    taps = Method("cubic", "align_corners", "floor").taps(ResizedAxis(5, 3, 0.6))
    assert taps.selects
    assert taps.index.tolist() == [[0], [2], [4]]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_weights_sum_to_one_and_indices_stay_inside(mode: str) -> None:
    for antialias in (False, True):
        for axis in axes():
            taps = Method(mode, "half_pixel", "floor", antialias).taps(axis)
            assert taps.index.shape == taps.weight.shape
            assert len(taps.index) == axis.resized
            assert ((taps.index >= 0) & (taps.index < axis.length)).all()
            np.testing.assert_allclose(taps.weight.sum(axis=1), 1)


def test_the_rounding_below_opset_11_depends_on_the_direction() -> None:
    assert Method("nearest").taps(ResizedAxis(5, 3, 0.6)).index[:, 0].tolist() == [0, 2, 4]
    assert Method("nearest").taps(ResizedAxis(3, 4, 1.4)).index[:, 0].tolist() == [0, 0, 1, 2]


def test_a_crop_knows_what_lies_outside() -> None:
    crop = Method("linear", "tf_crop_and_resize", "floor")
    assert crop.extrapolated(ResizedAxis(5, 3, 0.6, (-0.5, 1.0))).tolist() == [True, False, False]
    assert not crop.extrapolated(ResizedAxis(5, 3, 0.6)).any()
    outside = Method("cubic", "tf_crop_and_resize", "floor", exclude_outside=True)
    taps = outside.taps(ResizedAxis(5, 3, 0.6, (3.0, 4.0)))
    assert np.isfinite(taps.weight).all()
