"""Resize and Upsample against ONNX Runtime, and which of them stay Relax's resize2d."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx_node import assert_same, check_node, image, node_model, ours
from resizes import MODES, X, by_scales, by_sizes, scales, sizes

from tvm_neocpu import relay
from tvm_neocpu.core.errors import ShapeError, UnsupportedOperatorError

Array = NDArray[Any]


def operators(model: onnx.ModelProto) -> list[str]:
    """What the imported main function calls, in order."""
    mod, _ = relay.frontend.from_onnx(model)
    calls = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    return [str(call.op.name) for call in calls if hasattr(call, "op")]


@pytest.mark.parametrize("coordinates", MODES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales_are_what_coordinates_are_divided_by(mode: str, coordinates: str) -> None:
    """The tables of all modes meet ONNX Runtime in geometry/test_interpolation.py."""
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    check_node(by_scales(scales(1, 1, 1.3, 0.6), **attributes), X)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_sizes(opset: int, mode: str) -> None:
    check_node(by_sizes(sizes(1, 3, 12, 4), opset, mode=mode), X)


@pytest.mark.parametrize(
    ("mode", "scale", "shape"), [("linear", 0.6, (2, 4)), ("cubic", 0.8, (4, 4))]
)
def test_align_corners_divides_by_the_length_that_the_result_has(
    mode: str, scale: float, shape: tuple[int, int]
) -> None:
    """Two of ONNX's own cases expect a division by ``length * scale``, 2.4 in place of 2.

    ONNX's text, ONNX Runtime and PyTorch take the whole length.
    """
    data = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(1, 1, *shape)
    scales = np.array([1, 1, scale, scale], "float32")
    model = node_model(
        "Resize",
        [data],
        [None, scales],
        opset=19,
        mode=mode,
        coordinate_transformation_mode="align_corners",
    )
    check_node(model, data)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_opset_10_is_asymmetric(mode: str) -> None:
    check_node(by_scales(scales(1, 1, 1.3, 0.6), 10, mode=mode), X)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(mode: str) -> None:
    factors = scales(1, 1, 2.5, 1.3)
    check_node(node_model("Upsample", [X], [factors], opset=9, mode=mode), X)
    listed = [float(factor) for factor in factors]
    check_node(node_model("Upsample", [X], opset=7, mode=mode, scales=listed), X)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialias(mode: str, exclude: int) -> None:
    attributes = {"mode": mode, "antialias": 1, "exclude_outside": exclude}
    check_node(by_scales(scales(1, 1, 0.4, 0.6), **attributes), X)
    check_node(by_sizes(sizes(1, 3, 2, 25), **attributes), X)


def test_antialias_over_more_taps_than_are_written_out() -> None:
    x = image(1, 1, 100, 90)
    check_node(by_sizes(sizes(1, 1, 4, 3), x=x, mode="cubic", antialias=1), x)


@pytest.mark.parametrize("a", [-0.5, -0.75])
def test_cubic_without_what_lies_outside(a: float) -> None:
    attributes = {"mode": "cubic", "cubic_coeff_a": a, "exclude_outside": 1}
    check_node(by_scales(scales(1, 1, 0.7, 2.3), **attributes), X)


@pytest.mark.parametrize("axes", [(2, 3), (3, 2), (-1,)])
def test_listed_axes(axes: tuple[int, ...]) -> None:
    factors, extents = scales(1.5, 0.7)[: len(axes)], sizes(9, 4)[: len(axes)]
    check_node(by_scales(factors, mode="linear", axes=axes), X)
    check_node(by_sizes(extents, mode="nearest", axes=axes), X)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_the_aspect_ratio_is_kept(policy: str) -> None:
    attributes = {"keep_aspect_ratio_policy": policy, "mode": "linear"}
    model = by_sizes(sizes(9, 9), axes=(2, 3), **attributes)
    check_node(model, X)
    # ONNX Runtime 1.31 leaves an axis alone whose number is negative.
    counted_back = by_sizes(sizes(9, 9), axes=(-2, -1), **attributes)
    assert_same(ours(counted_back, [X]), ours(model, [X]))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_crop_extrapolates(mode: str) -> None:
    roi = np.array([0, 0, 0.2, -0.3, 1, 1, 1.4, 0.8], "float32")
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 7.5,
    }
    check_node(node_model("Resize", [X], [roi, None, sizes(1, 3, 5, 8)], **attributes), X)
    check_node(node_model("Resize", [X], [roi, scales(1, 1, 1.5, 0.6)], **attributes), X)


def test_a_crop_counts_though_the_scale_is_one() -> None:
    """ONNX Runtime leaves the region out there; ONNX's text and its reference crop."""
    roi = np.array([0, 0, 0.2, 0.1, 1, 1, 0.8, 0.7], "float32")
    attributes = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    model = node_model("Resize", [X], [roi, None, sizes(*X.shape)], opset=19, **attributes)
    assert_same(ours(model, [X]), ReferenceEvaluator(model).run(None, {"x0": X}))


def test_a_crop_from_outside_is_all_extrapolated() -> None:
    roi = np.array([2, 3], "float32")
    attributes = {
        "mode": "cubic",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "exclude_outside": 1,
        "extrapolation_value": -1.0,
        "axes": [3],
    }
    model = node_model("Resize", [X], [roi, None, sizes(4)], opset=19, **attributes)
    assert_same(ours(model, [X]), [np.full((1, 3, 7, 4), -1, "float32")])


