"""One axis of a tensor gathered by a table, each element of the result a weighted sum of several.

for ..., i, ...:  out[..., i, ...] = sum(data[..., index[i, t], ...] * weight[i, t] for t)
"""

from __future__ import annotations

import numpy as np
from tvm import relax, te, tirx

from tvm_neocpu.frontend.converters.geometry.interpolation import Floats, Ints, Taps
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE

# More taps than this are a loop, fewer are written out.
MAX_UNROLLED_TAPS = 32


def weighted_gather(node: Node, value: relax.Expr, axis: int, taps: Taps) -> relax.Var:
    """``value`` with ``axis`` replaced by ``len(taps.index)`` elements; its type stays.

    A single tap copies elements of any type; weighted sums are computed in float32, or in float64
    where the elements are.
    """
    index = _table(taps.index, "int32")
    if taps.selects:
        return gather_by(node, value, axis, index, None)
    dtype = "float64" if str(value.ty.dtype) == "float64" else "float32"
    return gather_by(node, value, axis, index, _table(taps.weight, dtype))


def gather_by(
    node: Node, value: relax.Expr, axis: int, index: relax.Expr, weight: relax.Expr | None
) -> relax.Var:
    """The same by tables ``(resized, taps)``, which a run may have made; one tap has no weight."""
    if weight is None:
        return _emit(node, lambda data, at: _gather(data, at, axis), value, index)
    return _emit(node, lambda data, at, w: _blend(data, at, w, axis), value, index, weight)


def _table(values: Floats | Ints, dtype: str) -> relax.Expr:
    # Without its dtype, relax.const rounds float64 to float32.
    return relax.const(np.ascontiguousarray(values, dtype), dtype)


def _emit(node: Node, compute: object, *args: relax.Expr) -> relax.Var:
    # A fused producer would be computed once for each tap.
    attributes = {"op_pattern": OUT_ELEMWISE_FUSABLE}
    return node.builder.emit_te(
        compute, *args, primfunc_name_hint="weighted_gather", primfunc_attrs=attributes
    )


def _gather(data: te.Tensor, index: te.Tensor, axis: int) -> te.Tensor:
    def element(*at: tirx.Var) -> tirx.Expr:
        return data(*at[:axis], index[at[axis], 0], *at[axis + 1 :])

    return te.compute(_resized(data, index, axis), element, name="gather")


def _blend(data: te.Tensor, index: te.Tensor, weight: te.Tensor, axis: int) -> te.Tensor:
    shape, count = _resized(data, index, axis), int(index.shape[1])
    taps = te.reduce_axis((0, count), name="tap")

    def term(at: tuple[tirx.Var, ...], tap: tirx.Expr | int) -> tirx.Expr:
        place = (*at[:axis], index[at[axis], tap], *at[axis + 1 :])
        return data(*place).astype(weight.dtype) * weight[at[axis], tap]

    def written_out(*at: tirx.Var) -> tirx.Expr:
        total = term(at, 0)
        for tap in range(1, count):
            total = total + term(at, tap)
        return total.astype(data.dtype)

    if count <= MAX_UNROLLED_TAPS:
        return te.compute(shape, written_out, name="blend")
    total = te.compute(shape, lambda *at: te.sum(term(at, taps.var), taps), name="blend")
    if data.dtype == weight.dtype:
        return total
    return te.compute(shape, lambda *at: total(*at).astype(data.dtype), name="rounded")


def _resized(data: te.Tensor, index: te.Tensor, axis: int) -> tuple[tirx.Expr, ...]:
    return (*data.shape[:axis], index.shape[0], *data.shape[axis + 1 :])
