"""A library whose weights are read where they lie in the file, instead of being constants of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm

from tvm_neocpu.core.arena import ALIGNMENT
from tvm_neocpu.core.weight_transform import Transformed, content_key
from tvm_neocpu.exporting.bytecode.executable import (
    Constant,
    UnknownBytecodeError,
    read_executable,
    write_executable,
)
from tvm_neocpu.exporting.bytecode.lift_weights import lift_weights
from tvm_neocpu.runtime.file_tail import Tail, Weight, append_tail
from tvm_neocpu.runtime.module_info import ModuleInfo
from tvm_neocpu.runtime.quiet import silent_stderr

# Modules of kernels: LLVM's, which write objects, and objects.
LLVM, OBJECTS = "llvm", "static_library"
_LOAD = "ffi.Module.load_from_bytes.relax.VMExecutable"


@dataclass(frozen=True)
class SeparatedModule:
    """A program whose functions take the weights after their inputs, and the weights.

    ``kernels`` are LLVM's modules, whose machine code the program calls.
    """

    module: tvm.runtime.Module
    kernels: tuple[tvm.runtime.Module, ...]
    weights: tuple[Constant, ...]
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
        rows, content, end = [], [], 0
        for weight in self.weights:
            row, data = _stored(weight, end, transforms)
            rows.append(row)
            content.append(data)
            end += len(data) + -len(data) % ALIGNMENT
        name = weights_file.name if weights_file else ""
        tail = Tail(info, tuple(rows), self.taken, name)
        with library.open("r+b") as file:
            if weights_file is None:
                append_tail(file, tail, content, None)
                return
            draft = weights_file.with_name(f".{library.name}.weights")
            try:
                with draft.open("w+b") as other:
                    append_tail(file, tail, content, other)
                draft.replace(weights_file)
            finally:
                draft.unlink(missing_ok=True)


def _stored(
    weight: Constant, offset: int, transforms: Mapping[bytes, Transformed]
) -> tuple[Weight, memoryview]:
    found = transforms.get(content_key(weight.data)) if transforms else None
    if found is None:
        return Weight(offset, weight.shape, weight.dtype), weight.data
    taps = np.ascontiguousarray(found.taps)
    row = Weight(offset, taps.shape, str(taps.dtype), found.transform)
    return row, memoryview(taps.reshape(-1).view(np.uint8))


def separated(module: tvm.runtime.Module) -> SeparatedModule | None:
    """``None`` where TVM's bytecode is not as it is known here: its weights stay constants."""
    with tempfile.NamedTemporaryFile(prefix="neocpu-") as file:
        with silent_stderr():
            module.write_to_file(file.name, "")
        text = Path(file.name).read_bytes()
    try:
        lifted = lift_weights(read_executable(memoryview(text)))
    except UnknownBytecodeError:
        return None
    if lifted is None:
        return None
    with silent_stderr():
        made = tvm.get_global_func(_LOAD)(write_executable(lifted.executable))
    for part in module.imports:
        if part.kind != LLVM:
            made.import_module(part)
    kernels = tuple(part for part in module.imports if part.kind == LLVM)
    return SeparatedModule(made, kernels, lifted.weights, dict(lifted.taken))
