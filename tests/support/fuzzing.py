"""What both fuzz tests share: how much is drawn, what ONNX Runtime says, and what we compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, reject, settings
from numpy.typing import NDArray

from tvm_neocpu.runtime.calls.graph_module import GraphModule

NIGHTLY = settings().max_examples >= 1000
# CI draws a few, the same each time.
FUZZ = settings(
    max_examples=settings().max_examples if NIGHTLY else 8,
    derandomize=not NIGHTLY,
    phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if NIGHTLY else [])],
    suppress_health_check=list(HealthCheck),
)


def onnx_runtimes(
    model: onnx.ModelProto, data: NDArray[np.float32], optimised: bool = True
) -> list[NDArray[Any]]:
    """What ONNX Runtime computes; networks that it refuses are left out."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
        return list(session.run(None, {"data": data}))
    except Exception:  # its errors have no other class in common
        reject()


def outputs(module: GraphModule, data: NDArray[np.float32]) -> list[NDArray[Any]]:
    module.run(data=data)
    return [module.get_output(place).numpy() for place in range(module.get_num_outputs())]
