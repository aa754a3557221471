"""What a QDQ file's constants stand for: the one place that reads them back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tvm_neocpu.quantizing.onnx_graphs import attribute, weights_of

_SUFFIX = "_DequantizeLinear_Output"


def dequantised_weights(model: onnx.ModelProto) -> dict[str, NDArray[np.float32]]:
    """Weights and biases as the network multiplies them, by their names before quantising."""
    constants = weights_of(model.graph)
    found = {}
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in constants:
            continue
        integers, scale, zero = (numpy_helper.to_array(constants[name]) for name in node.input[:3])
        axis = attribute(node, "axis", 1) if scale.ndim else 0
        values = integers.astype(np.float64) - _along(zero.astype(np.float64), axis, integers)
        values *= _along(scale.astype(np.float64), axis, integers)
        found[node.output[0].removesuffix(_SUFFIX)] = values.astype(np.float32)
    return found


def _along(values: NDArray[Any], axis: int, like: NDArray[Any]) -> NDArray[Any]:
    """One value for all, or values along an axis, shaped to broadcast."""
    if values.ndim == 0 or values.size == 1:
        return values.reshape(())
    shape = [1] * like.ndim
    shape[axis] = -1
    return values.reshape(shape)
