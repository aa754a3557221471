"""Sinh, Cosh, Atanh and functions of float16 against ONNX Runtime, special values included."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import Case, check_together, node_model, ours

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -2.5, 1e-40, 88.5, -89, 200]


def test_special_values_and_both_ranges() -> None:
    wide = np.concatenate([np.linspace(-4, 4, 41), SPECIAL])
    narrow = np.concatenate([np.linspace(-0.99, 0.99, 41), [1, -1, np.nan, 2]])
    ranges = (("Sinh", wide), ("Cosh", wide), ("Atanh", narrow))
    check_together([Case(op_type, [values.astype("float32")]) for op_type, values in ranges])


@pytest.mark.parametrize("op_type", ["Sinh", "Atanh"])
def test_small_arguments_keep_their_digits(op_type: str) -> None:
    x = np.linspace(-1e-3, 1e-3, 21).astype("float32")
    (found,) = ours(node_model(op_type, [x]), [x])
    function = {"Sinh": np.sinh, "Atanh": np.arctanh}[op_type]
    np.testing.assert_allclose(found, function(x.astype("float64")), rtol=1e-6)


def test_half_precision() -> None:
    x = np.linspace(0.1, 0.9, 21).astype("float16")
    functions = {
        "Acos": np.arccos,
        "Asin": np.arcsin,
        "Asinh": np.arcsinh,
        "Atan": np.arctan,
        "Cosh": np.cosh,
        "Tan": np.tan,
    }
    for op_type, function in functions.items():
        (found,) = ours(node_model(op_type, [x], opset=22), [x])
        assert found.dtype == "float16"
        np.testing.assert_allclose(found, function(x.astype("float32")), rtol=2e-3)
