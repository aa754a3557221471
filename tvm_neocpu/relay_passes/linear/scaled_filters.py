"""Convolutions whose weight is a constant, scaled along its channels by computed factors.

Networks that a style modulates (StyleGAN 2, section 3 of its paper; GFPGAN) scale the weights of
each layer, not its data, and divide them by their norm::

    w = W * s[i]          d[o] = 1 / sqrt(sum over i and taps of w ** 2)
    y = conv2d(x, w * d[o])

A convolution is linear, so that its weight may stay a constant, which templates pack and Winograd
transforms while compiling::

    y = conv2d(x * s[i], W) * d[o]
    sum over i and taps of w ** 2  =  matmul(s ** 2, V)    with V[i, o] = sum over taps of W ** 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.core.types import FOLDED
from tvm_neocpu.relay_passes.ir.constants import Array, array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values

# The axes of outputs and inputs in a weight, and the layout that says so.
_CONVS = {"relax.nn.conv2d": (0, 1, "OIHW"), "relax.nn.conv2d_transpose": (1, 0, "IOHW")}


@dataclass(frozen=True)
class ScaledFilters:
    """Factors of a weight's channels become factors of what is read and of what is made.

    A sum of the squares of such a weight becomes a product with a constant matrix.

    Needs: constants are folded. Convolutions with groups stay: so are those written whose images
    have weights of their own.
    Leaves: convolutions of constant weights, and ``multiply`` calls beside them.
    """

    name: ClassVar[str] = "scaled-filters"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


@dataclass(frozen=True)
class _Scaled:
    """A constant times factors: for an axis, vectors as long as it, or of one element."""

    array: Array
    factors: Mapping[int, tuple[relax.Expr, ...]] = field(default_factory=dict)

    def times(self, axis: int, factor: relax.Expr) -> _Scaled:
        return _Scaled(self.array, {**self.factors, axis: (*self.factors.get(axis, ()), factor)})

    def moved(self, array: Array, places: Mapping[int, int]) -> _Scaled:
        """The same elements as another array, whose axis ``places[k]`` was axis k.

        An axis without a place had one element, and so have its factors: they fit any axis.
        """
        found: dict[int, tuple[relax.Expr, ...]] = {}
        for axis, factors in self.factors.items():
            place = places.get(axis, 0)
            found[place] = (*found.get(place, ()), *factors)
        return _Scaled(array, found)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    name = op_name(value)
    if name in _CONVS:
        return _conv(scope, value)
    return _sum_of_squares(scope, value) if name == "relax.sum" else None


def _conv(scope: Scope, call: relax.Call) -> relax.Expr | None:
    made, read, layout = _CONVS[op_name(call)]
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    types = {dtype_of(each) for each in (*call.args, call)}
    if layouts != ("NCHW", layout, "NCHW") or int(attrs.groups) != 1:
        return None
    if len(types) > 1 or not types <= {*FOLDED}:
        return None
    scaled = _scaled(scope, call.args[1])
    if scaled is None or not scaled.factors or not scaled.factors.keys() <= {made, read}:
        return None
    data = call.args[0]
    for factor in scaled.factors.get(read, ()):
        data = scope.emit(relax.op.multiply(data, _along_channels(scope, factor)))
    weight = constant_of(scaled.array)
    result: relax.Expr = relax.Call(call.op, [data, weight], attrs)
    for factor in scaled.factors.get(made, ()):
        result = relax.op.multiply(scope.emit(result), _along_channels(scope, factor))
    return result


def _along_channels(scope: Scope, factor: relax.Expr) -> relax.Expr:
    return scope.emit(relax.op.reshape(factor, (1, -1, 1, 1)))


def _sum_of_squares(scope: Scope, call: relax.Call) -> relax.Expr | None:
    """``None`` unless one factor lies along the axes that are summed, and no other anywhere."""
    scaled, out = _scaled(scope, _squared(scope, call.args[0])), static_shape(call)
    if scaled is None or out is None or len(scaled.factors) != 1 or call.attrs.axis is None:
        return None
    if dtype_of(call) not in FOLDED:
        return None
    rank = scaled.array.ndim
    axes = {int(axis) % rank for axis in call.attrs.axis}
    ((inner, factors),) = scaled.factors.items()
    if inner not in axes:
        return None
    squares = np.square(scaled.array.astype("float64")).sum(tuple(axes - {inner}), keepdims=True)
    matrix = np.moveaxis(squares, inner, 0).reshape(scaled.array.shape[inner], prod(out))
    # Factors are squared as large as their products with the weights are, and overflow with them.
    size = 2.0 ** round(np.log2(matrix.max(initial=0) or 1) / 2)
    row: relax.Expr = scope.combine(relax.op.multiply, list(factors))
    row = scope.emit(relax.op.multiply(row, relax.const(size, dtype_of(call))))
    row = scope.emit(relax.op.multiply(row, row))
    if static_shape(row) != matrix.shape[:1]:
        row = scope.emit(relax.op.broadcast_to(row, matrix.shape[:1]))
    row = scope.emit(relax.op.reshape(row, (1, matrix.shape[0])))
    constant = constant_of((matrix / size**2).astype(scaled.array.dtype))
    return relax.op.reshape(scope.emit(relax.op.matmul(row, constant)), out)


def _squared(scope: Scope, expr: relax.Expr) -> relax.Expr | None:
    """What ``t * t`` or ``t ** 2`` is the square of."""
    value = scope.definition(expr)
    if op_name(value) not in ("relax.multiply", "relax.power"):
        return None
    one, other = map(scope.resolve, value.args)
    if static_shape(one) != static_shape(value):
        return None  # an exponent of a higher rank adds axes
    if op_name(value) == "relax.multiply":
        return one if one.same_as(other) else None
    exponent = array_of(other)
    return one if exponent is not None and exponent.size == 1 and exponent.item() == 2 else None


def _scaled(scope: Scope, expr: relax.Expr | None) -> _Scaled | None:
    """An expression as a constant times factors; ``None`` if it is nothing of the kind."""
    if expr is None or static_shape(expr) is None:
        return None
    value = scope.definition(expr)
    array = array_of(value)
    if array is not None:
        return _Scaled(array)
    rule = _RULES.get(op_name(value))
    return None if rule is None else rule(scope, value)


def _of_product(scope: Scope, call: relax.Call) -> _Scaled | None:
    one, other = call.args
    return _times(scope, call, one, other) or _times(scope, call, other, one)


def _of_quotient(scope: Scope, call: relax.Call) -> _Scaled | None:
    one = relax.const(1, dtype_of(call))
    inverse = relax.op.divide(one, call.args[1])
    return _times(scope, call, call.args[0], call.args[1], inverse)


def _times(
    scope: Scope,
    call: relax.Call,
    own: relax.Expr,
    factor: relax.Expr,
    value: relax.Expr | None = None,
) -> _Scaled | None:
    """A scaled constant times a vector along one of its axes; ``value`` is the vector's, or it."""
    extents = static_shape(factor)
    long = [axis for axis, extent in enumerate(extents or ()) if extent > 1]
    if extents is None or len(long) > 1 or len(extents) > len(static_shape(call) or ()):
        return None
    scaled = _scaled(scope, own)
    if scaled is None or scaled.array.shape != static_shape(call):
        return None
    axis = long[0] + scaled.array.ndim - len(extents) if long else 0
    vector = factor if value is None else scope.emit(value)
    return scaled.times(axis, scope.emit(relax.op.reshape(vector, (prod(extents),))))


def _of_reshape(scope: Scope, call: relax.Call) -> _Scaled | None:
    """Axes of one element come and go; others stay as they are."""
    scaled, shape = _scaled(scope, call.args[0]), static_shape(call)
    if scaled is None or shape is None:
        return None
    before, after = (
        [axis for axis, extent in enumerate(each) if extent > 1]
        for each in (scaled.array.shape, shape)
    )
    if [scaled.array.shape[axis] for axis in before] != [shape[axis] for axis in after]:
        return None
    return scaled.moved(scaled.array.reshape(shape), dict(zip(before, after, strict=True)))


def _of_permutation(scope: Scope, call: relax.Call) -> _Scaled | None:
    scaled = _scaled(scope, call.args[0])
    if scaled is None or call.attrs.axes is None:
        return None
    axes = [int(axis) for axis in call.attrs.axes]
    return scaled.moved(scaled.array.transpose(axes), {axis: at for at, axis in enumerate(axes)})


_RULES: Mapping[str, Callable[[Scope, relax.Call], _Scaled | None]] = {
    "relax.multiply": _of_product,
    "relax.divide": _of_quotient,
    "relax.reshape": _of_reshape,
    "relax.permute_dims": _of_permutation,
}
