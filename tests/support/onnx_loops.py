"""A Scan over the columns of a matrix, for those that are unrolled and those that stay loops."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def scan_model(length: int, from_end: bool, to_begin: bool) -> onnx.ModelProto:
    """``x (2, length)`` -> running sums of its columns from ``[1, 2]``, times the columns.

    ``from_end``: the last column first; ``to_begin``: the first result becomes the last column.
    """

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "e"], ["so"]),
            helper.make_node("Mul", ["so", "e"], ["eo"]),
        ],
        "body",
        [value("s", 2), value("e", 2)],
        [value("so", 2), value("eo", 2)],
    )
    node = helper.make_node(
        "Scan",
        ["s0", "x"],
        ["state", "y"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=[int(from_end)],
        scan_output_directions=[int(to_begin)],
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [value("x", 2, length)],
        [value("state", 2), value("y", 2, length)],
        [numpy_helper.from_array(np.float32([1, 2]), "s0")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
