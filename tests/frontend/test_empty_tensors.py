"""Tensors without elements, which a file or its inputs may have, come out as from ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_text import check_like_peer, normal, parsed

from tvm_neocpu import Session, relay

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
    "an old softmax": ("float[3,3,0] x", "y = Softmax(x)", 7),
    "a tangent": ("float[0,4,3] x", "y = Tan(x)", 17),
    "a convolution": ("float[0,3,6,6] x, float[4,3,3,3] w", "y = Conv(x, w)", 17),
    "products": ("float[0,3,4] x", "w = Transpose <perm = [0, 2, 1]> (x) y = MatMul(x, w)", 17),
    "no columns": ("float[3,0] x", "w = Transpose(x) y = MatMul(x, w)", 17),
    "an empty part": ("float[3,0] x, float[3,2] v", "a = Relu(x) y = Concat <axis = 1> (a, v)", 17),
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


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("LSTM", 4), ("GRU", 3)])
def test_a_recurrence_of_no_steps_ends_as_it_begins(kind: str, gates: int) -> None:
    node = f'{kind} <hidden_size = 4, direction = "bidirectional"> (x, w, r, "", "", h)'
    text = f"g (float[0,2,3] x, float[2,2,4] h) => (y, last) {{ y, last = {node} }}"
    weights = {"w": normal(2, 4 * gates, 3), "r": normal(2, 4 * gates, 4)}
    first = normal(2, 2, 4)  # ONNX Runtime's GRU ends the process for no steps
    with Session(parsed(text, **weights), shapes={"x": (0, 2, 3)}) as session:
        found = session.run({"x": normal(0, 2, 3), "h": first})
    assert found["y"].shape == (0, 2, 2, 4)
    np.testing.assert_array_equal(found["last"], first)


def test_a_dense_layer_of_no_columns_is_its_bias() -> None:
    text = "g (float[3,0] x) => (y) { y = Gemm(x, w, b) }"
    weights = {"w": np.zeros((0, 2), "float32"), "b": normal(2)}
    check_like_peer(parsed(text, **weights), x=np.zeros((3, 0), "float32"))


@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_a_file_of_them_is_read_again(suffix: str, tmp_path: Path) -> None:
    """TVM writes constants without elements and refuses to read them."""
    text = "g (float[3,4] x) => (y, z) { n = Neg (x) y, z = Split <axis = 1> (n, sizes) }"
    mod, params = relay.frontend.from_onnx(parsed(text, sizes=np.array([4, 0])))
    path = tmp_path / f"network{suffix}"
    relay.build(mod, target="llvm", params=params).export_library(path)
    results = Session(path).run({"x": normal(3, 4)})
    np.testing.assert_array_equal(results["y"], -normal(3, 4))
    assert results["z"].shape == (3, 0)
