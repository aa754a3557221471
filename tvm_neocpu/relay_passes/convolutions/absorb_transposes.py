"""Matrix products that read transposed operands as they lie.

k = permute_dims(x, [0, 2, 3, 1])
y = matmul(q, k)                   ->    y = batch_matmul(q, x, right_axes=[0, 2, 3, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.types import FOLDED
from tvm_neocpu.relay_passes.ir.exprs import call_of, dtype_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.operators.dense import dense_workload
from tvm_neocpu.relay_passes.operators.new.batch_matmul import batch_matmul

Operand = tuple[relax.Expr, tuple[int, ...]]


@dataclass(frozen=True)
class AbsorbTransposes:
    """Products that are no dense layer become calls of ``batch_matmul``.

    A transpose in front of an operand is absorbed: packing reads the matrix once in any order.

    Needs: linear operations are folded, which know ``matmul`` only; reshapes are merged.
    Leaves: no ``matmul`` of floating-point tensors of static shape, but dense layers.
    """

    name: ClassVar[str] = "absorb-transposes"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    call = call_of(value, "relax.matmul")
    if call is None or not _is_batched(call):
        return None
    (left, left_axes), (right, right_axes) = (_operand(scope, each) for each in call.args)
    return batch_matmul(left, right, left_axes, right_axes)


def _is_batched(call: relax.Call) -> bool:
    """Whether it is a product of matrices, of one type that templates take, with elements."""
    shapes = [static_shape(each) for each in (*call.args, call)]
    if dense_workload(call) is not None or any(shape is None or 0 in shape for shape in shapes):
        return False
    types = {dtype_of(each) for each in (*call.args, call)}
    return min(len(shape or ()) for shape in shapes) >= 2 and len(types) == 1 and types < {*FOLDED}


def _operand(scope: Scope, tensor: relax.Expr) -> Operand:
    """The tensor that lies in memory, and the axes that make the operand of it."""
    identity = tuple(range(tensor.ty.ndim))
    transpose = call_of(scope.definition(tensor), "relax.permute_dims")
    if transpose is None or isinstance(tensor, GenericConst):
        return tensor, identity
    axes = transpose.attrs.axes
    return transpose.args[0], identity[::-1] if axes is None else tuple(map(int, axes))
