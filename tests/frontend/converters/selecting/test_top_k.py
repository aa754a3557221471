"""TopK, ArgMax, ArgMin and Hardmax against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_node import Array, Case, check_together, node_model, onnx_runtime, ours
from tvm import relax

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError


def _values(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(4).integers(0, 40, shape).astype(dtype)


def _k(value: int) -> Array:
    return np.array([value], "int64")


def _case(data: Array, k: int, **attributes: Any) -> Case:
    return Case("TopK", [data], [_k(k)], attributes, 2)


@pytest.mark.parametrize("largest", [0, 1])
def test_axes_types_and_lengths(largest: int) -> None:
    types = ("float64", "int32", "int64", "uint8")
    check_together(
        [
            *(_case(_values(5, 6), 3, axis=axis, largest=largest) for axis in (0, 1, -1)),
            *(_case(_values(5, 6, dtype=dtype), 4, largest=largest) for dtype in types),
            _case(_values(2, 3, 5, 6), 2, axis=1, largest=largest),
            _case(_values(5, 6), 0, largest=largest),
            Case("TopK", [_values(5, 6), _k(3)], (), {"largest": largest}, 2),
        ],
        opset=11,
    )


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_integers(dtype: str) -> None:
    """ONNX Runtime has no such kernel."""
    top = np.iinfo(dtype).max
    data = np.array([5, top, 0, top // 2 + 1, 7], dtype)
    model = node_model("TopK", [data], [_k(3)], opset=11, outputs=2)
    values, places = ours(model, [data])
    assert values.tolist() == [top, top // 2 + 1, 7] and values.dtype == dtype
    assert places.tolist() == [1, 3, 4]


def _extremes() -> Array:
    """Rows of equal elements, zeros of both signs, infinities and denormals."""
    rows = np.random.default_rng(3).choice(
        np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 2.5, -2.5], "float32"), (6, 40)
    )
    rows[0] = 7.0
    return rows


@pytest.mark.parametrize("largest", [0, 1])
def test_long_rows_and_any_count(largest: int) -> None:
    """Rows that ascend, descend and repeat; every heap from one element to the whole row."""
    line = np.arange(200, dtype="float32")
    rows = np.stack([line, line[::-1], line % 7, -line, np.zeros(200, "float32")])
    check_together(
        [
            *(_case(rows, k, largest=largest) for k in (1, 2, 64, 200)),
            *(_case(_extremes(), k, largest=largest) for k in (1, 39)),
            *(_case(_values(70, 3, 60), k, axis=1, largest=largest) for k in (1, 3)),
            _case(_values(64, 300) - 20, 9, largest=largest),
            *(_case(_values(3, 50, dtype=t) - 20, 7, largest=largest) for t in ("int8", "int32")),
        ],
        opset=11,
    )


@pytest.mark.parametrize("largest", [0, 1])
def test_many_of_a_row(largest: int) -> None:
    """Found by the order of the last one: all counts of runs, equal elements at the end, axes."""
    rows = np.random.default_rng(5).normal(size=(2, 600)).astype("float32")
    check_together(
        [
            *(_case(rows, k, largest=largest) for k in (31, 33, 257, 599, 600)),
            *(_case(_values(3, 200), k, largest=largest) for k in (50, 97)),
            _case(_values(90, 3, 20), 40, axis=0, largest=largest),
            *(_case(_values(3, 90, dtype=t) - 20, 70, largest=largest) for t in ("int8", "int32")),
            _case(np.full((2, 100), 2**31 - 1, "int32"), 60, largest=largest),
            _case(np.full((2, 100), -(2**31), "int32"), 60, largest=largest),
        ],
        opset=11,
    )


def test_the_older_opsets() -> None:
    check_together([Case("TopK", [_values(5, 6)], (), {"k": 3, "axis": 0}, 2)], opset=1)
    check_together([Case("TopK", [_values(5, 6)], [_k(3)], {}, 2)], opset=10)


def test_unsorted_results_are_sorted_all_the_same() -> None:
    data = _values(1, 8)
    model = node_model("TopK", [data], [_k(3)], opset=11, outputs=2, sorted=0)
    assert relay.frontend.from_onnx(model)


def test_a_k_beyond_the_axis_is_refused() -> None:
    model = node_model("TopK", [_values(2, 3)], [_k(4)], opset=11, outputs=2)
    with pytest.raises(UnsupportedOperatorError, match="k is 4, axis 1 has 3 elements"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_the_place_of_an_extremum(op_type: str) -> None:
    infinite = np.array([[-np.inf] * 3, [np.inf] * 3], "float32")
    widest = np.array([[-(2**31)] * 2, [2**31 - 1] * 2], "int32")
    ties = np.array([[1, 2, 2, 1], [0, 0, 3, 3]], "float32")
    check_together(
        [
            Case(op_type, [data], (), {"axis": axis, "select_last_index": last, "keepdims": last})
            for data in (infinite, widest, ties)
            for axis in (0, -1)
            for last in (0, 1)
        ]
    )


@pytest.mark.parametrize("last", [0, 1])
def test_places_in_vectors_and_in_long_rows(last: int) -> None:
    """Classes of an image are compared in vectors of pixels, also where they lie side by side (in
    one piece of 1024 pixels, in two); long rows are read twice.
    """
    rng = np.random.default_rng(7)
    shapes = [((1, 19, 8, 16), 1), ((2, 5, 3, 7), 1), ((2, 3, 70), -1), ((3, 64), 1), ((40,), 0)]
    shapes += [((1, 33, 37, 5), -1), ((1, 7, 3), 2), ((1, 63), 1), ((1, 4, 1), -1)]
    check_together(
        [
            Case(
                kind,
                [rng.integers(-9, 9, shape).astype(dtype)],
                (),
                {"axis": axis, "select_last_index": last, "keepdims": last},
            )
            for kind in ("ArgMax", "ArgMin")
            for shape, axis in shapes
            for dtype in ("float32", "int32")
        ]
    )


@pytest.mark.parametrize("largest", [0, 1])
def test_nan_is_above_all_as_numpy_sorts_it(largest: int) -> None:
    """Wherever it stands; what ONNX Runtime gives depends on where it stands."""
    nan = np.nan
    rows = [[nan, 1, 3, 2, 5], [1, 3, nan, 2, 5], [1, 3, 2, 5, -nan], [nan, 2, nan, 1, nan]]
    data = np.array(rows, "float32")
    data = np.concatenate([data, np.arange(60, dtype="float32") + np.zeros((4, 1), "f4")], axis=1)
    for k in (2, 4, 60, 65):
        model = node_model("TopK", [data], [_k(k)], opset=11, outputs=2, largest=largest)
        values, places = ours(model, [data])
        order = np.argsort(data, axis=1, kind="stable")
        if largest:
            # Of equal elements the first one comes first here too.
            order = 64 - np.argsort(data[:, ::-1], axis=1, kind="stable")[:, ::-1]
        np.testing.assert_array_equal(places, order[:, :k])
        np.testing.assert_array_equal(values, np.take_along_axis(data, order[:, :k], 1))


@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax_is_one_at_the_first_largest(opset: int) -> None:
    ties = np.array([[3, 1, 3], [-np.inf, -np.inf, 1], [-np.inf] * 3], "float32")
    check_together(
        [Case("Hardmax", [ties], (), {"axis": axis}) for axis in (0, 1)]
        + [Case("Hardmax", [_values(2, 3, 4)], (), {"axis": axis}) for axis in (0, 1, 2, -1)]
        + [Case("Hardmax", [_values(2, 3)])],
        opset=opset,
    )


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 3, 2, 1), (0, 1, 3, 2)])
@pytest.mark.parametrize("shape", [(1, 5, 7, 9), (2, 5, 7, 9)])
def test_places_of_classes_behind_a_transpose(
    order: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    """Exports of TensorFlow turn a map to NHWC before they look for the largest class."""
    data = np.random.default_rng(3).integers(-9, 9, shape).astype("float32")
    active = helper.make_node("Relu", ["x"], ["r"])
    turned = helper.make_node("Transpose", ["r"], ["t"], perm=order)
    places = helper.make_node("ArgMax", ["t"], ["y"], axis=3, keepdims=0)
    graph = helper.make_graph(
        [active, turned, places],
        "classes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    mod, _ = relay.frontend.from_onnx(model)
    turns = "permute_dims" in relax.transform.DeadCodeElimination()(mod).script()
    assert turns == (order == (0, 3, 2, 1))  # the other axes change places
    np.testing.assert_array_equal(ours(model, [data])[0], onnx_runtime(model, [data])[0])
