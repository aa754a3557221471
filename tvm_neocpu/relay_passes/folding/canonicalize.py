"""One spelling for each thing that the ONNX importer spells in many ways.

maximum(x, 0)            ->  relu(x)
max(stack(a, b), axis=0) ->  maximum(a, b)
conv2d(pad(x), W)        ->  conv2d(x, W, padding=...)
x / c                    ->  x * (1 / c)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call, GenericConst

from tvm_neocpu.relay_passes.folding.importer_primfuncs import read_bound, read_zero_pad
from tvm_neocpu.relay_passes.folding.stacked import (
    CallRule,
    combine_stacked,
    mean_of_stacked,
)
from tvm_neocpu.relay_passes.ir.constants import Array, array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import (
    CALL_TIR,
    call_of,
    dtype_of,
    integers_of,
    is_foldable,
    op_name,
    same_type,
)
from tvm_neocpu.relay_passes.ir.padding import image_padding
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of
from tvm_neocpu.relay_passes.operators.conv2d import same_convolution


@dataclass(frozen=True)
class Canonicalize:
    """Rewrite each operation by the rules of :data:`RULES` until no rule applies.

    Sum, Max, Min and Mean become chains of binary operations. Clip and Pad become operators again,
    and padding moves into the convolution. Dropout, reshapes, slices and broadcasts that do nothing
    vanish. Constants stand on the right; division by a constant becomes a product, subtraction a
    sum.

    Needs: constants are folded; the rules look for a constant, not for what computes it.
    Leaves: the right-hand sides of :data:`RULES`, and no dead code.
    """

    name: ClassVar[str] = "canonicalize"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if isinstance(value, relax.TupleGetItem):
        return _skip_dropout(scope, value)
    rule = RULES.get(op_name(value))
    simpler = rule(scope, value) if rule else None
    if simpler is None:
        return None
    simpler = scope.normalize(simpler)
    again = _rewrite(scope, simpler)
    return simpler if again is None else again


def _skip_dropout(scope: Scope, item: relax.TupleGetItem) -> relax.Expr | None:
    """``dropout(x)[0] -> x``, because this package compiles inference only."""
    dropout = call_of(scope.definition(item.tuple_value), "relax.nn.dropout")
    return dropout.args[0] if dropout is not None and item.index == 0 else None


def _skip_identity(scope: Scope, call: Call) -> relax.Expr | None:
    """A reshape, broadcast or cast to the type that the tensor has already."""
    return call.args[0] if same_type(call, call.args[0]) else None


def _skip_whole_slice(scope: Scope, call: Call) -> relax.Expr | None:
    """A slice of everything; GhostNet cuts each concat to the channels that it has."""
    forward = len(call.args) < 5 or set(integers_of(call.args[4])) == {1}
    return _skip_identity(scope, call) if forward else None


def _skip_first_reshape(scope: Scope, call: Call) -> relax.Expr | None:
    """``reshape(reshape(x, s), t) -> reshape(x, t)``."""
    identity = _skip_identity(scope, call)
    if identity is not None:
        return identity
    inner = call_of(scope.definition(call.args[0]), "relax.reshape")
    return None if inner is None else relax.op.reshape(inner.args[0], call.args[1])


def _one_permutation(scope: Scope, call: Call) -> relax.Expr | None:
    """``permute(permute(x, p), q) -> permute(x, p[q])``; one that moves no axis is nothing."""
    axes, data = _axes_of(call), call.args[0]
    if axes == sorted(axes):
        return data
    inner = call_of(scope.definition(data), "relax.permute_dims")
    if inner is None:
        return None
    before = _axes_of(inner)
    return relax.op.permute_dims(inner.args[0], [before[axis] for axis in axes])


def _axes_of(permutation: Call) -> list[int]:
    axes = permutation.attrs.axes
    return [*range(permutation.ty.ndim)][::-1] if axes is None else [int(axis) for axis in axes]


def _product_of_nothing(scope: Scope, call: Call) -> relax.Expr | None:
    """``matmul`` over no element is 0; no template and no loop would write it."""
    read, made = static_shape_of(call.args[0].ty), static_shape_of(call.ty)
    if read is None or made is None or not read or read[-1]:
        return None
    return relax.const(np.zeros(made, dtype_of(call)), dtype_of(call))


def _skip_concat_of_one(scope: Scope, call: Call) -> relax.Expr | None:
    parts = scope.definition(call.args[0])
    return parts.fields[0] if isinstance(parts, relax.Tuple) and len(parts.fields) == 1 else None


def _constant_to_the_right(scope: Scope, call: Call) -> relax.Expr | None:
    left, right = map(scope.resolve, call.args)
    if not isinstance(left, GenericConst) or isinstance(right, GenericConst):
        return None
    return Call(call.op, [right, left], call.attrs)


def _multiply_by_reciprocal(scope: Scope, call: Call) -> relax.Expr | None:
    """``x / c -> x * (1 / c)`` for a scalar or vector ``c``; a division is many times slower.

    Where the reciprocal of a number is infinite or denormal, the quotient may be neither. By a
    scalar 0, which TVM would divide by while compiling, the product with infinity is the quotient.
    A single number is divided: the step of dynamic quantisation decides how whole tensors round.
    """
    divisor = _vector_operand(scope, call)
    if divisor is None or (int(call.args[0].ty.ndim) == 0 and np.all(divisor)):
        return None
    limits, sizes = np.finfo(dtype_of(call)), np.abs(divisor)
    normal = (sizes > 1 / float(limits.max)) & (sizes < 1 / float(limits.tiny))
    if not np.all(normal) and (divisor.size > 1 or np.any(sizes)):
        return None
    with np.errstate(divide="ignore"):
        return relax.op.multiply(call.args[0], constant_of(1 / divisor, dtype_of(call)))


def _add_negated(scope: Scope, call: Call) -> relax.Expr | None:
    """``x - c -> x + (-c)`` for a scalar or a vector ``c``."""
    subtrahend = _vector_operand(scope, call)
    if subtrahend is None:
        return None
    return relax.op.add(call.args[0], constant_of(-subtrahend, dtype_of(call)))


def _vector_operand(scope: Scope, call: Call) -> Array | None:
    """The right operand in double precision, if it is a constant that varies along one axis."""
    array = array_of(scope.resolve(call.args[1]))
    if array is None or not is_foldable(call):
        return None
    if sum(size > 1 for size in array.shape) > 1:
        return None
    return array.astype("float64")


def _silu_or_constant_to_the_right(scope: Scope, call: Call) -> relax.Expr | None:
    """``x * sigmoid(x) -> silu(x)``, which fits into the epilogue of a convolution's tile."""
    for x, gate in (call.args, reversed(call.args)):
        sigmoid = call_of(scope.definition(gate), "relax.sigmoid")
        if sigmoid is not None and scope.resolve(sigmoid.args[0]).same_as(scope.resolve(x)):
            return relax.op.nn.silu(x)
    return _constant_to_the_right(scope, call)


