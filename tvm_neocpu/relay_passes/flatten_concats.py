"""Concatenate what a concat consists of, not its copy.

A dense block appends to its feature maps layer by layer (Huang et al. 2016): each concat copies
the one before. Flat, every concat has one reader, which can do the concatenation on the way in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import call_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values


@dataclass(frozen=True)
class FlattenConcats:
    """``concat(concat(a, b), c)`` over one axis becomes ``concat(a, b, c)``."""

    name: ClassVar[str] = "flatten-concats"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _flattened)


def _flattened(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    axis = _axis(value)
    if axis is None:
        return None
    parts: list[relax.Expr] = []
    for field in value.args[0]:
        inner = scope.definition(field)
        parts.extend(inner.args[0] if _axis(inner) == axis else [field])
    if len(parts) == len(value.args[0]):
        return None
    return relax.op.concat(parts, axis=axis)


def _axis(value: relax.Expr) -> int | None:
    """A concat's axis, counted from the front; ``None`` for anything else."""
    if call_of(value, "relax.concat") is None or not isinstance(value.args[0], relax.Tuple):
        return None
    shape = static_shape(value.args[0][0])
    return None if shape is None or value.attrs.axis is None else int(value.attrs.axis) % len(shape)
