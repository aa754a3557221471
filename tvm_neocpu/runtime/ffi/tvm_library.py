"""TVM's C++ runtime alone: neither TVM's Python package nor its compiler is imported.

`import tvm` maps 260 MB of compiler and takes most of a second. Compiled networks need `tvm_ffi`
and ``libtvm_runtime.so`` (3 MB). A process that imports `tvm` too, before or after, shares them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import tvm_ffi

from tvm_neocpu.core.errors import MissingPackageError
from tvm_neocpu.runtime.ffi.light import c_abi
from tvm_neocpu.runtime.process.forking import fork_lock, late_imports

# TVM's own variable: a folder that is searched for its libraries first.
FOLDER = "TVM_LIBRARY_PATH"
_NAMES = ("libtvm_runtime.so", "libtvm_runtime.dylib", "tvm_runtime.dll")
# Beside them, where it is installed: sorting, which TopK over an open extent or int64 calls.
_EXTRA = "_runtime_extra"

_lock = fork_lock()  # a signal's handler may need the runtime while it is loaded
_is_loaded = False


def load_runtime() -> None:
    """Have TVM's runtime in this process. Raises MissingPackageError where it is not installed."""
    global _is_loaded
    with _lock:
        if _is_loaded or "tvm" in sys.modules:
            return
        library = _library()
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
        folder, name = os.path.split(library)
        extra = os.path.join(folder, name.replace("_runtime", _EXTRA))
        if os.path.isfile(extra):
            ctypes.CDLL(extra, ctypes.RTLD_GLOBAL)  # 0.8 ms, Zen 3
        _is_loaded = True


@cache
def runtime_function(name: str) -> Any:
    """A global function of TVM's runtime, of numbers and texts."""
    load_runtime()
    if c_abi.is_available():
        with late_imports:
            from tvm_neocpu.runtime.ffi.light.objects import global_function

        return global_function(name)
    return tvm_ffi.get_global_func(name)


def library_folders() -> Iterator[str]:
    """Where TVM's libraries may be: named by the user, or in TVM's package."""
    if os.environ.get(FOLDER):
        yield os.environ[FOLDER]
    spec = importlib.util.find_spec("tvm")  # finds the package and does not import it
    if spec is not None and spec.origin:
        yield os.path.join(os.path.dirname(spec.origin), "lib")


def _library() -> str:
    for folder in library_folders():
        for name in _NAMES:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return path
    raise MissingPackageError(
        f"TVM's runtime is not here: pip install apache-tvm, or set {FOLDER} to the folder of "
        f"{_NAMES[0]}"
    )
