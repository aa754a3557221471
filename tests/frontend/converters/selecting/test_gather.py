"""Gather: every axis and sign of index as ONNX Runtime has it; no index reads foreign memory."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import Case, check_together, node_model, ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

DATA = np.arange(2 * 3 * 5, dtype="float32").reshape(2, 3, 5)
INDICES = {
    "scalar": np.array(1),
    "scalar from the end": np.array(-1),
    "row": np.array([2, 0, -3], "int32"),
    "table": np.array([[0, -1], [1, 1]]),
    "none": np.zeros((0,), "int64"),
}


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_known_and_computed_indices(axis: int) -> None:
    fits = [index for index in INDICES.values() if np.all(np.abs(index) < DATA.shape[axis])]
    check_together(
        [Case("Gather", [DATA], [index], {"axis": axis}) for index in fits]
        + [Case("Gather", [DATA, index], attributes={"axis": axis}) for index in fits if index.size]
        + [Case("Gather", [DATA.astype("int64"), fits[0]], attributes={"axis": axis})]
    )


def test_gather_nd_of_opset_11_has_no_batch() -> None:
    """torchvision's SSD."""
    places = np.array([[0, 2], [1, 0]])
    check_together([Case("GatherND", [DATA, places])], opset=11)


@pytest.mark.parametrize("index", [3, -4])
def test_a_known_index_outside_is_refused(index: int) -> None:
    model = node_model("Gather", [DATA], [np.array([0, index])], axis=1)
    with pytest.raises(UnsupportedOperatorError, match=f"index {index} is outside an axis of 3"):
        relay.frontend.from_onnx(model)


def test_a_computed_index_outside_takes_the_nearest_element() -> None:
    index = np.array([-100, -4, 3, 2**40])
    (found,) = ours(node_model("Gather", [DATA, index], axis=1), [DATA, index])
    np.testing.assert_array_equal(found, DATA[:, [0, 0, 2, 2]])


def test_elements_and_rows() -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(-3, 3, (2, 4, 5))
    rows = rng.integers(-2, 2, (3, 4, 2))
    batches = rng.integers(-3, 3, (2, 4, 1))
    check_together(
        [
            Case("GatherElements", [DATA], [places], {"axis": 1}),
            Case("GatherElements", [DATA, places], attributes={"axis": -2}),
            Case("GatherElements", [DATA, places.astype("int32")], attributes={"axis": 1}),
            Case("GatherND", [DATA], [rows]),
            Case("GatherND", [DATA, rows]),
            Case("GatherND", [DATA, batches], attributes={"batch_dims": 1}),
        ]
    )


def test_computed_elements_and_rows_outside_take_the_nearest() -> None:
    places = np.full((2, 1, 5), 99)
    (found,) = ours(node_model("GatherElements", [DATA, places], axis=1), [DATA, places])
    np.testing.assert_array_equal(found, DATA[:, 2:])
    rows = np.array([[-9, 2], [1, 77]])
    (found,) = ours(node_model("GatherND", [DATA, rows]), [DATA, rows])
    np.testing.assert_array_equal(found, DATA[[0, 1], [2, 2]])


@pytest.mark.parametrize(
    ("op_type", "axes"), [("GatherElements", "an axis of 2"), ("GatherND", r"axes of \[2, 3\]")]
)
def test_known_elements_and_rows_outside_are_refused(op_type: str, axes: str) -> None:
    index = np.array([[[0, 9]]])
    with pytest.raises(UnsupportedOperatorError, match=f"index 9 is outside {axes}"):
        relay.frontend.from_onnx(node_model(op_type, [DATA], [index]))
