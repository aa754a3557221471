"""The Reduce operators against ONNX Runtime, many in one model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_node import Array, Case, check_together, node_model, ours

NAMES = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
NO_AXES = np.array([], "int64")


def _values(*shape: int, dtype: str = "float32") -> Array:
    return (np.random.default_rng(5).uniform(1, 4, shape)).astype(dtype)


def _axes(*axes: int) -> Array:
    return np.array(axes, "int64")


def _case(name: str, along: Array | None, data: Array | None = None, **attributes: Any) -> Case:
    values = _values(2, 3, 4) if data is None else data
    return Case(f"Reduce{name}", [values], () if along is None else [along], attributes)


@pytest.mark.parametrize("keep", [0, 1])
def test_axes_as_an_input(keep: int) -> None:
    given = (None, _axes(1), _axes(-1, 0))
    check_together([_case(name, axes, keepdims=keep) for name in NAMES for axes in given])


def test_no_axes() -> None:
    cases = [
        _case(name, NO_AXES, -_values(2, 3), noop_with_empty_axes=1)
        for name in NAMES
        if name != "LogSum"
    ]
    none = {"keepdims": 0, "noop_with_empty_axes": 1}
    check_together([*cases, _case("Sum", None, **none), _case("Max", NO_AXES)])


def test_axes_as_an_attribute_and_every_type() -> None:
    cases = [_case(name, None, axes=[-1], keepdims=0) for name in NAMES]
    integers = [
        _case(name, None, _values(2, 3, dtype=dtype), axes=[1])
        for name in ("L1", "L2", "LogSum", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
        for dtype in ("int32", "int64")
        # ONNX Runtime has no such kernel.
        if (name, dtype) not in {("L1", "int64"), ("L2", "int64"), ("LogSum", "int64")}
        and (name, dtype) not in {("Mean", "int64"), ("SumSquare", "int64")}
    ]
    check_together([*cases, *integers], opset=11)


def test_infinities_and_booleans() -> None:
    infinite = np.array([[np.inf, 1], [-np.inf, -np.inf], [-np.inf, 1], [900, 901]], "float32")
    check_together([_case("LogSumExp", _axes(1), infinite)])
    flags = np.array([[True, False], [True, True]])
    check_together([_case(name, _axes(1), flags) for name in ("Max", "Min")], opset=20)


def test_a_mean_of_negative_integers_is_truncated() -> None:
    data = np.array([[-3, -4], [3, 4]], "int32")
    (found,) = ours(node_model("ReduceMean", [data], opset=11, axes=[1], keepdims=0), [data])
    assert found.tolist() == [-3, 3]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_extremes_of_infinities_alone(dtype: str) -> None:
    low = np.full((2, 3, 40), -np.inf, dtype)
    along = (None, _axes(1), _axes(2), _axes(0, 2))
    cases = [
        _case(name, axes, data, keepdims=keep)
        for name, data in (("Max", low), ("Min", -low))
        for axes in along
        for keep in (0, 1)
    ]
    check_together(cases)


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_the_mean_of_large_integers(dtype: str) -> None:
    """Their sum does not fit into their type."""
    largest = np.iinfo(dtype).max
    data = np.array([[largest, largest - 4]], dtype)
    (found,) = ours(node_model("ReduceMean", [data], opset=11, axes=[1], keepdims=0), [data])
    np.testing.assert_array_equal(found, [largest - 2])
