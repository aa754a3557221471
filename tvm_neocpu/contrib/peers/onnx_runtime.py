"""ONNX Runtime's CPU provider, all its graph optimisations on."""

from __future__ import annotations

from typing import Any

import onnxruntime
from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.runner import Network, TimedRuns

VERSION = onnxruntime.__version__


class OnnxRuntimeRunner(TimedRuns):
    """One sequential session; outputs stay bound, so that a run allocates nothing for us."""

    def __init__(self, network: Network) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = network.threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(network.content, options, providers=providers)
        self._binding = self._session.io_binding()
        for name, array in network.inputs.items():
            self._binding.bind_cpu_input(name, array)
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[NDArray[Any]]:
        return list(self._binding.copy_outputs_to_cpu())
