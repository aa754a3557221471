"""Extents that only a run knows: how many elements a condition selects."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, tirx

from tvm_neocpu.frontend.converters.known import Extent
from tvm_neocpu.frontend.converters.node import Node


def extents_from(
    node: Node, counts: relax.Expr, names: Sequence[str], most: Extent | None = None
) -> list[tirx.Var]:
    """One symbolic extent, at most ``most``, for each element of ``counts``, an int64 vector."""
    bound = None if most is None else node.extents.most(most)
    extents = [node.extents.new(name, bound) for name in names]
    shape = node.emit(relax.op.tensor_to_shape(counts))
    node.builder.match_cast(shape, relax.ShapeType(extents))
    return extents


def head(node: Node, value: relax.Expr, axis: int, extent: tirx.Expr | int) -> relax.Var:
    """The first ``extent`` elements of ``value`` along ``axis``."""

    def compute(data: te.Tensor) -> te.Tensor:
        shape = [*data.shape[:axis], extent, *data.shape[axis + 1 :]]
        return te.compute(shape, lambda *at: data(*at), name="head")

    return node.builder.emit_te(compute, value, primfunc_name_hint="head")
