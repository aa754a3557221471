"""ONNX Runtime's CPU provider, all its graph optimisations on."""

from __future__ import annotations

from typing import Any

import onnxruntime
from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.runner import Network, TimedRuns

VERSION = onnxruntime.__version__


def session_of(
    network: Network, threads: int | None = None, **settings: Any
) -> onnxruntime.InferenceSession:
    """One sequential session, on the network's threads unless others are given.

    ``settings`` are further fields of its options.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or network.threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    for name, value in settings.items():
        setattr(options, name, value)
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(network.content, options, providers=providers)


class OnnxRuntimeRunner(TimedRuns):
    """Outputs stay bound, so that a run allocates nothing for us."""

    def __init__(self, network: Network) -> None:
        self._session = session_of(network)
        self._binding = self._session.io_binding()
        for name, array in network.inputs.items():
            self._binding.bind_cpu_input(name, array)
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[NDArray[Any]]:
        return list(self._binding.copy_outputs_to_cpu())
