"""A function's attribute that a call leaves out has the default that the function gives."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper
from onnx_text import check_like_peer, normal


def model_of(*given: float) -> onnx.ModelProto:
    """Calls of a call of LeakyRelu, whose default alpha is 0.3; each may give its own."""
    inner = helper.make_node("LeakyRelu", ["a"], ["c"])
    inner.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    default = [helper.make_attribute("slope", 0.3)]
    leaky = helper.make_function("my", "Leaky", ["a"], ["c"], [inner], opsets, [], default)
    call = helper.make_node("Leaky", ["a"], ["c"], domain="my")
    outer = helper.make_function("my", "Outer", ["a"], ["c"], [call], opsets)
    nodes = [helper.make_node("Outer", ["x"], ["y0"], domain="my")]
    nodes += [
        helper.make_node("Leaky", [f"y{at}"], [f"y{at + 1}"], domain="my", slope=slope)
        for at, slope in enumerate(given)
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 4])
        for name in ("x", f"y{len(given)}")
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=opsets, functions=[leaky, outer], ir_version=9)


@pytest.mark.parametrize("given", [(), (0.5,)])
def test_defaults_of_functions(given: tuple[float, ...]) -> None:
    model = model_of(*given)
    before = model.SerializeToString()
    check_like_peer(model, x=normal(2, 4))
    assert model.SerializeToString() == before
