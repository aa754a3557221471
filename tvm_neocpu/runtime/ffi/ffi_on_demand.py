"""`tvm_ffi` without the parts that running a network never needs, which are loaded when asked for.

``import tvm_ffi`` searches the metadata of installed packages for its library, and imports
dataclasses, containers, structural comparison and a helper of torch: two thirds of its time, as
much as a third of a small network's first answer. `install` puts the package there unexecuted,
as PEP 562 has it: names of the table come from the submodule that defines them, and the first name
that is not in it executes the package. So does a name of the table in a version of `tvm_ffi` whose
submodules are others. Who imported `tvm_ffi` before keeps it as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PACKAGE = "tvm_ffi"
_LIBRARY = os.path.join("lib", "libtvm_ffi.so")
# Name -> the module that has it.
_NAMES = {
    "Module": "tvm_ffi.module",
    "Shape": "tvm_ffi._tensor",
    "Tensor": "tvm_ffi.core",
    "device": "tvm_ffi._tensor",
    "dtype": "tvm_ffi._dtype",
    "from_dlpack": "tvm_ffi.core",
    "get_global_func": "tvm_ffi.registry",
    "load_module": "tvm_ffi.module",
    "register_object": "tvm_ffi.registry",
}

# These give the core its classes: types, shapes, errors, and arrays, in which networks answer.
_CLASSES = ("_dtype", "_tensor", "error", "container")

_executing = threading.RLock()
_partial: ModuleType | None = None


def install() -> None:
    """Have `tvm_ffi` in ``sys.modules``, its library loaded, and the rest of it on demand.

    Does nothing where it is imported already, absent, not laid out as its Linux wheels are, or
    where its library does not load: then an import of it takes its own way.
    """
    global _partial
    if _PACKAGE in sys.modules:
        return
    spec = importlib.util.find_spec(_PACKAGE)
    library = _library_of(spec)
    if spec is None or library is None:
        return
    try:
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    except OSError:
        return
    package = importlib.util.module_from_spec(spec)
    package.__getattr__ = _found  # type: ignore[method-assign]
    if sys.modules.setdefault(_PACKAGE, package) is package:
        _partial = package


def complete() -> None:
    """Execute the rest of `tvm_ffi`, if it is not; for packages that expect it whole.

    Where that fails or is interrupted, the next call begins anew, as imports do.
    """
    global _partial
    with _executing:
        package, _partial = _partial, None
        if package is None or package.__spec__ is None or package.__spec__.loader is None:
            return
        try:
            package.__spec__.loader.exec_module(package)
        except BaseException:
            _partial = package
            raise
        if package.__getattr__ is _found:  # and not one that the package defines
            del package.__getattr__


def library_path() -> str | None:
    """Where libtvm_ffi is; ``None`` where `tvm_ffi` is absent or laid out otherwise."""
    known = sys.modules.get(_PACKAGE)
    return _library_of(known.__spec__ if known else importlib.util.find_spec(_PACKAGE))


def _library_of(spec: ModuleSpec | None) -> str | None:
    folders = spec.submodule_search_locations if spec is not None else None
    library = os.path.join(next(iter(folders)), _LIBRARY) if folders else None
    return library if library is not None and os.path.isfile(library) else None


def _found(name: str) -> Any:
    """An attribute that the package does not have yet: of the table, a submodule, or any other."""
    package = sys.modules[_PACKAGE]
    if name in _NAMES:
        # A version that has it elsewhere is executed, below.
        with contextlib.suppress(ImportError, AttributeError):
            for part in _CLASSES:
                importlib.import_module(f"{_PACKAGE}.{part}")
            value = getattr(importlib.import_module(_NAMES[name]), name)
            setattr(package, name, value)
            return value
    # ``from . import core`` asks for the attribute first.
    elif importlib.util.find_spec(f"{_PACKAGE}.{name}") is not None:
        return importlib.import_module(f"{_PACKAGE}.{name}")
    complete()
    if name in vars(package):
        return vars(package)[name]
    raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
