"""Seeded data for the inputs of a model, for everything that measures or compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray


def sample_inputs(
    model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, NDArray[Any]]:
    """An array for every name of ``shapes``: normal values, or the whole numbers 0 and 1."""
    rng = np.random.default_rng(0)
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    return {name: _data(rng, types[name], shape) for name, shape in shapes.items()}


def _data(rng: np.random.Generator, element: int, shape: tuple[int, ...]) -> NDArray[Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)
