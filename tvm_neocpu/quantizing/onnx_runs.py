"""ONNX Runtime as the engine that says what a network computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx
from numpy.typing import NDArray

from tvm_neocpu.core.errors import MissingPackageError, NeoCpuError, first_line

# One run's inputs by name.
Sample = Mapping[str, NDArray[Any]]
Run = Callable[[Sample], list[NDArray[Any]]]


def runtime() -> Any:
    """The module onnxruntime. Raises MissingPackageError."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError("this needs ONNX Runtime: pip install onnxruntime") from error
    return onnxruntime


def runner(
    model: onnx.ModelProto, *, exact: bool = True, optimised: bool = True, threads: int = 0
) -> Run:
    """The model as a function from a sample to its outputs in their order.

    ``exact`` computes Q and DQ in fp32, as ONNX defines them. Otherwise ONNX Runtime takes its
    integer kernels, whose products of u8 and s8 saturate on x86 CPUs without VNNI. Without
    ``optimised`` it runs the graph as it is. ``threads``: 0 for one a core. A sample may have
    inputs that the model lost.

    Raises NeoCpuError where ONNX Runtime cannot load or run the model.
    """
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    # Between short runs its threads would wait for work at full speed.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if exact:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its exceptions have no common class
        raise NeoCpuError(f"ONNX Runtime cannot load the network: {first_line(error)}") from error
    known = {value.name for value in session.get_inputs()}

    def run(sample: Sample) -> list[NDArray[Any]]:
        try:
            return list(session.run(None, {k: v for k, v in sample.items() if k in known}))
        except Exception as error:
            text = f"ONNX Runtime cannot run the network: {first_line(error)}"
            raise NeoCpuError(text) from error

    return run
