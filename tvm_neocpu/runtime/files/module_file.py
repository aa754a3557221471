"""Reading compiled modules; `exporting/write_module.py` writes them.

A module is one file: machine code, weights, and a description, which is the JSON text that one
function of a second executable returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tvm_neocpu.core.errors import ModuleFileError, first_line
from tvm_neocpu.runtime.ffi.machine import Machine
from tvm_neocpu.runtime.ffi.tvm_library import load_runtime
from tvm_neocpu.runtime.ffi.ways import Way, whole
from tvm_neocpu.runtime.files.binary import check_library, is_library, library_size, symbol_names
from tvm_neocpu.runtime.files.file_tail import Tail, map_weights, read_tail
from tvm_neocpu.runtime.files.library_names import LINKED, name_to_open
from tvm_neocpu.runtime.files.module_info import ModuleInfo, info_from_json
from tvm_neocpu.runtime.process.quiet import silent_stderr

if TYPE_CHECKING:
    import tvm_ffi
    from _typeshed import StrPath

INFO_FUNCTION = "neocpu_info"
# A function of TVM's machine: how many arguments one of its functions takes.
_ARITY = "get_function_arity"
_VM_KIND = "relax.VMExecutable"
SUFFIXES = (*LINKED, ".tar")


class LoadedFile(NamedTuple):
    """Code, description, and weights that functions take after their inputs: ``taken`` says which.

    ``weights`` is empty where they are constants of the code. Code that ``is_serial`` is known to
    have no parallel loops.
    """

    module: Any
    info: ModuleInfo
    weights: Sequence[Any] = ()
    taken: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    way: Way | None = None
    is_serial: bool = False

    @property
    def weights_by_function(self) -> dict[str, list[Any]]:
        """What each function takes after its inputs."""
        return {name: [self.weights[n] for n in taken] for name, taken in self.taken.items()}


def is_compiled_file(path: StrPath) -> bool:
    """Whether a file is compiled, as its name or its first bytes say: ``net.so``, ``net.SO``."""
    return os.path.splitext(path)[1] in SUFFIXES or is_library(path)


def read_module(
    path: StrPath, check_weights: bool = False, way: Callable[[], Way] = whole
) -> LoadedFile:
    """What `export_module` wrote, for a CPU that this machine has.

    Raises ModuleFileError before any code of the file runs. A truncated, damaged or foreign file is
    not even mapped, nor is one for another CPU. ``check_weights`` compares their checksum, too,
    which reads them all. Of a file of an earlier version only the description is read before.
    ``way`` makes its objects, unless it is such a file or an archive: theirs are `tvm_ffi`'s.
    """
    if not os.path.exists(path):
        raise ModuleFileError(f"there is no file {path}")
    suffix = os.path.splitext(path)[1]
    if not os.path.isfile(path) or not is_compiled_file(path):
        raise ModuleFileError(f"{path} is not an exported module (a .so or .tar file)")
    load_runtime()
    tail = _checked_tail(path, check_weights) if suffix != ".tar" else None
    if tail is not None:
        return _with_tail(path, tail, way())
    module = _load_tar(path) if suffix == ".tar" else _load_linked(path, path, whole())
    part = info_part(module)
    if part is None:
        raise ModuleFileError(f"cannot load {path}: it was not exported by tvm_neocpu")
    text = Machine(part)[INFO_FUNCTION]()
    info = info_from_json(str(text), str(path))
    _check_cpu(path, info)
    _check_whole(path, module, info)
    return LoadedFile(module, info)


def _checked_tail(path: StrPath, check_weights: bool) -> Tail | None:
    """The tail of a file that may run here; ``None`` for a file of an earlier version."""
    check_library(path, path)
    try:
        tail = read_tail(path, check_weights)
    except OSError as error:
        raise ModuleFileError(f"cannot load {path}: {first_line(error)}") from error
    if tail is not None:
        _check_cpu(path, tail.info)
    elif os.stat(path).st_size > library_size(path):
        raise ModuleFileError(f"cannot load {path}: it is truncated: its end is not there")
    return tail


def _check_whole(path: StrPath, module: tvm_ffi.Module, info: ModuleInfo) -> None:
    """Refuse a library that takes its weights from behind its code, where nothing is."""
    machine = Machine(module)
    for entry in info.entries:
        if machine[_ARITY](entry.function) > len(entry.inputs):
            raise ModuleFileError(
                f"cannot load {path}: its weights are gone: `strip` and the like cut them off"
            )


def _check_cpu(path: StrPath, info: ModuleInfo) -> None:
    if info.missing:
        lacks = f"this machine lacks {', '.join(info.missing)}"
        raise ModuleFileError(f"cannot load {path}: it was built for {info.cpu}, and {lacks}")


def _with_tail(path: StrPath, tail: Tail, way: Way) -> LoadedFile:
    module = _load_linked(path, path, way)
    weights = [way.tensor_over(array) for array in map_weights(path, tail)]
    if any(weight is None for weight in weights):
        raise ModuleFileError(f"cannot load {path}: its weights do not lie as code needs them")
    return LoadedFile(module, tail.info, weights, tail.taken, way, not _has_parallel_loops(path))


def _has_parallel_loops(path: StrPath) -> bool:
    """Whether TVM wrote the place where such code keeps the address of its pool's function."""
    names = symbol_names(path)
    return names is None or b"__TVMBackendParallelLaunch" in names


def _load_linked(library: StrPath, shown: StrPath, way: Way) -> Any:
    try:
        check_library(library, shown)
        with silent_stderr(), name_to_open(library) as name:
            return way.load_module(name)
    except (OSError, RuntimeError, ValueError) as error:
        raise ModuleFileError(f"cannot load {shown}: {first_line(error)}") from error


def _load_tar(path: StrPath) -> tvm_ffi.Module:
    """Link the archive's objects in a directory of their own, and load the result."""
    from tvm_neocpu.runtime.files.object_archive import linked_objects  # most files are no archives

    with linked_objects(path) as library:
        return _load_linked(library, path, whole())


def info_part(module: tvm_ffi.Module) -> tvm_ffi.Module | None:
    """The imported executable that has the description, or ``None``."""
    for part in module.imports:
        if part.kind == _VM_KIND and part["has_function"](INFO_FUNCTION):
            return part
    return None