@pytest.mark.parametrize("shape", [(9,), (4, 9), (2, 3, 9), (1, 2, 3, 4, 5)])
def test_other_ranks(shape: tuple[int, ...]) -> None:
    x = image(*shape)
    factors = scales(*[1] * (len(shape) - 1), 1.7)
    check_node(by_scales(factors, x=x, mode="nearest"), x)
    model = by_scales(factors, x=x, mode="linear")
    assert_same(ours(model, [x]), ReferenceEvaluator(model).run(None, {"x0": x}))


def test_the_batch_and_the_channels() -> None:
    x = image(2, 3, 4, 5)
    check_node(by_scales(scales(1.5, 2, 1, 0.8), x=x, mode="nearest"), x)
    model = by_scales(scales(1.5, 2, 1, 0.8), x=x, mode="cubic")
    assert_same(ours(model, [x]), ReferenceEvaluator(model).run(None, {"x0": x}))


def test_scales_count_though_the_extents_stay() -> None:
    """ONNX Runtime copies where all extents stay; ONNX's text and its reference interpolate."""
    model = by_scales(scales(1, 1, 1.1, 1.05), mode="linear")
    assert_same(ours(model, [X]), ReferenceEvaluator(model).run(None, {"x0": X}))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float64"])
def test_nearest_of_other_types(dtype: str) -> None:
    x = (image(1, 2, 5, 6) * 100).astype(dtype)
    model = by_scales(scales(1, 1, 1.7, 0.6), x=x, mode="nearest")
    assert_same(ours(model, [x]), ReferenceEvaluator(model).run(None, {"x0": x}))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-3), ("float64", 1e-12)])
def test_linear_of_other_floats(dtype: str, tolerance: float) -> None:
    x = image(1, 2, 5, 6, dtype=dtype)
    model = by_sizes(sizes(1, 2, 8, 3), x=x, mode="linear")
    assert_same(ours(model, [x]), ReferenceEvaluator(model).run(None, {"x0": x}), tolerance)


def test_weights_that_stay_parameters_give_their_values() -> None:
    model = by_scales(scales(1, 1, 1.3, 0.6), mode="linear")
    assert_same(ours(model, [X], freeze=False), ours(model, [X]))


@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "nearest"},
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
        {"mode": "linear"},
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ],
)
def test_whole_factors_stay_resize2d(attributes: dict[str, Any]) -> None:
    """Blocked layouts flow through resize2d, and linear has a legalisation of its own."""
    model = by_scales(scales(1, 1, 2, 3), **attributes)
    assert operators(model) == ["relax.image.resize2d"]
    check_node(model, X)


def test_linear_by_sizes_stays_resize2d() -> None:
    assert operators(by_sizes(sizes(1, 3, 11, 4), mode="linear")) == ["relax.image.resize2d"]


def test_fractional_scales_are_no_resize2d() -> None:
    for mode in ("nearest", "linear", "cubic"):
        found = operators(by_scales(scales(1, 1, 1.3, 1), mode=mode))
        assert "relax.image.resize2d" not in found


def test_a_scale_of_one_is_nothing() -> None:
    model = by_scales(scales(1, 1, 1, 1), mode="cubic")
    assert operators(model) == []
    check_node(model, X)


REFUSED: dict[str, tuple[onnx.ModelProto, str]] = {
    "attribute": (by_scales(scales(1, 1, 2, 2), 11, axes=[2, 3]), "opset 11 has no attribute axes"),
    "mode": (by_scales(scales(1, 1, 2, 2), mode="bilinear"), "mode 'bilinear'"),
    "coordinates": (
        by_scales(scales(1, 1, 2, 2), coordinate_transformation_mode="half"),
        "coordinate_transformation_mode 'half'",
    ),
    "rounding": (by_scales(scales(1, 1, 2, 2), nearest_mode="round"), "nearest_mode 'round'"),
    "antialias": (by_scales(scales(1, 1, 2, 2), antialias=1), "antialias"),
    "axes": (by_scales(scales(2, 2), axes=[2, -2]), "axis twice"),
    "count": (by_scales(scales(1, 2, 2)), "3 values for 4 axes"),
    "neither": (node_model("Resize", [X], opset=19), "either scales or sizes"),
    "roi": (
        by_sizes(sizes(1, 3, 5, 5), coordinate_transformation_mode="tf_crop_and_resize"),
        "a roi of 8 values",
    ),
    "negative": (by_scales(scales(1, 1, -2, 2)), "negative extent"),
    "absurd": (by_scales(scales(1, 1, 1e9, 1)), "more than 2"),
    "integers": (by_scales(scales(1, 1, 2, 2), x=X.astype("int64"), mode="linear"), "cast"),
    "unknown": (
        node_model(
            "Resize",
            [X, scales(0, 0, 0, 0, 1, 1, 1, 1)],
            [scales(1, 1, 2, 2)],
            opset=13,
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
        "needs a roi, extents and sizes that are known at import",
    ),
    "old": (node_model("Upsample", [X], opset=6, mode="nearest"), "Upsample"),
}


def test_scales_that_leave_nothing() -> None:
    """ONNX Runtime's result has no rows."""
    check_node(by_scales(scales(1, 1, 0.1, 1)), X)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_right_is_refused_in_one_line(kind: str) -> None:
    model, reason = REFUSED[kind]
    with pytest.raises((UnsupportedOperatorError, ShapeError), match=reason) as caught:
        relay.frontend.from_onnx(model)
    assert "\n" not in str(caught.value)
