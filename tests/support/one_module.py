"""Many small computations as one module: compiled once, each with an input of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.targets import CompileTarget

Build = Callable[[relax.Expr], relax.Expr]
# (shape of the input, its type, what is computed of it)
Case = tuple[tuple[int, ...], str, Build]


def fused_module(cases: Sequence[Case], cores: int = 1) -> tvm.IRModule:
    """Legalised and fused for so many cores, not scheduled."""
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{at}", relax.TensorType(shape, dtype))
        for at, (shape, dtype, _) in enumerate(cases)
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            results = [
                builder.emit(build(x)) for x, (_, _, build) in zip(inputs, cases, strict=True)
            ]
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    return FuseFunctions(cores)(builder.get())


def run(mod: tvm.IRModule, target: tvm.target.Target, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Every case's result."""
    machine = relax.VirtualMachine(tvm.compile(mod, target), tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(array) for array in inputs))
    return [part.numpy() for part in found]


def scheduled_results(
    cases: Sequence[Case], inputs: list[np.ndarray], target: CompileTarget
) -> list[np.ndarray]:
    """What the cases compute once they are scheduled."""
    fused = fused_module(cases, target.cpu.cores)
    return run(ScheduleFunctions(target.cpu)(fused), target.target, inputs)


def script_of(case: Case, cpu) -> str:
    """One case, scheduled."""
    return ScheduleFunctions(cpu)(fused_module([case])).script()
