"""A node and the body that its schema has compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_node import assert_same, image, node_model, onnx_runtime, ours, value_of
from onnx_text import parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames
from tvm_neocpu.frontend.rewriting.inline_functions import function_nodes

X = image(2, 4, 3, 3)
TARGETS = np.array([1, 0], "int64")

# Operator, opset, inputs (None: omitted), attributes; both kinds of body.
NODES: list[tuple[str, int, list[NDArray[Any] | None], dict[str, Any]]] = [
    ("Celu", 12, [X], {}),
    ("Celu", 12, [X], {"alpha": 2.0}),
    ("Selu", 22, [X], {}),
    ("Clip", 13, [X, None, np.float32(0.5)], {}),
    ("Clip", 13, [X, np.float32(-0.5)], {}),
    ("MeanVarianceNormalization", 13, [X], {"axes": [1, 2]}),
    ("GroupNormalization", 21, [X, image(4), image(4)], {"num_groups": 2}),
    ("CenterCropPad", 18, [X, np.array([5, 2])], {"axes": [1, 2]}),
    ("SoftmaxCrossEntropyLoss", 13, [X[:, :, 0, 0], TARGETS], {"reduction": "sum"}),
    ("NegativeLogLikelihoodLoss", 22, [X[:, :, 0, 0], TARGETS], {}),
    ("Swish", 24, [X], {"alpha": 0.5}),
    ("LayerNormalization", 17, [X, image(3)], {}),
]


def _model(nodes: list[onnx.NodeProto], inputs: dict[str, Any], opset: int) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [value_of(name, value) for name, value in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


@pytest.mark.parametrize(("op_type", "opset", "values", "attributes"), NODES)
def test_a_body_computes_what_its_node_does(
    op_type: str, opset: int, values: list[Any], attributes: dict[str, Any]
) -> None:
    inputs = {f"x{place}": np.asarray(value) for place, value in enumerate(values)}
    inputs = {name: value for name, value in inputs.items() if value.dtype != object}
    names = [f"x{place}" if f"x{place}" in inputs else "" for place in range(len(values))]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    whole = _model([node], inputs, opset)
    known = {value.name: value.type for value in whole.graph.input}
    body = function_nodes(node, [known.get(name) for name in names], opset, FreshNames())
    assert body is not None
    assert op_type not in {inner.op_type for inner in body}
    found = ReferenceEvaluator(_model(body, inputs, opset)).run(None, inputs)
    assert_same(found, ReferenceEvaluator(whole).run(None, inputs))


def test_what_has_no_body_stays() -> None:
    types = [helper.make_tensor_type_proto(1, [1, 4, 3, 3])]
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    assert function_nodes(conv, [*types, *types], 22, FreshNames()) is None
    too_new = helper.make_node("Swish", ["x"], ["y"])
    assert function_nodes(too_new, types, 22, FreshNames()) is None
    foreign = helper.make_node("Celu", ["x"], ["y"], domain="their.own")
    assert function_nodes(foreign, types, 22, FreshNames()) is None
    typeless = helper.make_node("Clip", ["x"], ["y"])
    assert function_nodes(typeless, [None], 13, FreshNames()) is None


def test_an_operator_without_a_converter_is_imported_by_its_body() -> None:
    """Two of a kind: the names inside their bodies differ."""
    model = parsed("""
        g (float[2,4,6,6] x) => (float[] y) {
            size = Constant<value_ints = [4, 8]>()
            a = CenterCropPad<axes = [2, 3]>(x, size)
            y = CenterCropPad<axes = [3, 2]>(a, size)
        }""", opset=18)  # fmt: skip
    assert_same(ours(model, [image(2, 4, 6, 6)]), onnx_runtime(model, [image(2, 4, 6, 6)]))


@pytest.mark.parametrize("name", ["y/k2", "y/pads", "y/padded_input"])
def test_a_body_takes_no_name_of_the_graph(name: str) -> None:
    model = parsed(f"""
        g (float[2,4,6,6] x) => (float[] y, float[] z) {{
            "{name}" = Neg(x)
            size = Constant<value_ints = [4, 8]>()
            y = CenterCropPad<axes = [2, 3]>(x, size)
            z = Relu("{name}")
        }}""", opset=18)  # fmt: skip
    assert_same(ours(model, [image(2, 4, 6, 6)]), onnx_runtime(model, [image(2, 4, 6, 6)]))


def test_a_branch_and_an_iteration_take_no_name_of_the_graph() -> None:
    """The iteration's own counter is one of the names that its body has, too."""
    model = parsed("""
        g (float[2,3] x) => (float[] y, float[] z, float[] s) {
            "y/v" = Neg(x)
            "s/0/v" = Abs(x)
            yes = Constant<value = bool {1}>()
            three = Constant<value = int64 {3}>()
            y = If (yes) <
                then_branch = b () => (w) { v = Exp(x) w = Add(v, "y/v") },
                else_branch = c () => (w) { w = Relu(x) }
            >
            s = Loop (three, , x) <
                body = d (int64 i, bool go, float[2,3] h) => (again, v) {
                    again = Identity(go)
                    iteration = Mul(h, h)
                    step = Cast<to = 1>(i)
                    scaled = Mul(iteration, step)
                    v = Add(scaled, "s/0/v")
                }
            >
            z = Add("y/v", "s/0/v")
        }""", opset=18)  # fmt: skip
    assert_same(ours(model, [image(2, 3)]), onnx_runtime(model, [image(2, 3)]))


def test_what_neither_has_a_converter_nor_a_body_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"cannot be imported: Multinomial$"):
        relay.frontend.from_onnx(node_model("Multinomial", [image(3, 3)]))
