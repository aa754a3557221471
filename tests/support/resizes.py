"""Nodes of Resize, by scales and by sizes, as each opset writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx_node import image, node_model

Array = NDArray[Any]

X = image(1, 3, 7, 10)
MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")


def scales(*values: float) -> Array:
    return np.array(values, "float32")


def sizes(*values: int) -> Array:
    return np.array(values, "int64")


def by_scales(factors: Array, opset: int = 19, x: Array = X, **attributes: Any) -> onnx.ModelProto:
    roi = scales() if opset < 13 else None  # an empty tensor is how old opsets omit an input
    inputs = [factors] if opset < 11 else [roi, factors]
    return node_model("Resize", [x], inputs, opset=opset, **attributes)


def by_sizes(extents: Array, opset: int = 19, x: Array = X, **attributes: Any) -> onnx.ModelProto:
    empty = scales() if opset < 13 else None
    return node_model("Resize", [x], [empty, empty, extents], opset=opset, **attributes)
