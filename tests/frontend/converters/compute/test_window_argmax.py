"""Indices of a MaxPool where no element equals the maximum."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import node_model, ours


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_indices_stay_inside_the_tensor(value: float) -> None:
    """MaxUnpool writes at these indices."""
    x = np.full((2, 1, 4, 4), value, "float32")
    model = node_model("MaxPool", [x], outputs=2, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    _, indices = ours(model, [x])
    assert ((indices >= 0) & (indices < x.size)).all()
