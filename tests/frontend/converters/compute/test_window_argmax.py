"""Indices of a MaxPool where no element equals the maximum."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import node_model, ours
from onnx_text import check_like_peer, normal, parsed


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_indices_stay_inside_the_tensor(value: float) -> None:
    """MaxUnpool writes at these indices."""
    x = np.full((2, 1, 4, 4), value, "float32")
    model = node_model("MaxPool", [x], outputs=2, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    _, indices = ours(model, [x])
    assert ((indices >= 0) & (indices < x.size)).all()


@pytest.mark.parametrize("shape", [(1, 3, 7, 8), (2, 2, 5, 4, 7)])
def test_unpooling_to_the_shape_that_was_pooled(shape: tuple[int, ...]) -> None:
    """Positions of a MaxPool count in its input, though kernel and strides leave its end out."""
    two = [2] * (len(shape) - 2)
    text = f"""g (float[{",".join(map(str, shape))}] x) => (z) {{
        y, i = MaxPool <kernel_shape = {two}, strides = {two}> (x)
        s = Shape (x)
        z = MaxUnpool <kernel_shape = {two}, strides = {two}> (y, i, s)
    }}"""
    check_like_peer(parsed(text), x=normal(*shape))
