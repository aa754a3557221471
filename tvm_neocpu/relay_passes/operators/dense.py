"""matmul calls that are dense layers: read and lowered; their tensors have no layout.

All axes of the data but the last one are rows: (N, T, K) x (K, O) is a layer of N * T rows.
"""

from __future__ import annotations

from math import prod

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.relay_passes.operators.refusals import refused_operands, types_of
from tvm_neocpu.topi.dense.workload import DenseWorkload

OP = "relax.matmul"
# What Relax says of a tensor whose number of dimensions is not known.
UNKNOWN_RANK = -1


def dense_workload(call: relax.Expr) -> DenseWorkload | None:
    """The workload of a matmul of a tensor with a constant matrix of its type, else ``None``."""
    if op_name(call) != OP or _refusal(call) is not None:
        return None
    data, weight = call.args
    shape, types = static_shape(data), types_of(call)
    assert shape is not None and types is not None, "a call without them is refused"
    *outside, in_features = shape
    out_features = int(weight.value.shape[1])
    return DenseWorkload(prod(outside), in_features, out_features, types)


def _refusal(call: relax.Call) -> str | None:
    rank = call.args[1].ty.ndim
    if rank not in (2, UNKNOWN_RANK):
        return f"its weight has {rank} dimensions, not 2"
    if 0 in (static_shape(call) or ()):
        return "its result is empty"
    return refused_operands(call)


DENSE_FORM = CallForm(operator="dense", op=OP, read=dense_workload, refusal=_refusal)
