"""Models of one node of ONNX Runtime's own operators."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper, numpy_helper
from onnx_node import value_of
from onnx_text import Array


def model_of(
    op_type: str,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    order: str,
    outputs: str = "y",
    opset: int = 17,
    **attributes: object,
) -> onnx.ModelProto:
    """One node; ``order`` names its inputs, ``-`` one that is left out."""
    names = ["" if name == "-" else name for name in order.split()]
    node = helper.make_node(op_type, names, outputs.split(), domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [value_of(name, value) for name, value in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs.split()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
