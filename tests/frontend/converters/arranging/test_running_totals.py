"""Running sums along any axis are ONNX Runtime's, and rows of vectors where elements lie apart."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_text import check_like_peer, ours

from tvm_neocpu import Session, relay

SHAPES = [(2, 5, 9), (3, 7, 4, 6), (1, 1, 8), (5, 2100), (4, 3)]


def totals(
    operator: str, shape: tuple[int | str, ...], axis: int, exclusive: int, reverse: int, dtype: str
) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "totals",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info("y", element, shape)],
        [onnx.numpy_helper.from_array(np.array(axis), "axis")],
    )
    opset = 26 if operator == "CumProd" else 17
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) * 3).astype(dtype)


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums(shape: tuple[int, ...], exclusive: int, reverse: int) -> None:
    for axis in range(-1, len(shape)):
        for dtype in ("float32", "int64"):
            model = totals("CumSum", shape, axis, exclusive, reverse, dtype)
            check_like_peer(model, x=numbers(shape, dtype))


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_products(exclusive: int, reverse: int) -> None:
    for axis in range(3):
        model = totals("CumProd", (2, 5, 9), axis, exclusive, reverse, "float32")
        x = numbers((2, 5, 9), "float32")
        (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
        (found,) = ours(model, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("axis", "by_rows"), [(1, True), (2, False)])
def test_rows_are_walked_where_elements_lie_apart(axis: int, by_rows: bool) -> None:
    mod, _ = relay.frontend.from_onnx(totals("CumSum", (2, 5, 9), axis, 0, 0, "float32"))
    assert ("in range(T.int64(9))" in mod.script()) == by_rows


def test_of_an_open_batch() -> None:
    with Session(totals("CumSum", ("N", 6, 9), 1, 0, 0, "float32")) as session:
        for batch in (1, 2, 5):
            x = numbers((batch, 6, 9), "float32")
            np.testing.assert_allclose(session.run({"x": x})["y"], x.cumsum(1), rtol=1e-5)
