"""Functions compiled for aarch64, called with NumPy's arrays in the emulator."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
from samples import Array, Execute, Shape, unwritten
from tvm import tirx

from emulation.externs import Runtime
from emulation.machine import Machine
from tvm_neocpu.targets import CompileTarget, parse_target

TRIPLE = "aarch64-linux-gnu"
# TVM's calling convention: type indices of an argument, codes of element types, the device.
_TENSOR, _INTEGER, _FLOAT = 7, 1, 3
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_CPU = 1
_PACKED = "__tvm_ffi_"


def arm(mcpu: str) -> CompileTarget:
    """The target of a core by LLVM's name, with one thread's share of its caches."""
    return parse_target(f"llvm -mtriple={TRIPLE} -mcpu={mcpu}")


@dataclass(frozen=True)
class ArmKernels:
    """An object file's functions in a machine of their own."""

    machine: Machine
    functions: dict[str, int]
    sizes: dict[str, int]
    assembly: str

    def __call__(self, name: str, arrays: Sequence[Array], outputs: int = 1) -> list[Array]:
        """Call by TVM's convention; the last ``outputs`` arrays are written, and returned.

        Others must not be written: their pages refuse it.
        """
        machine, first = self.machine, len(arrays) - outputs
        placed = [
            (machine.place_array(array, writeable=at >= first), array.nbytes)
            for at, array in enumerate(arrays)
        ]
        tensors = [
            _tensor(machine, array, address)
            for array, (address, _) in zip(arrays, placed, strict=True)
        ]
        arguments = b"".join(struct.pack("<iIQ", _TENSOR, 0, address) for address, _ in tensors)
        packed = machine.allocate(len(arguments)), len(arguments)
        machine.write(packed[0], arguments)
        result = machine.allocate(16), 16
        code = machine.call(self.functions[_PACKED + name], 0, packed[0], len(arrays), result[0])
        assert code & 0xFFFFFFFF == 0, f"{name} returned {code}"
        found = [
            np.frombuffer(machine.read(address, size), array.dtype).reshape(array.shape)
            for array, (address, size) in zip(arrays[first:], placed[first:], strict=True)
        ]
        for address, size in (*placed, *tensors, packed, result):
            machine.release(address, size)
        return found


def _tensor(machine: Machine, array: Array, data: int) -> tuple[int, int]:
    """A DLTensor in memory: its address and size."""
    size = 48 + 8 * max(1, array.ndim)
    address = machine.allocate(size)
    kind = struct.pack("<BBH", _CODES[array.dtype.kind], 8 * array.dtype.itemsize, 1)
    head = struct.pack("<Qiii", data, _CPU, 0, array.ndim) + kind
    shape = address + 48
    machine.write(address, head + struct.pack("<QQQ", shape, 0, 0))
    machine.write(shape, struct.pack(f"<{array.ndim}q", *array.shape))
    return address, size


def compiled(functions: tvm.IRModule | tirx.PrimFunc, target: CompileTarget) -> ArmKernels:
    """Compile for the target, and load the object file that LLVM wrote."""
    return loaded(tvm.compile(functions, target=target.target).mod)


def executing(target: CompileTarget) -> Execute:
    """What compiles a scheduled function for the target and runs it, for :func:`samples.check`."""

    def execute(func: tirx.PrimFunc, arrays: list[Array], shape: Shape, dtype: str) -> Array:
        return compiled(func, target)("main", [*arrays, unwritten(shape, dtype)])[0]

    return execute


def loaded(module: tvm.runtime.Module) -> ArmKernels:
    """Load an LLVM module's code."""
    with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
        path = Path(folder) / "kernels.o"
        module.write_to_file(str(path))
        content = path.read_bytes()
    machine = Machine(Runtime().externs())
    found = machine.load(content)
    return ArmKernels(machine, found.functions, found.sizes, module.inspect_source("asm"))
