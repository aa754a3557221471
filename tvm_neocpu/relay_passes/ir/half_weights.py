"""What a module says of half precision: in which type layers store weights, and which layers."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence

import tvm

from tvm_neocpu.core.machine.half import BY_DTYPE, Half

_ATTR, _LAYERS = "neocpu_half_weights", "neocpu_half_layers"


def with_half_weights(mod: tvm.IRModule, dtype: str) -> tvm.IRModule:
    """The module, whose builds store weights as ``dtype`` where that pays."""
    return mod.with_attr(_ATTR, dtype)


def half_weights(mod: tvm.IRModule) -> Half | None:
    """The type that :func:`with_half_weights` asked for."""
    attrs = mod.attrs or {}
    return BY_DTYPE[str(attrs[_ATTR])] if _ATTR in attrs else None


def with_half_layers(
    mod: tvm.IRModule, layers: Sequence[tuple[Hashable, str | None]]
) -> tvm.IRModule:
    """The module, whose builds store some layers' weights in half precision.

    ``layers`` are all convolutions and products in their order, by :mod:`....topi.layer_key`, with
    the type of each, ``None`` for fp32.
    """
    return mod.with_attr(_LAYERS, json.dumps([(repr(key), dtype) for key, dtype in layers]))


def half_layers(mod: tvm.IRModule) -> list[tuple[str, str | None]]:
    """What :func:`with_half_layers` noted, keys as their ``repr``; empty where nothing is."""
    attrs = mod.attrs or {}
    if _LAYERS not in attrs:
        return []
    return [(key, dtype) for key, dtype in json.loads(str(attrs[_LAYERS]))]
