"""What becomes of each operator over dequantised tensors: one table.

A rule gets the call and returns what its result stands for, deferred; ``None`` declines, and the
operator works on floats as it did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.constants import Array, array_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, static_shape
from tvm_neocpu.relay_passes.quantized.encoding import MAX_CODE, SHIFTS, CodedConstant
from tvm_neocpu.relay_passes.quantized.products import conv2d, matmul
from tvm_neocpu.relay_passes.quantized.readers import MOVES
from tvm_neocpu.relay_passes.quantized.rewriter import Codes, Parts, Rewriter, Stored, Value
from tvm_neocpu.relay_passes.quantized.sums import Sum, Term

Rule = Callable[[Rewriter, relax.Var, relax.Call], Value | None]

_IMAGE = (2, 3)
_INT32_MAX = np.iinfo("int32").max


def _moved(rewriter: Rewriter, var: relax.Var, call: relax.Call) -> Value | None:
    """Codes take the way of what they stand for."""
    value = rewriter.value(call.args[0])
    if isinstance(value, CodedConstant):
        return value.moved(call)
    wanted = rewriter.readers.wanted(var)
    if isinstance(value, Sum) and wanted is not None:
        value = Stored(rewriter.coded(call.args[0], wanted), wanted)
    if not isinstance(value, Codes | Stored):
        return None
    rest = list(call.args[1:])
    return _over_codes(
        rewriter, value, lambda x: relax.Call(call.op, [x, *rest], call.attrs, call.ty_args)
    )


def _over_codes(
    rewriter: Rewriter, value: Codes | Stored, move: Callable[[relax.Expr], relax.Expr]
) -> Codes | Stored:
    """The value whose codes a move has made of the value's."""
    old = value if isinstance(value, Codes) else value.codes
    codes = Codes(rewriter.scope.emit(move(old.tensor)), old.dtype)
    return codes if isinstance(value, Codes) else Stored(codes, value.encoding)


def _padded(rewriter: Rewriter, _: relax.Var, call: relax.Call) -> Value | None:
    """Padding by a number that has a code."""
    value, attrs = rewriter.value(call.args[0]), call.attrs
    if not isinstance(value, Codes | Stored):
        return None
    mode, number = str(attrs.pad_mode), float(attrs.pad_value)
    if isinstance(value, Codes):
        code: int | None = int(number) + SHIFTS[value.dtype]
    else:
        code = value.encoding.code(number)
    if mode == "constant" and code is None:
        return None
    widths = list(ints(attrs.pad_width))
    return _over_codes(rewriter, value, lambda x: relax.op.nn.pad(x, widths, mode, code or 0))


def _resized(rewriter: Rewriter, var: relax.Var, call: relax.Call) -> Value | None:
    """The nearest pixel is a move; every other method computes."""
    return _moved(rewriter, var, call) if str(call.attrs.method) == "nearest_neighbor" else None


def _split(rewriter: Rewriter, _: relax.Var, call: relax.Call) -> Value | None:
    value = rewriter.value(call.args[0])
    if not isinstance(value, Codes | Stored):
        return None
    codes = value if isinstance(value, Codes) else value.codes
    again = relax.Call(call.op, [codes.tensor, *call.args[1:]], call.attrs, call.ty_args)
    whole = rewriter.scope.emit(again)
    items = (relax.TupleGetItem(whole, place) for place in range(len(call.ty.fields)))
    parts = [Codes(rewriter.scope.emit(item), codes.dtype) for item in items]
    if isinstance(value, Codes):
        return Parts(tuple(parts))
    return Parts(tuple(Stored(part, value.encoding) for part in parts))


def _concatenated(rewriter: Rewriter, var: relax.Var, call: relax.Call) -> Value | None:
    """Codes side by side; parts of another encoding than the result's are coded anew."""
    fields = list(getattr(rewriter.scope.definition(call.args[0]), "fields", ()))
    values = [rewriter.value(field) for field in fields]
    axis = call.attrs.axis
    if axis is None or not values:
        return None
    types = {value.dtype if isinstance(value, Codes) else None for value in values}
    if None not in types and len(types) == 1:
        tensors = [value.tensor for value in values if isinstance(value, Codes)]
        joined = rewriter.scope.emit(relax.op.concat(tensors, int(axis)))
        return Codes(joined, str(types.pop()))
    found = {value.encoding if isinstance(value, Stored) else None for value in values}
    encoding = rewriter.readers.wanted(var) or (found.pop() if len(found) == 1 else None)
    if encoding is None or not any(isinstance(value, Stored | Sum) for value in values):
        return None
    tensors = [rewriter.coded(field, encoding).tensor for field in fields]
    joined = rewriter.scope.emit(relax.op.concat(tensors, int(axis)))
    return Stored(Codes(joined, "uint8"), encoding)


def _added(rewriter: Rewriter, _: relax.Var, call: relax.Call) -> Value | None:
    left, right = call.args
    if _constant(rewriter, left) is not None:
        left, right = right, left
    if not _is_deferred(rewriter, left) and not _is_deferred(rewriter, right):
        return None
    number = _constant(rewriter, right)
    if number is not None:
        return _plus_constant(rewriter, call, left, right, number)
    both = [rewriter.as_sum(left), rewriter.as_sum(right)]
    # One of them alone: the floats of the other would be stored, four times as many bytes.
    for place, operand in enumerate((left, right)):
        whole = rewriter.whole_sum(operand)
        if whole is not None:
            both[place] = whole
            break
    return both[0].plus(both[1])


