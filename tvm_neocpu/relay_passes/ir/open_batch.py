"""Which extent of a network's inputs is the batch that may be any number."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from tvm_neocpu.relay_passes.ir.regions import relax_functions


def open_batch(mod: tvm.IRModule) -> tirx.Var | None:
    """The variable that is one extent of every input of ``main``, and their only open one.

    It is the first extent of one input at least: a state may be ``(layers, n, units)``.
    """
    mains = [func for name, func in relax_functions(mod) if name.name_hint == "main"]
    params = mains[0].params if mains else []
    firsts = [found[1] for var in params if (found := _open_extent(var.ty)) and found[0] == 0]
    if not firsts or not all(has_batch(var.ty, firsts[0]) for var in params):
        return None
    return firsts[0]


def has_batch(ty: Any, batch: tirx.Var) -> bool:
    """Whether the batch itself is one extent of a tensor, and all others are numbers."""
    found = _open_extent(ty)
    return found is not None and found[1].same_as(batch)


def _open_extent(ty: Any) -> tuple[int, tirx.Var] | None:
    """The place and the variable of the one extent that is no number."""
    values = getattr(getattr(ty, "shape", None), "values", None) or ()
    opened = [(at, dim) for at, dim in enumerate(values) if not isinstance(dim, tirx.IntImm)]
    return opened[0] if len(opened) == 1 and isinstance(opened[0][1], tirx.Var) else None
