"""What `import tvm_neocpu` does to TVM: three steps, each safe to repeat.

TVM itself is not imported. A process that only runs compiled networks never needs it; in any other
the steps that need TVM are taken once it has been imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tvm_neocpu.runtime.ffi import ffi_on_demand
from tvm_neocpu.runtime.process.threads import size_thread_pool

if TYPE_CHECKING:
    from importlib.abc import Loader  # 12 ms, which every start of a session would pay

PIPELINE = "neocpu"


def install() -> None:
    """Size the thread pool, register the pipeline, provide ``tvm.relay``; `tvm_ffi` on demand."""
    size_thread_pool()
    ffi_on_demand.install()
    if "tvm" in sys.modules:
        extend_tvm()
    elif not any(isinstance(finder, _TvmFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TvmFinder())


def extend_tvm() -> None:
    """The steps that need TVM. A TVM without its compiler stays as it is."""
    from tvm.base import _RUNTIME_ONLY

    if _RUNTIME_ONLY:
        return
    _register_pipeline()
    _provide_relay()
    _keep_interrupts()


class _TvmFinder:
    """Finds TVM's package as the other finders do, and has `extend_tvm` called after its import."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != "tvm":
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _TvmLoader(spec.loader, self)
                return spec
        return None


class _TvmLoader:
    def __init__(self, loader: Loader, finder: _TvmFinder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        ffi_on_demand.complete()
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        extend_tvm()


def _register_pipeline() -> None:
    from tvm.relax import pipeline as relax_pipelines

    if PIPELINE not in relax_pipelines.PIPELINE_MAP:
        relax_pipelines.register_pipeline(PIPELINE)(_neocpu_pipeline)


def _neocpu_pipeline(**options: Any) -> Any:
    """The pipeline, imported at its first use."""
    from tvm_neocpu.specialize import neocpu_pipeline

    return neocpu_pipeline(**options)


def _keep_interrupts() -> None:
    """Have Ctrl-C inside a function that TVM calls come out of TVM as what it is.

    Errors that `tvm_ffi` does not know by name become RuntimeError: a build that was interrupted
    ended in a traceback.
    """
    import tvm_ffi

    tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)


def _provide_relay() -> None:
    """Make ``from tvm import relay`` and ``import tvm.relay.frontend`` find our front door.

    It is loaded at its first use: TVM may have been imported by a module of ours, half loaded
    itself. A TVM that still has Relay keeps its own.
    """
    import tvm

    if "tvm.relay" in sys.modules or importlib.util.find_spec("tvm.relay") is not None:
        return
    sys.meta_path.append(_RelayFinder())
    if not hasattr(tvm, "__getattr__"):
        tvm.__getattr__ = _attribute_of_tvm


def _attribute_of_tvm(name: str) -> ModuleType:
    """``tvm.relay`` of somebody who imported `tvm` and `tvm_neocpu` only."""
    if name == "relay":
        return importlib.import_module("tvm.relay")
    raise AttributeError(f"module 'tvm' has no attribute {name!r}")


class _RelayFinder:
    """Finds ``tvm.relay``: :mod:`tvm_neocpu.relay` by another name."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, _RelayLoader()) if name == "tvm.relay" else None


class _RelayLoader:
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module("tvm_neocpu.relay")
        self._own = module.__spec__
        sys.modules["tvm.relay.frontend"] = module.frontend
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # the import system gave it that of the other name
