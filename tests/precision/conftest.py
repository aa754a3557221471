"""A small network, and samples."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from block_network import block_network

Samples = list[dict[str, np.ndarray]]


@pytest.fixture(scope="session")
def network() -> onnx.ModelProto:
    return block_network()


@pytest.fixture(scope="session")
def samples() -> Samples:
    rng = np.random.default_rng(7)
    return [{"data": rng.standard_normal((1, 8, 12, 12), dtype="float32")} for _ in range(12)]