def _plus_constant(
    rewriter: Rewriter, call: relax.Call, tensor: relax.Expr, constant: relax.Expr, number: Array
) -> Value | None:
    if not _keeps_shape(number, tensor, call):
        return None
    total = rewriter.as_sum(tensor)
    coded = rewriter.value(constant)
    if isinstance(coded, CodedConstant):
        scale = _without_leading(coded.scale)
        exact = total.plus_bias(_without_leading(coded.differences), scale)
        if exact is not None:
            return exact
    return total.plus_constant(number)


def _multiplied(rewriter: Rewriter, _: relax.Var, call: relax.Call) -> Value | None:
    left, right = call.args
    if _constant(rewriter, left) is not None:
        left, right = right, left
    number = _constant(rewriter, right)
    if number is None or not _is_deferred(rewriter, left) or not _keeps_shape(number, left, call):
        return None
    return rewriter.as_sum(left).times(number)


def _bounded(bounds: Callable[[relax.Call], tuple[float, float] | None]) -> Rule:
    def rule(rewriter: Rewriter, _: relax.Var, call: relax.Call) -> Value | None:
        found = bounds(call)
        if found is None or not _is_deferred(rewriter, call.args[0]) or not found[0] <= found[1]:
            return None
        return rewriter.as_sum(call.args[0]).clipped(*found)

    return rule


def _clip_bounds(call: relax.Call) -> tuple[float, float] | None:
    found = [getattr(bound, "value", None) for bound in call.args[1:]]
    known = all(isinstance(bound, int | float) for bound in found)
    return (float(found[0]), float(found[1])) if known else None


def _one_bound(is_lower: bool) -> Callable[[relax.Call], tuple[float, float] | None]:
    def bounds(call: relax.Call) -> tuple[float, float] | None:
        array = array_of(call.args[1])
        if array is None or array.size != 1:
            return None
        return (float(array.item()), math.inf) if is_lower else (-math.inf, float(array.item()))

    return bounds


def _mean(rewriter: Rewriter, _: relax.Var, call: relax.Call) -> Value | None:
    """A global pool: the sum of the codes, in int32."""
    value, shape = rewriter.value(call.args[0]), static_shape(call.args[0])
    if not isinstance(value, Stored) or shape is None or len(shape) != 4:
        return None
    if call.attrs.axis is None or tuple(sorted(a % 4 for a in ints(call.attrs.axis))) != _IMAGE:
        return None
    pixels = shape[2] * shape[3]
    if pixels * MAX_CODE > _INT32_MAX:
        return None
    wide = rewriter.scope.emit(relax.op.astype(value.codes.tensor, "int32"))
    total = rewriter.scope.emit(relax.op.sum(wide, list(_IMAGE), bool(call.attrs.keepdims)))
    scale = np.float32(value.encoding.scale) / np.float32(pixels)
    return Sum((Term(total, np.asarray(scale), np.asarray(-value.encoding.zero * pixels)),))


def _average_pool(rewriter: Rewriter, _: relax.Var, call: relax.Call) -> Value | None:
    """The average of the codes; the scale and the zero point come behind it."""
    value, attrs = rewriter.value(call.args[0]), call.attrs
    if not isinstance(value, Stored):
        return None
    if bool(attrs.count_include_pad) and any(ints(attrs.padding)) and value.encoding.zero:
        return None
    wide = rewriter.scope.emit(relax.op.astype(value.codes.tensor, "float32"))
    pooled = rewriter.scope.emit(relax.Call(call.op, [wide], attrs, call.ty_args))
    (term,) = value.as_sum().terms
    return Sum((Term(pooled, term.scale, term.shift),))


def _is_deferred(rewriter: Rewriter, expr: relax.Expr) -> bool:
    return isinstance(rewriter.value(expr), Sum | Stored)


def _constant(rewriter: Rewriter, expr: relax.Expr) -> Array | None:
    """The float32 values of a constant, dequantised or not, without leading axes of one element."""
    value = rewriter.value(expr)
    if isinstance(value, CodedConstant):
        return _without_leading(array_of(value.real()))
    if not isinstance(expr, GenericConst) or dtype_of(expr) != "float32":
        return None
    return _without_leading(array_of(expr))


def _without_leading(array: Array) -> Array:
    shape = list(array.shape)
    while shape and shape[0] == 1:
        shape.pop(0)
    return array.reshape(shape)


def _keeps_shape(number: Array, tensor: relax.Expr, call: relax.Call) -> bool:
    """Whether a constant varies along one axis at most, and broadcasts over the tensor."""
    if sum(extent > 1 for extent in number.shape) > 1:
        return False
    shape = static_shape(tensor)
    return shape is not None and shape == static_shape(call)


# By the operator's name.
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(MOVES, _moved),
        "relax.add": _added,
        "relax.clip": _bounded(_clip_bounds),
        "relax.concat": _concatenated,
        "relax.image.resize2d": _resized,
        "relax.matmul": lambda rewriter, _, call: matmul(rewriter, call),
        "relax.maximum": _bounded(_one_bound(is_lower=True)),
        "relax.mean": _mean,
        "relax.minimum": _bounded(_one_bound(is_lower=False)),
        "relax.multiply": _multiplied,
        "relax.nn.avg_pool2d": _average_pool,
        "relax.nn.conv2d": lambda rewriter, _, call: conv2d(rewriter, call),
        "relax.nn.pad": _padded,
        "relax.nn.relu": _bounded(lambda _: (0.0, math.inf)),
        "relax.nn.relu6": _bounded(lambda _: (0.0, 6.0)),
        "relax.split": _split,
    }
)
