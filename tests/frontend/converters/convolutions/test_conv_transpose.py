"""ConvTranspose against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx_node import Array, check_node, image, node_model

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

X = image(1, 4, 5, 6)
W = image(4, 3, 3, 4)
B = image(3)

WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strides and pads": {"strides": [2, 3], "pads": [1, 0, 2, 1]},
    "output_padding": {"strides": [2, 3], "pads": [1, 1, 1, 1], "output_padding": [1, 2]},
    "output_padding behind no pads": {"strides": [2, 3], "output_padding": [1, 2]},
    "dilations": {"strides": [2, 1], "dilations": [2, 3], "pads": [1, 2, 3, 0]},
    "same upper": {"strides": [2, 3], "auto_pad": "SAME_UPPER"},
    "same lower": {"strides": [2, 3], "auto_pad": "SAME_LOWER"},
    "valid": {"strides": [2, 2], "auto_pad": "VALID"},
    "output_shape": {"strides": [2, 3], "output_shape": [8, 14]},
    "output_shape, same upper": {
        "strides": [2, 3],
        "output_shape": [8, 14],
        "auto_pad": "SAME_UPPER",
    },
    "output_shape in place of pads": {
        "strides": [2, 3],
        "output_shape": [10, 17],
        "pads": [1, 1, 1, 1],
    },
    "output_shape beyond the inputs": {"strides": [2, 3], "output_shape": [12, 20]},
    "kernel_shape": {"kernel_shape": [3, 4], "pads": [1, 1, 1, 1]},
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows(kind: str) -> None:
    check_node(node_model("ConvTranspose", [X], [W, B], **WINDOWS[kind]), X)


@pytest.mark.parametrize("kind", ["output_padding", "dilations", "output_shape"])
def test_weights_that_are_inputs(kind: str) -> None:
    check_node(node_model("ConvTranspose", [X, W, B], **WINDOWS[kind]), X, W, B)


@pytest.mark.parametrize("kind", ["output_padding", "dilations", "same lower", "output_shape"])
def test_groups(kind: str) -> None:
    check_node(node_model("ConvTranspose", [X], [W], group=2, **WINDOWS[kind]), X)


@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize("bias", [None, B])
def test_opsets_with_a_bias_and_without(opset: int, bias: Array | None) -> None:
    check_node(node_model("ConvTranspose", [X], [W, bias], opset=opset, strides=[2, 2]), X)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("axes", [1, 3])
def test_one_axis_and_three(axes: int, group: int) -> None:
    x, w = image(2, 4, *(5, 3, 4)[:axes]), image(4, 3, *(3, 2, 4)[:axes])
    one = {
        "strides": [2] * axes,
        "dilations": [2] * axes,
        "pads": [1] * axes + [2] * axes,
        "output_padding": [1] * axes,
    }
    other = {"strides": [3] * axes, "output_shape": [14, 9, 13][:axes]}
    for windows in (one, other):
        check_node(node_model("ConvTranspose", [x], [w], group=group, **windows), x)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "kernel_shape": ({"kernel_shape": [3, 3]}, "kernel_shape .* is not the weight's"),
    "output_shape": ({"output_shape": [9]}, "output_shape has 1 values in place of 2"),
    "too long": ({"output_shape": [9, 9]}, "reach 7 only"),
    "output_padding": ({"output_padding": [1, 1]}, "output_padding 1"),
    "pads": ({"pads": [-1, 0, 0, 0]}, "must not be negative"),
    "auto_pad": ({"auto_pad": "SAME"}, "auto_pad 'SAME'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_right_is_refused_in_one_line(kind: str) -> None:
    attributes, reason = REFUSED[kind]
    _refuses(node_model("ConvTranspose", [X], [W], **attributes), reason)


def test_weights_of_another_rank_are_refused() -> None:
    _refuses(node_model("ConvTranspose", [X], [image(4, 3, 3)]), "4 known extents")


def _refuses(model: onnx.ModelProto, reason: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=reason) as caught:
        relay.frontend.from_onnx(model)
    assert "\n" not in str(caught.value)
