"""MaxPool, AveragePool and LpPool against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_node import check_node, image, node_model

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

X = image(2, 3, 9, 7)
POOLS = ("MaxPool", "AveragePool", "LpPool")

WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {"kernel_shape": [3, 2]},
    "strides and pads": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 2, 1]},
    "same upper": {"kernel_shape": [4, 3], "strides": [2, 3], "auto_pad": "SAME_UPPER"},
    "same lower": {"kernel_shape": [4, 3], "strides": [2, 3], "auto_pad": "SAME_LOWER"},
    "valid": {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"},
    "ceil": {"kernel_shape": [3, 2], "strides": [4, 4], "ceil_mode": 1},
    "ceil and pads": {
        "kernel_shape": [3, 3],
        "strides": [3, 2],
        "pads": [1, 1, 1, 1],
        "ceil_mode": 1,
    },
    "a window in the padding": {
        "kernel_shape": [3, 3],
        "strides": [3, 3],
        "pads": [2, 2, 2, 2],
        "ceil_mode": 1,
    },
    "a window above the image": {"kernel_shape": [10, 8], "strides": [2, 3], "ceil_mode": 1},
    "dilations": {
        "kernel_shape": [3, 2],
        "dilations": [2, 3],
        "strides": [2, 1],
        "pads": [1, 1, 2, 0],
        "ceil_mode": 1,
    },
}


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("op_type", POOLS)
def test_windows(op_type: str, kind: str) -> None:
    check_node(node_model(op_type, [X], **WINDOWS[kind]), X)


@pytest.mark.parametrize("kind", WINDOWS)
def test_averages_that_count_the_padding(kind: str) -> None:
    """The padding counts, what a window overhangs under ceil_mode does not."""
    check_node(node_model("AveragePool", [X], count_include_pad=1, **WINDOWS[kind]), X)


@pytest.mark.parametrize("op_type", POOLS)
def test_one_axis_and_three(op_type: str) -> None:
    for axes in (1, 3):
        x = image(1, 2, *(8, 5, 6)[:axes])
        windows = {"kernel_shape": [3] * axes, "strides": [2] * axes, "ceil_mode": 1}
        check_node(node_model(op_type, [x], pads=[1] * 2 * axes, **windows), x)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_norms(p: int) -> None:
    check_node(node_model("LpPool", [X], kernel_shape=[3, 2], pads=[1, 1, 1, 1], p=p), X)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("strides", [[3, 2], [6, 5]])
def test_a_stride_above_the_kernel(auto_pad: str, strides: list[int]) -> None:
    x = image(1, 3, 14, 10)
    windows = {"kernel_shape": [1, 2], "strides": strides, "auto_pad": auto_pad}
    check_node(node_model("LpPool", [x], **windows), x)


@pytest.mark.parametrize("opset", [7, 8, 10, 11, 12, 19, 22])
def test_every_opset(opset: int) -> None:
    for op_type in POOLS:
        check_node(node_model(op_type, [X], kernel_shape=[2, 2], opset=opset), X)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float64"])
def test_largest_of_other_types(dtype: str) -> None:
    x = (X * 40).astype(dtype)
    check_node(node_model("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), x)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("kind", WINDOWS)
def test_places_of_the_largest(kind: str, order: int) -> None:
    """Of equal elements the first counts; there are many in rounded data."""
    x = np.round(X)
    check_node(node_model("MaxPool", [x], outputs=2, storage_order=order, **WINDOWS[kind]), x)


@pytest.mark.parametrize("order", [0, 1])
def test_places_on_one_axis_and_on_three(order: int) -> None:
    for axes in (1, 3):
        x = np.round(image(2, 2, *(6, 4, 5)[:axes]))
        windows = {"kernel_shape": [2] * axes, "pads": [1] * 2 * axes, "storage_order": order}
        check_node(node_model("MaxPool", [x], outputs=2, **windows), x)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no kernel": ({}, "attribute kernel_shape is missing"),
    "kernel of another rank": ({"kernel_shape": [3]}, "kernel_shape has 1 values in place of 2"),
    "pads of another rank": ({"kernel_shape": [3, 3], "pads": [1, 1]}, "pads has 2 values"),
    "stride 0": ({"kernel_shape": [3, 3], "strides": [0, 1]}, "must be positive"),
    "wide pads": ({"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]}, "pads 2 and 0"),
    "too large": ({"kernel_shape": [10, 2]}, "does not fit"),
    "auto_pad": ({"kernel_shape": [2, 2], "auto_pad": "SAME"}, "auto_pad 'SAME'"),
    "attribute": ({"kernel_shape": [2, 2], "alpha": 1}, "no attribute alpha"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_right_is_refused_in_one_line(kind: str) -> None:
    attributes, reason = REFUSED[kind]
    _refuses(node_model("AveragePool", [X], **attributes), reason)


def test_four_axes_are_refused() -> None:
    x = image(1, 1, 2, 2, 2, 2)
    _refuses(node_model("MaxPool", [x], kernel_shape=[1, 1, 1, 1]), "4 spatial axes")


def _refuses(model: onnx.ModelProto, reason: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=reason) as caught:
        relay.frontend.from_onnx(model)
    assert "\n" not in str(caught.value)
