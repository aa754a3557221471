"""Products of two computed tensors: a call that reads its operands as they lie, and its form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tvm import relax

from tvm_neocpu.core.types import uniform
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.relay_passes.operators.new.new_op import NewOp
from tvm_neocpu.topi.batch_matmul import definition
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload

OP = "relax.neocpu.batch_matmul"


def batch_matmul(
    left: relax.Expr, right: relax.Expr, left_axes: Sequence[int], right_axes: Sequence[int]
) -> relax.Call:
    """``permute_dims(left, left_axes) @ permute_dims(right, right_axes)``."""
    return _NEW_OP(left, right, left_axes=list(left_axes), right_axes=list(right_axes))


def matmul_workload(call: relax.Expr) -> MatmulWorkload | None:
    """The workload of a call of two tensors of one type; ``None`` for anything else."""
    return _workload(call) if op_name(call) == OP and _refusal(call) is None else None


def _refusal(call: relax.Call) -> str | None:
    types = sorted({dtype_of(argument) for argument in call.args})
    return None if len(types) == 1 else f"its types are {' and '.join(types)}"


def _workload(call: relax.Call) -> MatmulWorkload:
    """Raises ValueError for arguments that do not fit each other."""
    left, right = (static_shape(argument) for argument in call.args)
    if left is None or right is None:
        raise ValueError("all its shapes must be known")
    axes = (tuple(map(int, call.attrs[name])) for name in ("left_axes", "right_axes"))
    product = MatmulWorkload(left, right, *axes, uniform(dtype_of(call.args[0])))
    if product.misfit is not None:
        raise ValueError(product.misfit)
    return product


def _infer(call: relax.Call) -> relax.Type:
    product = _workload(call)
    return relax.TensorType(product.out_shape, product.types.output)


def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    product = partial(definition.multiplied, product=_workload(call))
    return builder.call_te(product, *call.args, primfunc_name_hint="batch_matmul")


_NEW_OP = NewOp(OP, infer=_infer, legalize=_legalize)

BATCH_MATMUL_FORM = CallForm(operator="batch_matmul", op=OP, read=matmul_workload, refusal=_refusal)
