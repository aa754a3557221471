"""A model that no template takes."""

from __future__ import annotations

from collections.abc import Callable

import onnx


def volume_model(make_model: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    """A transposed 3-D convolution of "data" (1, 2, 4, 5, 6) with a weight that is computed."""
    nodes = [
        onnx.helper.make_node("ReduceMax", ["data"], ["largest"], keepdims=0),
        onnx.helper.make_node("Mul", ["w", "largest"], ["scaled"]),
        onnx.helper.make_node("ConvTranspose", ["data", "scaled"], ["out"], strides=[2, 2, 2]),
    ]
    return make_model(nodes, (1, 2, 4, 5, 6), {"w": (2, 3, 2, 2, 2)})
