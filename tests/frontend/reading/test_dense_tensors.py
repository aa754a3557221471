"""Sparse weights and constants are what ONNX's reference evaluator takes them for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper
from onnx_text import check_like_peer, normal, parsed

from tvm_neocpu import Session
from tvm_neocpu.core.errors import ModelFileError, ShapeError

SHAPE = (3, 4)
WEIGHT = "g (float[3,4] x) => (float[3,4] y) { y = Add (x, w) }"
# A file of so many bytes keeps its large weights where they are.
LARGE = "g (float[3,4] x) => (float[3,N] y) { a = Add (x, w) y = MatMul (a, v) }"
BRANCH = """
g (float[3,4] x) => (float[3,4] y) {
    zero = Constant <value_float = 0.0> ()
    sum = ReduceSum <keepdims = 0> (x)
    some = Greater (sum, zero)
    y = If (some) <
        then_branch = t () => (r) { r = Add (x, w) },
        else_branch = e () => (s) { s = Sub (x, w) }
    >
}"""


def sparse(
    indices: ArrayLike = (1, 6, 11), name: str = "w", shape: tuple[int, ...] = SHAPE
) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([1, 2, 3], "float32"), name)
    places = numpy_helper.from_array(np.array(indices, "int64"), f"{name}_places")
    return helper.make_sparse_tensor(values, places, list(shape))


@pytest.mark.parametrize("indices", [(1, 6, 11), ((0, 1), (1, 2), (2, 3))])
@pytest.mark.parametrize("text", [WEIGHT, BRANCH])
def test_weights(text: str, indices: ArrayLike) -> None:
    model = parsed(text)
    model.graph.sparse_initializer.append(sparse(indices))
    before = model.SerializeToString()
    check_like_peer(model, x=normal(*SHAPE))
    assert model.SerializeToString() == before


def test_constants() -> None:
    model = parsed(WEIGHT)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse()))
    check_like_peer(model, x=normal(*SHAPE))


@pytest.mark.parametrize("place", ["weight", "constant"])
def test_beside_large_weights_of_a_file(place: str, tmp_path: Path) -> None:
    model = parsed(LARGE, v=normal(4, 40_000))
    if place == "weight":
        model.graph.sparse_initializer.append(sparse())
    else:
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse()))
    onnx.save(model, tmp_path / "net.onnx")
    x = normal(*SHAPE)
    weight = np.zeros(SHAPE, "float32")
    weight.reshape(-1)[[1, 6, 11]] = 1, 2, 3
    expected = (x + weight) @ normal(4, 40_000)
    with Session(tmp_path / "net.onnx") as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("indices", [(1, 6, 12), (-1, 6, 11), ((0, 1), (1, 2), (2, 4)), (1, 6)])
def test_indices_that_do_not_fit(indices: ArrayLike) -> None:
    model = parsed(WEIGHT)
    model.graph.sparse_initializer.append(sparse(indices))
    with pytest.raises(ModelFileError, match="sparse tensor 'w' has indices that do not fit"):
        Session(model)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((10**6, 10**6), "sparse tensor 'w' of the model would have more than 2"),
        ((4 * 10**4, 4 * 10**4), "6.0 GiB of weights; 2 GiB are the maximum"),
    ],
)
def test_a_few_bytes_do_not_become_gigabytes(shape: tuple[int, ...], words: str) -> None:
    model = parsed(WEIGHT)
    model.graph.sparse_initializer.append(sparse(shape=shape))
    with pytest.raises((ModelFileError, ShapeError), match=words):
        Session(model)
