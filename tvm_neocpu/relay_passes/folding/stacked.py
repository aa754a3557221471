"""Reductions over the axis along which tensors were stacked: the importer's Sum, Max and Mean."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax
from tvm.ir import Call, GenericConst

from tvm_neocpu.relay_passes.ir.exprs import call_of, dtype_of, is_foldable, same_type
from tvm_neocpu.relay_passes.ir.rewrite import Scope

CallRule = Callable[[Scope, Call], relax.Expr | None]
Combine = Callable[[relax.Expr, relax.Expr], relax.Expr]


def combine_stacked(combine: Combine) -> CallRule:
    """``reduce(stack(a, b, c), axis=0) -> combine(combine(a, b), c)``, which copies nothing."""

    def rule(scope: Scope, call: Call) -> relax.Expr | None:
        parts = _stacked_parts(scope, call)
        if not parts:
            return None
        total = scope.combine(combine, parts)
        return total if same_type(total, call) else None

    return rule


def mean_of_stacked(scope: Scope, call: Call) -> relax.Expr | None:
    parts = _stacked_parts(scope, call) if is_foldable(call) else []
    total = combine_stacked(relax.op.add)(scope, call) if parts else None
    if total is None:
        return None
    return relax.op.multiply(total, relax.const(1 / len(parts), dtype_of(call)))


def _stacked_parts(scope: Scope, call: Call) -> list[relax.Expr]:
    """The tensors whose stack ``call`` reduces over its new axis, constants last.

    Empty for any other reduction. The importer's broadcasts of the parts are left out, because the
    binary operations broadcast too.
    """
    stack = call_of(scope.definition(call.args[0]), "relax.stack")
    if stack is None or call.attrs.keepdims or int(stack.attrs.axis or 0) != 0:
        return []
    if call.attrs.axis is None or [int(axis) for axis in call.attrs.axis] != [0]:
        return []
    fields = getattr(scope.definition(stack.args[0]), "fields", [])
    parts = [_without_broadcast(scope, field) for field in fields]
    return sorted(parts, key=lambda part: isinstance(part, GenericConst))


def _without_broadcast(scope: Scope, part: relax.Expr) -> relax.Expr:
    broadcast = call_of(scope.definition(part), "relax.broadcast_to")
    return scope.resolve(part if broadcast is None else broadcast.args[0])
