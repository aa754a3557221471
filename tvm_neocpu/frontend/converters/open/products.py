"""MatMul and Gemm over extents that a run computes."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.open.at_run_time import at_extents
from tvm_neocpu.frontend.converters.open.broadcast import (
    broadcast,
    broadcast_together,
    common_extents,
)


def matmul(node: Node) -> relax.Expr:
    """``(.., n, k)`` by ``(.., k, m)``; a run checks that the summed extents are equal."""
    return _product(node, node.data, node.required(1))


def gemm(node: Node) -> relax.Expr:
    """``alpha A B + beta C``, A and B transposed where the attributes say so."""
    first, second = node.data, node.required(1)
    if node.attributes["transA"]:
        first = node.emit(relax.op.permute_dims(first, [1, 0]))
    if node.attributes["transB"]:
        second = node.emit(relax.op.permute_dims(second, [1, 0]))
    result = _scaled(node, _product(node, first, second), node.attributes["alpha"])
    third = node.input(2)
    if third is None:
        return result
    result = node.emit(result)
    third = _scaled(node, third, node.attributes["beta"])
    return relax.op.add(*broadcast_together(node, [result, third]))


def _product(node: Node, first: relax.Expr, second: relax.Expr) -> relax.Expr:
    one, other = extents_of(first), extents_of(second)
    if not one or not other:
        raise UnsupportedOperatorError("a factor is a scalar")
    summed = other[-2] if len(other) > 1 else other[0]
    # The extent that is a number, if one of them is.
    if isinstance(one[-1], int):
        fitted = [*other[:-2], one[-1], other[-1]] if len(other) > 1 else [one[-1]]
        second = at_extents(node, second, fitted)
    else:
        first = at_extents(node, first, [*one[:-1], summed])
    if len(one) > 2 and len(other) > 2:
        batch = common_extents(node, [one[:-2], other[:-2]])
        first = broadcast(node, first, [*batch, *extents_of(first)[-2:]])
        second = broadcast(node, second, [*batch, *extents_of(second)[-2:]])
    return relax.op.matmul(first, second)


def _scaled(node: Node, value: relax.Expr, factor: float) -> relax.Expr:
    if factor == 1.0:
        return value
    value = node.emit(value)
    return node.emit(relax.op.multiply(value, relax.const(factor, str(value.ty.dtype))))
