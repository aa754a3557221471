"""Weights of 7 bits are cut where the sum of four products would leave 16 bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import integers
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu.quantizing.onnx_graphs import weights_of
from tvm_neocpu.quantizing.rewriting.fit_sums import cut_fours, fit_sums
from tvm_neocpu.topi.conv2d_integer.small_weights import is_small


def test_the_larger_weights_lose_as_much_as_the_smaller() -> None:
    weight = np.zeros((1, 8, 1, 1), "int8")
    weight[0, [0, 1, 4, 5], 0, 0] = 50, 41, 30, 22
    expected = weight.copy()
    expected[0, [0, 1, 4, 5], 0, 0] = 46, 37, 26, 19
    np.testing.assert_array_equal(cut_fours(weight), expected)
    np.testing.assert_array_equal(cut_fours(-weight), -expected)


@given(arrays("int8", (2, 16, 2, 1), elements=integers(-64, 64)))
def test_cut_weights_fit_and_others_stay(weight: np.ndarray) -> None:
    cut = cut_fours(weight)
    assert is_small(cut, 6)
    assert (np.abs(cut) <= np.abs(weight)).all() and (cut.astype(int) * weight >= 0).all()
    np.testing.assert_array_equal(cut_fours(cut), cut)


def network(weight: np.ndarray) -> onnx.ModelProto:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["dw"], "dq"),
        helper.make_node("Conv", ["x", "dw"], ["y"], "conv"),
    ]
    constants = {"w": weight, "scale": np.float32(0.1), "zero": np.int8(0)}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, weight.shape[1], 5, 5))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    return helper.make_model(graph)


@pytest.mark.parametrize(("large", "fits"), [(0, True), (1, True), (200, False)])
def test_a_layer_that_would_lose_much_stays(large: int, fits: bool) -> None:
    """Of 200 rows, so many have fours that are too large by 4."""
    weight = np.full((200, 8, 1, 1), 30, "int8")
    weight[0, :4] = 34  # more than 6 bits
    weight[:large] = 33
    found = numpy_helper.to_array(weights_of(fit_sums(network(weight)).graph)["w"])
    assert is_small(found, 6) == fits
    np.testing.assert_array_equal(found[large or 1 :], weight[large or 1 :])
    if not fits:
        np.testing.assert_array_equal(found, weight)