def _relu_from_maximum(scope: Scope, call: Call) -> relax.Expr | None:
    """``maximum(x, 0) -> relu(x)``, ``maximum(x, -inf) -> x``."""
    bound = _scalar_bound(scope, call)
    if bound == -np.inf:
        return call.args[0]
    return relax.op.nn.relu(call.args[0]) if bound == 0 else None


def _clip_from_minimum(scope: Scope, call: Call) -> relax.Expr | None:
    """``minimum(maximum(x, low), high) -> clip(x, low, high)``; ReLU6 arrives like this."""
    high = _scalar_bound(scope, call)
    if high == np.inf:
        return call.args[0]
    inner = scope.definition(call.args[0])
    low = _lower_bound(scope, inner)
    if high is None or low is None or low > high:
        return None
    return relax.op.clip(inner.args[0], low, high)


def _lower_bound(scope: Scope, expr: relax.Expr) -> float | None:
    name = op_name(expr)
    if name == "relax.maximum":
        return _scalar_bound(scope, expr)
    return 0.0 if name == "relax.nn.relu" else None


def _scalar_bound(scope: Scope, expr: relax.Expr) -> float | None:
    """The scalar that a ``maximum`` or ``minimum`` compares its operand with."""
    array = array_of(scope.resolve(expr.args[1]))
    if array is None or array.size != 1 or not is_foldable(expr):
        return None
    if not same_type(expr, expr.args[0]):
        return None
    return float(array.item())


def _operator_from_loops(scope: Scope, call: Call) -> relax.Expr | None:
    """Clip and Pad as operators; the importer wrote them as PrimFuncs."""
    if not is_foldable(call):
        return None
    bound = read_bound(scope.mod, call)
    if bound is not None:
        combine = relax.op.maximum if bound.lower else relax.op.minimum
        return combine(bound.data, relax.const(bound.value, dtype_of(call)))
    pad = read_zero_pad(scope.mod, call)
    if pad is None:
        return None
    if not any((*pad.before, *pad.after)):
        return pad.data
    widths = [width for pair in zip(pad.before, pad.after, strict=True) for width in pair]
    return relax.op.nn.pad(pad.data, widths)


def _padding_into_conv(scope: Scope, call: Call) -> relax.Expr | None:
    """``conv2d(pad(x)) -> conv2d(x)``; the padding is added to the convolution's own."""
    pad = scope.definition(call.args[0])
    widths = image_padding(pad)
    if widths is None or float(pad.attrs.pad_value) != 0 or call.attrs.data_layout != "NCHW":
        return None
    padding = [int(own) + more for own, more in zip(call.attrs.padding, widths, strict=True)]
    return same_convolution(call, pad.args[0], call.args[1], padding=padding)


RULES: dict[str, CallRule] = {
    "relax.add": _constant_to_the_right,
    "relax.astype": _skip_identity,
    "relax.broadcast_to": _skip_identity,
    CALL_TIR: _operator_from_loops,
    "relax.concat": _skip_concat_of_one,
    "relax.divide": _multiply_by_reciprocal,
    "relax.expand_dims": _skip_identity,
    "relax.matmul": _product_of_nothing,
    "relax.max": combine_stacked(relax.op.maximum),
    "relax.maximum": _relu_from_maximum,
    "relax.mean": mean_of_stacked,
    "relax.min": combine_stacked(relax.op.minimum),
    "relax.minimum": _clip_from_minimum,
    "relax.multiply": _silu_or_constant_to_the_right,
    "relax.nn.conv2d": _padding_into_conv,
    "relax.permute_dims": _one_permutation,
    "relax.reshape": _skip_first_reshape,
    "relax.squeeze": _skip_identity,
    "relax.strided_slice": _skip_whole_slice,
    "relax.subtract": _add_negated,
    "relax.sum": combine_stacked(relax.op.add),
}

__all__ = ["RULES", "Canonicalize"]
