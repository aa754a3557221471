"""OpenVINO's CPU plug-in.

Its own default precision on a CPU with bfloat16 is bfloat16; for comparison it is held to float32,
unless the comparison is in bf16.
"""

from __future__ import annotations

from typing import Any

import openvino
from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.runner import Network, TimedRuns
from tvm_neocpu.core.accuracy.precision import BF16, FP32

# Our precision -> its hint.
HINTS = {FP32: "f32", BF16: "bf16"}
VERSION = openvino.__version__.split("-")[0]


def compiled_for_latency(network: Network, **options: Any) -> openvino.CompiledModel:
    """The network in its precision and one stream, with OpenVINO's ``options`` beside."""
    return compiled(network, "LATENCY", NUM_STREAMS=1, **options)


def compiled(network: Network, hint: str, **options: Any) -> openvino.CompiledModel:
    """The network in its precision for a performance ``hint``, with OpenVINO's ``options``."""
    core = openvino.Core()
    model = core.read_model(network.content)
    model.reshape({name: list(shape) for name, shape in network.shapes.items()})
    config = {
        "INFERENCE_NUM_THREADS": network.threads,
        "PERFORMANCE_HINT": hint,
        "INFERENCE_PRECISION_HINT": HINTS[network.precision],
        **options,
    }
    return core.compile_model(model, "CPU", config)


class OpenVinoRunner(TimedRuns):
    """One inference request in one stream."""

    def __init__(self, network: Network) -> None:
        self._request = compiled_for_latency(network).create_infer_request()
        self._inputs = network.inputs  # OpenVINO reads this memory and does not keep it alive
        for name, array in self._inputs.items():
            self._request.set_tensor(name, openvino.Tensor(array, shared_memory=True))

    def run(self) -> None:
        self._request.infer()

    def outputs(self) -> list[NDArray[Any]]:
        return [tensor.data.copy() for tensor in self._request.output_tensors]
