"""Concatenate the parts of a concat, not its result.

A dense block appends to its feature maps layer by layer (Huang et al. 2016), and each concat copies
the result of the one before. A flat concat has one reader, which can concatenate as it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax
from tvm.ir import Call

from tvm_neocpu.relay_passes.ir.exprs import call_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values

Definition = Callable[[relax.Expr], relax.Expr | None]


@dataclass(frozen=True)
class FlattenConcats:
    """``concat(concat(a, b), c)`` along one axis becomes ``concat(a, b, c)``.

    Needs: layouts are altered, because the plan's joins are the concats that were imported.
    Leaves: no concat of a concat's result along the same axis, within one block of bindings.
    """

    name: ClassVar[str] = "flatten-concats"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _flattened)


def _flattened(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    axis = concat_axis(value)
    if axis is None:
        return None
    parts = flat_parts(value, scope.definition)
    return None if len(parts) == len(value.args[0]) else relax.op.concat(parts, axis=axis)


def flat_parts(concat: Call, definition: Definition) -> list[relax.Expr]:
    """What a concat reads; in place of parts that are concats along its axis, what those read."""
    axis = concat_axis(concat)
    parts: list[relax.Expr] = []
    for part in concat.args[0]:
        inner = definition(part)
        parts.extend(inner.args[0] if concat_axis(inner) == axis else [part])
    return parts


def concat_axis(value: relax.Expr | None) -> int | None:
    """A concat's axis, counted from the front; ``None`` for any other expression."""
    if call_of(value, "relax.concat") is None or not isinstance(value.args[0], relax.Tuple):
        return None
    shape = static_shape(value.args[0][0])
    return None if shape is None or value.attrs.axis is None else int(value.attrs.axis) % len(shape)
