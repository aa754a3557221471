"""A library whose weights are read where they lie in the file, instead of being constants of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tvm

from tvm_neocpu.codegen.bytecode.executable import (
    Constant,
    Executable,
    UnknownBytecodeError,
)
from tvm_neocpu.codegen.bytecode.lift_weights import lift_weights
from tvm_neocpu.codegen.bytecode.stored_module import executable_of, module_of
from tvm_neocpu.codegen.late_weights import LateWeight, LateWeights
from tvm_neocpu.core.machine.alignment import ALIGNMENT
from tvm_neocpu.core.network.weight_transform import Transformed, WeightTransform, content_key
from tvm_neocpu.exporting.made_ahead import made_ahead
from tvm_neocpu.runtime.files.file_tail import Tail, Weight, append_tail
from tvm_neocpu.runtime.files.module_info import ModuleInfo

# Modules of kernels: LLVM's, which write objects, and objects.
LLVM, OBJECTS = "llvm", "static_library"


@dataclass(frozen=True)
class SeparatedModule:
    """A program whose functions take the weights after their inputs, and the weights.

    ``kernels`` are LLVM's modules, whose machine code the program calls.
    """

    module: tvm.runtime.Module
    kernels: tuple[tvm.runtime.Module, ...]
    weights: tuple[Constant | LateWeight, ...]
    taken: dict[str, tuple[int, ...]]

    def whole(self) -> tvm.runtime.Module:
        """The program with its kernels, for TVM to export."""
        for kernel in self.kernels:
            self.module.import_module(kernel)
        return self.module

    def append_to(
        self,
        library: Path,
        info: ModuleInfo,
        weights_file: Path | None,
        transforms: Mapping[bytes, Transformed],
    ) -> None:
        """Write weights, description and checksums behind the linked code.

        ``weights_file`` lies beside the library under its final name; it gets the weights. Those of
        ``transforms``, by their content, are stored as they were before.
        """
        stored = [_as_stored(weight, transforms) for weight in self.weights]
        rows, end = [], 0
        for weight, transform in stored:
            rows.append(Weight(end, weight.shape, weight.dtype, transform))
            end += weight.size + -weight.size % ALIGNMENT
        name = weights_file.name if weights_file else ""
        tail = Tail(info, tuple(rows), self.taken, name)
        contents = (weight.content() for weight, _ in stored)
        made = made_ahead(contents, [weight.size for weight, _ in stored])
        with library.open("r+b") as file:
            if weights_file is None:
                append_tail(file, tail, made, None)
                return
            draft = weights_file.with_name(f".{library.name}.weights")
            try:
                with draft.open("w+b") as other:
                    append_tail(file, tail, made, other)
                draft.replace(weights_file)
            finally:
                draft.unlink(missing_ok=True)


def _as_stored(
    weight: Constant | LateWeight, transforms: Mapping[bytes, Transformed]
) -> tuple[Constant | LateWeight, WeightTransform | None]:
    """What the file has of a weight, and the transform that is left to the loader, if any."""
    if not transforms or not isinstance(weight, Constant):
        return weight, None
    found = transforms.get(content_key(weight.data))
    if found is None:
        return weight, None
    taps = np.ascontiguousarray(found.taps)
    elements = memoryview(taps.reshape(-1).view(np.uint8))
    return replace(weight, shape=taps.shape, dtype=str(taps.dtype), data=elements), found.transform


def separated(
    module: tvm.runtime.Module, late: LateWeights | None = None
) -> SeparatedModule | None:
    """``None`` where TVM's bytecode is not as it is known here: its weights stay constants.

    ``late`` has weights that the module has keys of.
    """
    try:
        executable = executable_of(module)
        found = _late_of(executable, late)
        lifted = lift_weights(executable, found)
    except UnknownBytecodeError:
        return None
    if lifted is None:
        return None
    made = module_of(lifted.executable)
    for part in module.imports:
        if part.kind != LLVM:
            made.import_module(part)
    kernels = tuple(part for part in module.imports if part.kind == LLVM)
    pairs = zip(lifted.numbers, lifted.weights, strict=True)
    weights = tuple(found.get(number, weight) for number, weight in pairs)
    return SeparatedModule(made, kernels, weights, dict(lifted.taken))


def _late_of(executable: Executable, late: LateWeights | None) -> dict[int, LateWeight]:
    """The late weights among the constants, by number."""
    if late is None:
        return {}
    constants = enumerate(executable.constants)
    found = ((n, late.of(each.data, each.dtype, each.shape)) for n, each in constants)
    return {number: weight for number, weight in found if weight is not None}
