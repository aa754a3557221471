"""Conv of every number of axes: pads of its own for every auto_pad, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest
from onnx_node import check_node, image, node_model

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

SHAPES = {1: (1, 2, 9), 2: (1, 2, 9, 8), 3: (1, 2, 5, 4, 6)}


@pytest.mark.parametrize("axes", SHAPES)
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad(axes: int, auto_pad: str) -> None:
    data, weight = image(*SHAPES[axes]), image(4, 2, *[2, 3, 2][:axes])
    strides = [2, 1, 2][:axes]
    model = node_model("Conv", [data], [weight, image(4)], auto_pad=auto_pad, strides=strides)
    check_node(model, data)


def test_same_of_a_stride_above_the_kernel() -> None:
    """As TensorFlow writes shortcuts: 1x1, stride 2."""
    data = image(1, 2, 8, 7)
    weight = image(3, 2, 1, 1)
    check_node(node_model("Conv", [data], [weight], auto_pad="SAME_UPPER", strides=[2, 2]), data)


def test_pads_are_the_convolutions_own() -> None:
    """A pad of its own would keep the convolution from its template's padding."""
    model = node_model("Conv", [image(1, 2, 9, 8)], [image(4, 2, 3, 3)], auto_pad="SAME_LOWER")
    text = relay.frontend.from_onnx(model)[0].script()
    assert "padding=[1, 1, 1, 1]" in text
    assert "pad(" not in text


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"kernel_shape": [3, 2]}, "kernel_shape"),
        ({"pads": [-1, 0, 0, 0]}, "negative"),
        ({"strides": [0, 1]}, "positive"),
        ({"dilations": [1, 4]}, "does not fit into 8"),
        ({"auto_pad": "SAME"}, "auto_pad 'SAME'"),
    ],
)
def test_refused_in_one_line(attributes: dict[str, Any], message: str) -> None:
    model = node_model("Conv", [image(1, 2, 9, 8)], [image(4, 2, 3, 3)], **attributes)
    with pytest.raises(UnsupportedOperatorError, match=message):
        relay.frontend.from_onnx(model)
