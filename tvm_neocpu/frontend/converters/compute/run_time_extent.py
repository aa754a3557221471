"""Extents that only a run knows: how many elements a condition selects."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, tirx

from tvm_neocpu.frontend.converters.compute.run_checks import require_within
from tvm_neocpu.frontend.converters.known import Extent
from tvm_neocpu.frontend.converters.node import Node

# Elements that no axis has.
_TOO_MANY = 2**31 - 1


def extents_from(
    node: Node, counts: relax.Expr, names: Sequence[str], most: Extent | None = None
) -> list[tirx.Var]:
    """One symbolic extent, at most ``most``, for each element of ``counts``, an int64 vector."""
    bound = None if most is None else node.extents.most(most)
    extents = [node.extents.new(name, bound) for name in names]
    shape = node.emit(relax.op.tensor_to_shape(counts))
    node.builder.match_cast(shape, relax.ShapeType(extents))
    return extents


def length_from(node: Node, number: relax.Expr, name: str, most: Extent) -> tirx.Var:
    """A symbolic extent that a tensor of one element names: a run fails below 0 and above ``most``.

    ``most`` is below 2**31 - 1.
    """
    length = node.emit(relax.op.reshape(number, [1]))
    if str(length.ty.dtype) != "int64":
        length = node.emit(relax.op.astype(length, "int64"))
    # An extent is taken to be no less than 0, so that a check of that would be dropped.
    is_negative = node.emit(relax.op.less(length, relax.const(0, "int64")))
    length = node.emit(relax.op.where(is_negative, relax.const(_TOO_MANY, "int64"), length))
    (extent,) = extents_from(node, length, [name])
    require_within(node, [extent], most)
    return extent


def head(node: Node, value: relax.Expr, axis: int, extent: tirx.Expr | int) -> relax.Var:
    """The first ``extent`` elements of ``value`` along ``axis``."""

    def compute(data: te.Tensor) -> te.Tensor:
        shape = [*data.shape[:axis], extent, *data.shape[axis + 1 :]]
        return te.compute(shape, lambda *at: data(*at), name="head")

    return node.builder.emit_te(compute, value, primfunc_name_hint="head")
