"""Tensors without elements, which a file or its inputs may have, come out as from ONNX Runtime."""

from __future__ import annotations

import pytest
from onnx_text import check_like_peer, normal, parsed

NODES = {
    "bounds": ("float[2,0] x", "y = Clip <max = 0.5> (x)", 7),
    "a chain": ("float[3,0,4] x", "a = Relu(x) b = Sigmoid(a) y = Mul(a, b)", 17),
    "places": ("float[4,0] x", "y = NonZero(x)", 17),
    "boxes": (
        "float[2,0,4] x, float[2,3,0] s",
        "n = Constant <value = int64 {5}> () y = NonMaxSuppression(x, s, n)",
        17,
    ),
    "rows": ("float[0,3,4] x", "y = Softmax(x)", 17),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node(name: str) -> None:
    inputs, nodes, opset = NODES[name]
    model = parsed(f"g ({inputs}) => (y) {{ {nodes} }}", opset)
    feeds = {
        value.name: normal(*(dim.dim_value for dim in value.type.tensor_type.shape.dim))
        for value in model.graph.input
    }
    assert 0 in feeds["x"].shape
    check_like_peer(model, **feeds)
