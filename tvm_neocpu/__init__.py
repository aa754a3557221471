"""NeoCPU for Apache TVM: fast CNN inference on CPUs from generated code alone.

    import tvm_neocpu                 # before relay.build
    from tvm import relay

Importing this package does four things: it provides ``tvm.relay`` where TVM ships none, registers
the Relax pipeline ``"neocpu"`` (``tvm.compile(mod, target, relax_pipeline="neocpu")``), sizes TVM's
thread pool to the physical cores, and has `tvm_ffi` loaded in parts. No other import of the package
has an effect; everything else is loaded at its first use.
"""

from __future__ import annotations

import gc
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tvm_neocpu import plugin
from tvm_neocpu.version import __version__

if TYPE_CHECKING:
    from tvm_neocpu import relay
    from tvm_neocpu.core.accuracy.precision import BoundWarning
    from tvm_neocpu.core.errors import NeoCpuError
    from tvm_neocpu.core.messages.fallback import FallbackWarning
    from tvm_neocpu.relay_passes.operators.call_form import CallForm
    from tvm_neocpu.relay_passes.operators.register import register_operator, unregister_operator
    from tvm_neocpu.runtime.built_module import BuiltModule, load
    from tvm_neocpu.session import Session
    from tvm_neocpu.targets import parse_target
    from tvm_neocpu.topi.cost.speed_check import SlowNetworkWarning
    from tvm_neocpu.topi.operator import Implementation, Operator
    from tvm_neocpu.topi.table import register_implementation, unregister_implementation
    from tvm_neocpu.tuning.database.history import apply_history_best

# The front door, as `tvm.relay` is; imported when it is first asked for.
_FRONT_DOOR = "relay"
# Public name -> the module that has it.
_PUBLIC = {
    "CallForm": "tvm_neocpu.relay_passes.operators.call_form",
    "Implementation": "tvm_neocpu.topi.operator",
    "Session": "tvm_neocpu.session",
    "Operator": "tvm_neocpu.topi.operator",
    "register_implementation": "tvm_neocpu.topi.table",
    "register_operator": "tvm_neocpu.relay_passes.operators.register",
    "unregister_implementation": "tvm_neocpu.topi.table",
    "unregister_operator": "tvm_neocpu.relay_passes.operators.register",
    "BoundWarning": "tvm_neocpu.core.accuracy.precision",
    "FallbackWarning": "tvm_neocpu.core.messages.fallback",
    "SlowNetworkWarning": "tvm_neocpu.topi.cost.speed_check",
    "BuiltModule": "tvm_neocpu.runtime.built_module",
    "NeoCpuError": "tvm_neocpu.core.errors",
    "apply_history_best": "tvm_neocpu.tuning.database.history",
    "load": "tvm_neocpu.runtime.built_module",
    "parse_target": "tvm_neocpu.targets",
}

__all__ = [
    "BoundWarning",
    "BuiltModule",
    "CallForm",
    "FallbackWarning",
    "Implementation",
    "NeoCpuError",
    "Operator",
    "Session",
    "SlowNetworkWarning",
    "__version__",
    "apply_history_best",
    "load",
    "parse_target",
    "register_implementation",
    "register_operator",
    "relay",
    "unregister_implementation",
    "unregister_operator",
]


def __getattr__(name: str) -> Any:
    if name == _FRONT_DOOR:
        return import_module(f"{__name__}.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tvm_neocpu' has no attribute {name!r}")
    value = getattr(_imported(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def _imported(module: str) -> ModuleType:
    """The module, imported without collecting garbage: what imports make stays, so that looking
    for garbage among it takes a seventh of their time and finds none.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, _FRONT_DOOR})


plugin.install()
