"""Sums over few taps are written out, over many they are a loop: both in every float type."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_node import assert_same, image, node_model, ours

from tvm_neocpu.frontend.converters.compute.weighted_gather import MAX_UNROLLED_TAPS


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 2e-3), ("float32", 1e-6), ("float64", 1e-12)]
)
@pytest.mark.parametrize("length", [20, 3 * MAX_UNROLLED_TAPS])
def test_sums_over_taps(length: int, dtype: str, tolerance: float) -> None:
    x = image(2, length, 3, dtype=dtype)
    sizes = np.array([2, 4, 3])
    model = node_model("Resize", [x], [None, None, sizes], opset=19, mode="linear", antialias=1)
    assert_same(ours(model, [x]), ReferenceEvaluator(model).run(None, {"x0": x}), tolerance)
