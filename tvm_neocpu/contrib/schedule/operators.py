"""What ONNX's operators are to a scheduler: their kind, their window, whether rows are local."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any

import onnx
from onnx import helper

from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, Window

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operator:
    """``is_global``: each row of the result needs every row of an input."""

    kind: OpKind
    is_global: bool = False


_CONV = Operator(OpKind.CONV)
_PRODUCT = Operator(OpKind.CONV, is_global=True)
_POOL = Operator(OpKind.POOL)
_REDUCTION = Operator(OpKind.POOL, is_global=True)
_ELEMENTWISE = Operator(OpKind.ELEMENTWISE)
_MOVEMENT = Operator(OpKind.MOVEMENT)
_RESHAPED = Operator(OpKind.MOVEMENT, is_global=True)
BOUNDARY = Operator(OpKind.BOUNDARY, is_global=True)

# fmt: off
_ELEMENTWISE_OPERATORS = (
    "Abs", "Add", "And", "BatchNormalization", "Cast", "Ceil", "Clip", "Cos",
    "DequantizeLinear", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater",
    "HardSigmoid", "HardSwish", "LRN", "LeakyRelu", "Less", "Log", "Max", "Mean", "Min",
    "Mish", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "QuantizeLinear", "Reciprocal",
    "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt",
    "Sub", "Sum", "Tanh", "ThresholdedRelu", "Where",
)
_RESHAPING_OPERATORS = (
    "DepthToSpace", "Expand", "Flatten", "Gather", "Reshape", "Slice",
    "SpaceToDepth", "Squeeze", "Tile", "Transpose", "Unsqueeze",
)
# fmt: on
OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        **dict.fromkeys(["Conv", "ConvTranspose", "QLinearConv", "ConvInteger"], _CONV),
        **dict.fromkeys(["Gemm", "MatMul", "QLinearMatMul", "MatMulInteger"], _PRODUCT),
        **dict.fromkeys(["MaxPool", "AveragePool", "LpPool"], _POOL),
        **dict.fromkeys(
            ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"]
            + [f"Reduce{name}" for name in ("Mean", "Max", "Min", "Sum", "L2")],
            _REDUCTION,
        ),
        **dict.fromkeys(_ELEMENTWISE_OPERATORS, _ELEMENTWISE),
        **dict.fromkeys(["Concat", "Pad", "Resize", "Slice", "Split", "Upsample"], _MOVEMENT),
        **dict.fromkeys(_RESHAPING_OPERATORS, _RESHAPED),
        **dict.fromkeys(
            ["Softmax", "LogSoftmax", "InstanceNormalization", "LayerNormalization"], _REDUCTION
        ),
    }
)


def window_of(node: onnx.NodeProto, weight: Shape | None, source: Shape, made: Shape) -> Window:
    """The window of a convolution or pool; of an enlargement, its factor."""
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    kernel = _pair(attributes.get("kernel_shape") or (weight or ())[2:])
    stride, dilation = _pair(attributes.get("strides")), _pair(attributes.get("dilations"))
    if node.op_type == "ConvTranspose":
        return Window(kernel, dilation=dilation, upscale=stride[0])
    is_moved = OPERATORS.get(node.op_type) is _MOVEMENT and len(source) == len(made) == 4
    if is_moved and source[2] != made[2]:
        # One row more: where the band begins inside a source row, and for linear filters.
        down, up = ceil(source[2] / max(1, made[2])), ceil(made[2] / max(1, source[2]))
        return Window((2, 2), (max(1, down),) * 2, upscale=max(1, up) if up > 1 else 1)
    return Window(kernel, stride, _padding(attributes, kernel, stride, source, made), dilation)


def _padding(
    attributes: Mapping[str, Any], kernel: Sequence[int], stride: Sequence[int], *shapes: Shape
) -> tuple[int, int]:
    if attributes.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        around = [
            max(0, (out - 1) * step + size - image) // 2
            for image, out, step, size in zip(
                shapes[0][2:], shapes[1][2:], stride, kernel, strict=False
            )
        ]
        return _pair(around, 0)
    return _pair((attributes.get("pads") or ())[:2], 0)


def _pair(values: Sequence[int] | None, default: int = 1) -> tuple[int, int]:
    """(height, width); one axis alone is the width."""
    found = [int(value) for value in values or ()]
    if len(found) == 1:
        return default, found[0]
    return (found[0], found[1]) if len(found) >= 2 else (default, default)
