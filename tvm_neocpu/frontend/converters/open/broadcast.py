"""Broadcasting where a run knows the extents: an extent of 1 is repeated, others must be equal.

    x (n,), y (m,)  ->  e = m if n == 1 else n; a run checks that m is 1 or e
                        x'[i] = x[0 if n == 1 else i],  y'[i] = y[0 if m == 1 else i]

What is known at import costs nothing: only a tensor whose extent may be 1 where the result's is not
is read through such a choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, tirx

from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.compute.run_checks import require
from tvm_neocpu.frontend.converters.known import Extent, as_expr
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.open.at_run_time import at_extents, equal, names_of


def broadcast_together(node: Node, values: Sequence[relax.Expr]) -> list[relax.Expr]:
    """The tensors, so that Relax knows what their extents broadcast to.

    A tensor whose extents are 1 or the result's stays as it is.
    """
    shapes = [extents_of(value) for value in values]
    result = common_extents(node, shapes)
    return [broadcast(node, value, result, True) for value in values]


def common_extents(node: Node, shapes: Sequence[Sequence[Extent]]) -> list[Extent]:
    """What the shapes broadcast to, as numbers and names; a run checks what is not known."""
    rank = max(map(len, shapes))
    padded = [[1] * (rank - len(shape)) + list(shape) for shape in shapes]
    result, conditions = [], []
    for axis in range(rank):
        extent, needed = _common(node, [shape[axis] for shape in padded])
        result.append(extent)
        conditions += needed
    require(node, conditions)
    return names_of(node, result, [f"common_{axis}" for axis in range(rank)])


def broadcast(
    node: Node, value: relax.Expr, extents: Sequence[Extent], ones_stay: bool = False
) -> relax.Expr:
    """The tensor repeated along its axes of extent 1; with ``ones_stay`` where a run decides only.

    The extents are those that :func:`common_extents` gave.
    """
    own = extents_of(value)
    target = list(extents[len(extents) - len(own) :]) if ones_stay else list(extents)
    if ones_stay:
        target = [1 if mine == 1 else to for mine, to in zip(own, target, strict=True)]
    padded = [1] * (len(target) - len(own)) + own
    known = node.extents
    if all(known.same(mine, to) for mine, to in zip(padded, target, strict=True)):
        same_rank = len(own) == len(target)
        return at_extents(node, value, target) if same_rank else _repeated(node, value, target)
    return _repeated(node, value, target)


def _repeated(node: Node, value: relax.Expr, target: Sequence[Extent]) -> relax.Expr:
    rank = len(target)

    def compute(data: te.Tensor, shape: list[tirx.Expr], choices: list[int]) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            places = at[rank - len(data.shape) :]
            return data(
                *(
                    _place(choice, extent, place)
                    for choice, extent, place in zip(choices, data.shape, places, strict=True)
                )
            )

        return te.compute(shape, element, name="broadcast")

    own = extents_of(value)
    choices = [
        _FIRST if mine == 1 else _SAME if node.extents.same(mine, to) else _DECIDED
        for mine, to in zip(own, target[rank - len(own) :], strict=True)
    ]
    shape = [as_expr(extent) for extent in target]
    return node.builder.emit_te(compute, value, shape, choices, primfunc_name_hint="broadcast")


_FIRST, _SAME, _DECIDED = range(3)


def _place(choice: int, extent: tirx.Expr, place: tirx.Var) -> tirx.Expr | int:
    if choice == _SAME:
        return place
    if choice == _FIRST:
        return tirx.const(0, "int64")
    return tirx.Select(equal(extent, 1), tirx.const(0, "int64"), place)


def _common(node: Node, extents: Sequence[Extent]) -> tuple[Extent, list[tirx.Expr | bool]]:
    """What extents of one axis broadcast to, and what must hold for it."""
    known = node.extents
    distinct: list[Extent] = []
    for extent in extents:
        if extent != 1 and not any(known.same(extent, other) for other in distinct):
            distinct.append(extent)
    numbers = [extent for extent in distinct if isinstance(extent, int)]
    if numbers:
        # 1 or this number.
        result: Extent = numbers[0]
    elif not distinct:
        result = 1
    else:
        result = distinct[0]
        for extent in distinct[1:]:
            result = tirx.Select(equal(result, 1), as_expr(extent), as_expr(result))
    if len(distinct) < 2:
        return result, []
    # One name for one extent.
    result = next((extent for extent in distinct if known.same(extent, result)), result)
    return result, [
        tirx.Or(equal(extent, 1), equal(extent, result))
        if not isinstance(extent, int)
        else equal(extent, result)
        for extent in distinct
        if extent is not result
    ]
