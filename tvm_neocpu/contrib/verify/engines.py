"""The two engines that `verify` compares: a session of ours, and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from numpy.typing import NDArray

from tvm_neocpu import relay
from tvm_neocpu.contrib.verify.compare_outputs import Arrays
from tvm_neocpu.core.errors import MissingPackageError, NeoCpuError, first_line
from tvm_neocpu.runtime.session import CompiledSession


def run_ours(model: onnx.ModelProto, inputs: Arrays, target: str) -> Sequence[NDArray[Any]]:
    """The model compiled for ``target`` and run; inputs that it lost are left out."""
    shapes = {name: array.shape for name, array in inputs.items()}
    mod, params = relay.frontend.from_onnx(model, shapes)
    library = relay.build(mod, target=target, params=params, fallback="ignore", cache=False)
    with CompiledSession(library) as session:
        return list(session.run({name: inputs[name] for name in library.input_names}).values())


def run_reference(model: onnx.ModelProto, inputs: Arrays) -> Sequence[NDArray[Any]]:
    """ONNX Runtime's answer without its optimisations. Raises NeoCpuError where it has none."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError("verify needs ONNX Runtime: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        known = {value.name for value in session.get_inputs()}
        return list(session.run(None, {n: a for n, a in inputs.items() if n in known}))
    except Exception as error:  # its exceptions have no common class
        raise NeoCpuError(f"ONNX Runtime cannot run the network: {first_line(error)}") from error
