"""The two engines that `verify` compares: a session of ours, and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from numpy.typing import NDArray

from tvm_neocpu import relay
from tvm_neocpu.contrib.verify.compare_outputs import Arrays
from tvm_neocpu.quantizing.onnx_runs import runner
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
    return runner(model, optimised=False)(inputs)
