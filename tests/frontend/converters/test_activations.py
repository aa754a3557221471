"""Slopes of PRelu, and float32 activations against ONNX Runtime."""

from __future__ import annotations

import pytest
from onnx_node import assert_same, check_node, image, node_model, onnx_runtime, ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

X = image(2, 3, 4, 5)


@pytest.mark.parametrize("slope", [(1,), (), (5,), (3, 1, 1), (1, 3, 1, 1), (3, 4, 5), (4, 5)])
def test_a_slope_broadcasts_from_the_right(slope: tuple[int, ...]) -> None:
    check_node(node_model("PRelu", [X], [image(*slope)], opset=16), X)


def test_a_slope_of_opset_6_belongs_to_the_channels() -> None:
    old = node_model("PRelu", [X], [image(3)], opset=6)
    new = node_model("PRelu", [X], [image(3).reshape(3, 1, 1)], opset=16)
    assert_same(ours(old, [X]), onnx_runtime(new, [X]))


def test_a_slope_of_more_axes_than_its_input_is_refused() -> None:
    model = node_model("PRelu", [X[0, 0]], [image(3, 4, 5)], opset=16)
    with pytest.raises(UnsupportedOperatorError, match="does not broadcast"):
        relay.frontend.from_onnx(model)
