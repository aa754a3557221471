"""Quantisation where ONNX's own cases do not look; those are in tests/onnx_suite."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from onnx_node import assert_same, check_node, image, node_model, onnx_runtime, ours
from onnx_text import Array

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

X = image(2, 4, 6) * 4
SCALES = np.array([0.1, 0.2, 0.05, 0.4], "float32")
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], "float32")


def whole(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(0).integers(limits.min, limits.max, shape, dtype, True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_one_scale_for_each_channel_there_and_back(dtype: str) -> None:
    zero = whole(dtype, 4)
    check_node(node_model("QuantizeLinear", [X], [SCALES, zero], axis=1), X)
    data = whole(dtype, 2, 4, 6)
    check_node(node_model("DequantizeLinear", [data], [SCALES, zero], axis=-2), data)


def test_halves_round_to_even() -> None:
    check_node(node_model("QuantizeLinear", [HALVES], [np.float32(1), np.int8(0)]), HALVES)


@pytest.mark.parametrize("length", [6, 5])
def test_blocks_of_which_the_last_may_be_short(length: int) -> None:
    data, scale = X[:, :, :length], np.abs(image(2, 4, 3)) + 0.1
    zero = whole("uint8", 2, 4, 3)
    spread = np.repeat(scale, 2, 2)[:, :, :length]
    shift = np.repeat(zero, 2, 2)[:, :, :length].astype("float32")
    model = node_model("QuantizeLinear", [data], [scale, zero], axis=2, block_size=2)
    expected = np.clip(np.round(data / spread) + shift, 0, 255).astype("uint8")
    assert_same(ours(model, [data]), [expected])
    model = node_model("DequantizeLinear", [expected], [scale, zero], axis=2, block_size=2)
    assert_same(ours(model, [expected]), [((expected - shift) * spread).astype("float32")])


def test_int32_has_no_zero_point() -> None:
    data = whole("int32", 3, 4) // 2**10
    check_node(node_model("DequantizeLinear", [data], [np.float32(0.01)]), data)


def test_the_type_may_be_an_attribute() -> None:
    model = node_model("QuantizeLinear", [X], [np.float32(0.1)], output_dtype=TensorProto.INT16)
    check_node(model, X)


@pytest.mark.parametrize("data", [X, np.abs(X) + 1, np.zeros_like(X)])
def test_the_range_of_the_data_and_zero(data: Array) -> None:
    model = node_model("DynamicQuantizeLinear", [data], opset=11, outputs=3)
    assert_same(ours(model, [data]), onnx_runtime(model, [data]))


def test_the_step_of_a_range_is_the_nearest_float32() -> None:
    """A product with 1/255 is an ulp off for most ranges, and then ties round otherwise."""
    data = np.float32([5, 6, 7, 9, 10, 11, 13]) * np.float32(0.3)
    model = node_model("DynamicQuantizeLinear", [data[:1]], opset=11, outputs=3)
    for value in data:
        found = ours(model, [value.reshape(1)])
        for one, other in zip(found, onnx_runtime(model, [value.reshape(1)]), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("zero", "message"),
    [
        (np.int8(3), "a zero point in int8 for data in uint8"),
        (np.zeros(4, "uint8"), r"a zero point \[4\] with a scale \[\]"),
    ],
)
def test_zero_points_that_do_not_fit(zero: Array, message: str) -> None:
    model = node_model("DequantizeLinear", [whole("uint8", 2, 4)], [np.float32(1), zero])
    with pytest.raises(UnsupportedOperatorError, match=message):
        relay.frontend.from_onnx(model)


def test_a_zero_point_of_int32_is_0() -> None:
    model = node_model("DequantizeLinear", [whole("int32", 4)], [np.float32(1), np.int32(2)])
    with pytest.raises(UnsupportedOperatorError, match="other than 0 for data in int32"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize(
    ("scale", "attributes", "message"),
    [
        (SCALES, {"axis": 2}, r"a scale \[4\] for axis 2"),
        (SCALES, {"axis": 3}, "axis 3 is outside"),
        (np.float32([[1, 2]]), {"axis": 1, "block_size": 3}, "for blocks of 3"),
        (np.float32(1), {"output_dtype": TensorProto.INT4}, "int4 is none of int8"),
        (np.float32(0), {}, "a scale of 0; scales are positive and finite"),
        (np.float32(-0.5), {}, "a scale of -0.5; scales are positive"),
        (np.float32([1, np.nan, 1, 1]), {"axis": 1}, "a scale of nan; scales are positive"),
        (np.float32(np.inf), {}, "a scale of inf; scales are positive"),
    ],
)
def test_refused_in_one_line(scale: Array, attributes: dict[str, int], message: str) -> None:
    model = node_model("QuantizeLinear", [X], [scale], opset=23, **attributes)
    with pytest.raises(UnsupportedOperatorError, match=message):
        relay.frontend.from_onnx(model)
