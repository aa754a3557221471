"""matmul calls that are dense layers: read and lowered; their tensors have no layout."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.types import uniform
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.relay_passes.operators.refusals import refused_operands
from tvm_neocpu.topi.dense.workload import DenseWorkload

OP = "relax.matmul"
# What Relax says of a tensor whose number of dimensions is not known.
UNKNOWN_RANK = -1


def dense_workload(call: relax.Expr) -> DenseWorkload | None:
    """The workload of a matmul of a matrix with a constant matrix of its type, else ``None``."""
    if op_name(call) != OP or _refusal(call) is not None:
        return None
    data, weight = call.args
    shape = static_shape(data)
    assert shape is not None, "a call without it is refused"
    return DenseWorkload(shape[0], shape[1], int(weight.value.shape[1]), uniform(dtype_of(data)))


def _refusal(call: relax.Call) -> str | None:
    ranks = [argument.ty.ndim for argument in call.args]
    if any(rank not in (2, UNKNOWN_RANK) for rank in ranks):
        return f"its operands have {ranks[0]} and {ranks[1]} dimensions, not 2"
    return refused_operands(call)


DENSE_FORM = CallForm(operator="dense", op=OP, read=dense_workload, refusal=_refusal)
