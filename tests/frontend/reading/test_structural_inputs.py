"""Inputs that decide shapes are found, and no others."""

from __future__ import annotations

import pytest
from onnx_text import parsed

from tvm_neocpu.frontend.reading.structural_inputs import structural_inputs

GRAPHS = {
    "a shape": ("float[4] x, int64[2] s", "y = Reshape(x, s)", {"s"}),
    "through arithmetic": (
        "float[4] x, int64[1] a, int64[1] b",
        "c = Concat<axis = 0>(a, b) d = Neg(c) y = Reshape(x, d)",
        {"a", "b"},
    ),
    "a shape is not a value": ("float[4] x, float[2,2] z", "s = Shape(z) y = Reshape(x, s)", set()),
    "what picks by values is none": (
        "float[4] x, float[4] z",
        "i = NonZero(z) y = Reshape(x, i)",
        set(),
    ),
    "a weight is no input": ("float[4] x", "s = Constant<value_ints=[4]>() y = Tile(x, s)", set()),
    "data": ("float[4] x, float[4] z", "y = Add(x, z)", set()),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_found(name: str) -> None:
    inputs, body, expected = GRAPHS[name]
    model = parsed(f"g ({inputs}) => (float[] y) {{ {body} }}")
    assert structural_inputs(model.graph) == expected
