"""What a module says of half precision: in which type layers that wait for memory store weights."""

from __future__ import annotations

import tvm

from tvm_neocpu.core.half import BY_DTYPE, Half

_ATTR = "neocpu_half_weights"


def with_half_weights(mod: tvm.IRModule, dtype: str) -> tvm.IRModule:
    """The module, whose builds store weights as ``dtype`` where that pays."""
    return mod.with_attr(_ATTR, dtype)


def half_weights(mod: tvm.IRModule) -> Half | None:
    """The type that :func:`with_half_weights` asked for."""
    attrs = mod.attrs or {}
    return BY_DTYPE[str(attrs[_ATTR])] if _ATTR in attrs else None
