"""Bodies of loops and branches that take or give too few tensors."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModelFileError


def _value(name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] = (1, 3)):
    return helper.make_tensor_value_info(name, kind, shape)


def _loop(inputs: int, outputs: int = 2) -> onnx.ModelProto:
    """Three times x + 1, whose body has so many of its three inputs and two outputs."""
    ins = [_value("i", TensorProto.INT64, ()), _value("c", TensorProto.BOOL, ()), _value("x")]
    nodes = [
        helper.make_node("Identity", ["c" if inputs > 1 else "go"], ["more"]),
        helper.make_node("Add", ["x" if inputs > 2 else "data", "one"], ["sum"]),
    ]
    outs = [_value("more", TensorProto.BOOL, ()), _value("sum")]
    body = helper.make_graph(nodes, "body", ins[:inputs], outs[:outputs])
    loop = helper.make_node("Loop", ["trips", "go", "data"], ["out"], "thrice", body=body)
    constants = [
        helper.make_tensor("trips", TensorProto.INT64, [], [3]),
        helper.make_tensor("go", TensorProto.BOOL, [], [True]),
        helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
    ]
    graph = helper.make_graph([loop], "graph", [_value("data")], [_value("out")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("inputs", [0, 1, 2])
def test_a_body_that_lacks_inputs_is_refused(inputs: int) -> None:
    """They were zipped with the node's: a traceback."""
    words = rf"broken: Loop \(node thrice\): its body has {inputs} inputs, not 3"
    with pytest.raises(ModelFileError, match=words):
        relay.frontend.from_onnx(_loop(inputs))


def test_a_body_that_lacks_outputs_is_refused() -> None:
    with pytest.raises(ModelFileError, match="its body has 1 outputs; the node needs 2"):
        relay.frontend.from_onnx(_loop(3, outputs=1))


def test_a_branch_takes_nothing() -> None:
    nodes = [helper.make_node("Identity", ["data"], ["y"])]
    branch = helper.make_graph(nodes, "branch", [_value("x")], [_value("y")])
    node = helper.make_node("If", ["go"], ["out"], then_branch=branch, else_branch=branch)
    go = helper.make_tensor("go", TensorProto.BOOL, [], [True])
    graph = helper.make_graph([node], "graph", [_value("data")], [_value("out")], [go])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelFileError, match="its body has 1 inputs, not 0"):
        relay.frontend.from_onnx(model)


def test_a_whole_body_is_imported() -> None:
    relay.frontend.from_onnx(_loop(3))
