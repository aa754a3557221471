"""Loop and Scan whose iterations are known at import, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_loops import scan_model
from onnx_node import Array, assert_same, image, onnx_runtime, ours

from tvm_neocpu import relay

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
WEIGHT = numpy_helper.from_array(image(4, 4, 3, 3) * np.float32(0.2), "w")


def _value(name: str, kind: int = FLOAT, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _constant(name: str, value: object, dtype: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, dtype), name)


def _loop(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    opset: int = 13,
    shape: Sequence[int] = (1, 4, 6, 6),
) -> onnx.ModelProto:
    """A Loop of one carried tensor ``v -> vo``, the others are scan outputs."""
    body = helper.make_graph(
        list(nodes),
        "body",
        [_value("i", INT64, []), _value("go", BOOL, []), _value("v")],
        [_value("goes", BOOL, []), *map(_value, ["vo", "mean"][: len(outputs)])],
        [WEIGHT, _constant("limit", 2, "int64")],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", list(inputs), list(outputs), "loop", body=body)],
        "graph",
        [_value("x", FLOAT, shape)],
        [_value(name) for name in outputs],
        [_constant("three", 3, "int64"), _constant("yes", True, "bool")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


CONVOLUTIONS = [
    helper.make_node("Conv", ["v", "w"], ["c"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["c"], ["vo"]),
    helper.make_node("ReduceMean", ["vo"], ["m"], keepdims=0),
    helper.make_node("Cast", ["i"], ["number"], to=FLOAT),
    helper.make_node("Add", ["m", "number"], ["mean"]),
    helper.make_node("Identity", ["go"], ["goes"]),
]


def _same(model: onnx.ModelProto, x: Array) -> None:
    assert_same(ours(model, [x]), onnx_runtime(model, [x]))


@pytest.mark.parametrize("opset", [11, 13])
def test_a_counted_loop_of_convolutions(opset: int) -> None:
    model = _loop(CONVOLUTIONS, ["three", "", "x"], ["y", "means"], opset=opset)
    _same(model, image(1, 4, 6, 6))
    mod, _ = relay.frontend.from_onnx(model)
    assert str(mod).count("R.nn.conv2d(") == 3


def test_a_loop_that_ends_by_its_condition() -> None:
    nodes = [
        helper.make_node("Mul", ["v", "v"], ["vo"]),
        helper.make_node("Less", ["i", "limit"], ["goes"]),
    ]
    _same(_loop(nodes, ["", "yes", "x"], ["y"], shape=[3]), image(3))


def test_a_condition_that_depends_on_data_takes_the_first_iterations_back() -> None:
    nodes = [
        helper.make_node("Mul", ["v", "v"], ["vo"]),
        helper.make_node("ReduceMax", ["vo"], ["m"], keepdims=0),
        helper.make_node("Less", ["m", "m"], ["goes"]),
    ]
    model = _loop(nodes, ["", "yes", "x"], ["y"], shape=[3])
    mod, _ = relay.frontend.from_onnx(model)
    assert str(mod).count("R.multiply(") == 1
    _same(model, image(3))


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_scan(backwards: int) -> None:
    _same(scan_model(4, bool(backwards), not backwards), image(2, 4))
