"""Scatter, ScatterElements and ScatterND against ONNX Runtime, all cases in one model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_node import (
    Array,
    Case,
    assert_same,
    check_together,
    node_model,
    onnx_runtime,
    ours,
)

REDUCTIONS = ("none", "add", "mul", "max", "min")


def _values(*shape: int, dtype: str = "float32") -> Array:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 3).astype(dtype)


def _ints(values: list[int], *shape: int) -> Array:
    return np.array(values, "int64").reshape(shape)


def _cases(reduction: str) -> list[Case]:
    # Without a reduction, the order of updates to one element is open.
    elements = _ints([1, 0, -1, 2, 0, 1], 2, 3)
    places = _ints([1, 0, -1, 2, 0, 1], 3, 2)
    rows = _ints([0, -1], 2, 1)
    if reduction != "none":
        elements, places = _ints([1, 1, -1, 2, 0, 0], 2, 3), _ints([1, 1, -1, 2, 1, 1], 3, 2)
        rows = _ints([1, 1], 2, 1)
    named = {"reduction": reduction}
    return [
        case
        for dtype in ("float32", "int64")
        for case in (
            Case(
                "ScatterElements",
                [_values(3, 4, dtype=dtype), elements, _values(2, 3, dtype=dtype)],
                attributes={"axis": -1, **named},
            ),
            Case(
                "ScatterND",
                [_values(3, 4, dtype=dtype), places, _values(3, dtype=dtype)],
                attributes=named,
            ),
            Case(
                "ScatterND",
                [_values(3, 4, dtype=dtype), rows, _values(2, 4, dtype=dtype)],
                attributes=named,
            ),
        )
    ]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_reduction_as_onnx_runtime_has_it(reduction: str) -> None:
    check_together(_cases(reduction))


def test_booleans_constant_indices_and_the_first_axis() -> None:
    data = _values(3, 4) > 0
    check_together(
        [
            Case("ScatterND", [data, _ints([1, -1], 2, 1), ~data[:2]]),
            Case("ScatterElements", [data, _ints([1, 0], 2, 1), data[1:, :1]]),
            Case("ScatterND", [_values(3, 4)], [_ints([2, 0], 2, 1), _values(2, 4)]),
            Case("ScatterND", [_values(2, 3, 4), _ints([1, 0, 0, 2], 2, 2), _values(2, 4)]),
        ],
        opset=13,
    )
    check_together(
        [Case("Scatter", [_values(3, 4), _ints([2, 0, 1, 1, 2, 0], 2, 3), _values(2, 3)])], opset=9
    )


def test_no_indices_change_nothing() -> None:
    data = _values(3, 4)
    check_together(
        [
            Case("ScatterElements", [data], [_ints([], *shape), _values(*shape)], {"axis": axis})
            for shape in ((0, 4), (3, 0), (0, 0))
            for axis in (0, 1)
        ]
        + [Case("ScatterND", [data], [_ints([], 0, 1), _values(0, 4)])]
    )


def test_an_index_outside_writes_nothing() -> None:
    data = _values(3, 4)
    inputs = [data, _ints([3, -4, 1], 3, 1), _values(3, 4)]
    (found,) = ours(node_model("ScatterND", inputs), inputs)
    expected = data.copy()
    expected[1] = inputs[2][2]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("column", "scatter"),
    [("Identity(places)", "ScatterElements<axis = 0>"), ("Unsqueeze(places, one)", "ScatterND")],
)
def test_indices_whose_number_only_a_run_knows(column: str, scatter: str) -> None:
    """The extent is none of the result's: the loop takes it from the indices."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[12] x, bool[12] mask) => (float[12] y) {{
        zero = Constant<value = int64[1] {{0}}>()
        one = Constant<value = int64[1] {{1}}>()
        chosen = NonZero(mask)
        places = Squeeze(chosen, zero)
        picked = Gather<axis = 0>(x, places)
        twice = Add(picked, picked)
        column = {column}
        y = {scatter}(x, column, twice)
    }}"""
    model = onnx.parser.parse_model(text)
    data, mask = np.arange(12, dtype="float32"), np.arange(12) % 3 > 0
    for chosen in (mask, np.zeros(12, bool)):
        assert_same(ours(model, [data, chosen]), onnx_runtime(model, [data, chosen]))
