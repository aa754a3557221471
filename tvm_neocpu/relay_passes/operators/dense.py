"""matmul calls that are dense layers: read and lowered; their tensors have no layout."""

from __future__ import annotations

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.types import uniform
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.topi.dense.workload import DenseWorkload

OP = "relax.matmul"


def dense_workload(call: relax.Expr) -> DenseWorkload | None:
    """The workload of a matmul of a matrix with a constant matrix of its type, else ``None``."""
    if op_name(call) != OP:
        return None
    data, weight = call.args
    shape = static_shape(data)
    if shape is None or len(shape) != 2 or not isinstance(weight, GenericConst):
        return None
    if len(weight.value.shape) != 2 or not dtype_of(data) == dtype_of(weight) == dtype_of(call):
        return None
    return DenseWorkload(shape[0], shape[1], int(weight.value.shape[1]), uniform(dtype_of(data)))


DENSE_FORM = CallForm(operator="dense", op=OP, read=dense_workload)
