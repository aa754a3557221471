"""Files whose nodes are in no order run, as in ONNX Runtime; circles are refused."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from onnx_text import check_like_peer, normal, parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend.reading.onnx_model import load_model
from tvm_neocpu.frontend.reading.sorted_nodes import in_order, sort_nodes

BODY = """
g (float[2,3] x) => (y) {
    a = Relu (x)
    b = Neg (a)
    largest = ReduceMax <keepdims = 0> (b)
    zero = Constant <value_float = 0.0> ()
    any = Greater (largest, zero)
    c = If (any) <
        then_branch = t () => (r) { r = Add (a, b) },
        else_branch = e () => (s) { s = Mul (b, b) }
    >
    y = Add (c, a)
}
"""


def shuffled(seed: int) -> onnx.ModelProto:
    model = parsed(BODY)
    nodes = list(model.graph.node)
    random.Random(seed).shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


@pytest.mark.parametrize("seed", range(3))
def test_nodes_in_no_order(seed: int, tmp_path: Path) -> None:
    """A branch reads what only it needs; a file is sorted as it is read, a given model stays."""
    model = shuffled(seed)
    given = model.SerializeToString()
    check_like_peer(model, x=normal(2, 3))
    assert model.SerializeToString() == given
    onnx.save(model, tmp_path / "model.onnx")
    loaded = load_model(tmp_path / "model.onnx")
    assert loaded.graph.node == in_order(model).graph.node != model.graph.node


def test_sorted_nodes_stay() -> None:
    model = in_order(shuffled(0))
    assert in_order(model) is model
    before = model.SerializeToString()
    sort_nodes(model)
    assert model.SerializeToString() == before


def test_circles_are_refused() -> None:
    model = parsed("g (float[2] x) => (y) { a = Add (x, b) b = Neg (a) y = Neg (b) }")
    with pytest.raises(ModelFileError, match="form a circle"):
        relay.frontend.from_onnx(model)
