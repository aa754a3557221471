"""A whole network whose kernels run in the emulator; TVM's virtual machine calls them from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import tvm
from samples import Array
from tvm import relax

from emulation.kernels import ArmKernels, loaded
from tvm_neocpu.codegen.kernels import compile_kernels
from tvm_neocpu.codegen.network import lowered_of, program_of
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import lower
from tvm_neocpu.targets import CompileTarget, parse_target


def run_network(
    model: onnx.ModelProto, inputs: Mapping[str, Array], target: CompileTarget
) -> list[Array]:
    """All outputs of a network as ``relay.build`` compiles it for the target.

    The machine code is LLVM's for the target; only the virtual machine's program runs here.
    """
    mod, _ = from_onnx(model, {name: value.shape for name, value in inputs.items()})
    scheduled = lower(mod, target.cpu, fallback="ignore")
    program = program_of(lowered_of(scheduled, target.target))
    for names, module in compile_kernels(program.kernels, target.target).items():
        kernels = loaded(module)
        for name in names:
            tvm.register_global_func(name, _called(kernels, name), override=True)
    executable = program.linked((), parse_target().target)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(array) for array in inputs.values()))
    found = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [part.numpy() for part in found]


def _called(kernels: ArmKernels, name: str) -> Callable[..., None]:
    def kernel(*tensors: tvm.runtime.Tensor) -> None:
        """What the emulated code changed is changed here: outputs, and workspace."""
        views = [np.from_dlpack(tensor) for tensor in tensors]
        after = kernels(name, views, outputs=len(views))
        for tensor, view, new in zip(tensors, views, after, strict=True):
            if view.tobytes() != new.tobytes():
                tensor.copyfrom(new)

    return kernel
