"""An executable of TVM as data, and data as an executable."""

from __future__ import annotations

import tempfile
from pathlib import Path

import tvm

from tvm_neocpu.codegen.bytecode.executable import Executable, read_executable, write_executable
from tvm_neocpu.runtime.process.quiet import silent_stderr

_LOAD = "ffi.Module.load_from_bytes.relax.VMExecutable"


def executable_of(module: tvm.runtime.Module) -> Executable:
    """What TVM stores of a ``relax.VMExecutable``. Raises UnknownBytecodeError."""
    with tempfile.NamedTemporaryFile(prefix="neocpu-") as file:
        with silent_stderr():
            module.write_to_file(file.name, "")
        return read_executable(memoryview(Path(file.name).read_bytes()))


def module_of(executable: Executable) -> tvm.runtime.Module:
    """The ``relax.VMExecutable``; it imports nothing."""
    with silent_stderr():
        return tvm.get_global_func(_LOAD)(write_executable(executable))
