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
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions

# The axes of outputs and inputs in a weight, and the layout that says so.
_CONVS = {"relax.nn.conv2d": (0, 1, "OIHW"), "relax.nn.conv2d_transpose": (1, 0, "IOHW")}
# A weight has a style's factor, a norm's, and numbers; a longer chain of products is none.
_MOST_FACTORS = 16


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
        known: Known = {}
        return rewrite_regions(mod, lambda scope: _Region(scope, known).rewrite())


@dataclass(frozen=True)
class _Factor:
    """A tensor with one axis of several elements at most, or what is divided by it."""

    value: relax.Expr
    divides: bool = False

    def shaped(self, scope: Scope, shape: tuple[int, ...]) -> relax.Var:
        """The factor as a tensor of that shape."""
        value = self.value
        if self.divides:
            value = scope.emit(relax.op.divide(relax.const(1, dtype_of(value)), value))
        return scope.emit(relax.op.reshape(value, shape))


@dataclass(frozen=True)
class _Scaled:
    """A constant times factors: for an axis, those that are as long as it, or of one element."""

    array: Array
    factors: Mapping[int, tuple[_Factor, ...]] = field(default_factory=dict)

    def times(self, axis: int, factor: _Factor) -> _Scaled | None:
        """``None`` for too many factors."""
        own = self.factors.get(axis, ())
        if len(own) == _MOST_FACTORS:
            return None
        return _Scaled(self.array, {**self.factors, axis: (*own, factor)})

    def moved(self, array: Array, places: Mapping[int, int]) -> _Scaled:
        """The same elements as another array, whose axis ``places[k]`` was axis k.

        An axis without a place had one element, and so have its factors: they fit any axis.
        """
        found: dict[int, tuple[_Factor, ...]] = {}
        for axis, factors in self.factors.items():
            place = places.get(axis, 0)
            found[place] = (*found.get(place, ()), *factors)
        return _Scaled(array, found)


# What is known of variables: each follows from those that its value reads, which come before it.
Known = dict[relax.Var, _Scaled]


@dataclass(frozen=True)
class _Region:
    """One region; what is ``known`` is of all regions before it, too."""

    scope: Scope
    known: Known

    def rewrite(self) -> None:
        for binding in self.scope.region.bindings:
            value = binding.value
            name = op_name(value)
            if name in _RULES:
                scaled = _RULES[name](self, value)
                if scaled is not None:
                    self.known[binding.var] = scaled
            replacement = None
            if name in _CONVS:
                replacement = self._conv(value)
            elif name == "relax.sum":
                replacement = self._sum_of_squares(value)
            if replacement is None:
                self.scope.keep(binding, value)
            else:
                self.scope.bind(binding.var, replacement)

    def scaled(self, expr: relax.Expr) -> _Scaled | None:
        """An expression as a constant times factors; ``None`` if it is nothing of the kind."""
        expr = self.scope.resolve(expr)
        array = array_of(expr)
        if array is not None:
            return _Scaled(array)
        return self.known.get(expr) if isinstance(expr, relax.Var) else None

    def times(
        self, call: relax.Call, own: relax.Expr, factor: relax.Expr, divides: bool = False
    ) -> _Scaled | None:
        """``call`` as a scaled constant times a factor along one of its axes, or divided by it."""
        scaled, extents = self.scaled(own), static_shape(factor)
        if scaled is None or extents is None or scaled.array.shape != static_shape(call):
            return None
        long = [axis for axis, extent in enumerate(extents) if extent > 1]
        if len(long) > 1 or len(extents) > scaled.array.ndim:
            return None
        axis = long[0] + scaled.array.ndim - len(extents) if long else 0
        return scaled.times(axis, _Factor(factor, divides))

    def _conv(self, call: relax.Call) -> relax.Expr | None:
        made, read, layout = _CONVS[op_name(call)]
        attrs, emit = call.attrs, self.scope.emit
        layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
        types = {dtype_of(each) for each in (*call.args, call)}
        if layouts != ("NCHW", layout, "NCHW") or int(attrs.groups) != 1:
            return None
        if len(types) > 1 or not types <= {*FOLDED}:
            return None
        scaled = self.scaled(call.args[1])
        if scaled is None or not scaled.factors or not scaled.factors.keys() <= {made, read}:
            return None
        along, data = (1, -1, 1, 1), call.args[0]
        for factor in scaled.factors.get(read, ()):
            data = emit(relax.op.multiply(data, factor.shaped(self.scope, along)))
        result: relax.Expr = relax.Call(call.op, [data, constant_of(scaled.array)], attrs)
        for factor in scaled.factors.get(made, ()):
            result = relax.op.multiply(emit(result), factor.shaped(self.scope, along))
        return result

    def _sum_of_squares(self, call: relax.Call) -> relax.Expr | None:
        """``None`` unless one factor lies along the axes that are summed, and no other anywhere."""
        base, out = _squared(self.scope, call.args[0]), static_shape(call)
        scaled = None if base is None else self.scaled(base)
        if scaled is None or out is None or len(scaled.factors) != 1 or call.attrs.axis is None:
            return None
        axes = {int(axis) % scaled.array.ndim for axis in call.attrs.axis}
        ((inner, factors),) = scaled.factors.items()
        if inner not in axes or dtype_of(call) not in FOLDED:
            return None
        squares = np.square(scaled.array.astype("float64"))
        sums = squares.sum(tuple(axes - {inner}), keepdims=True)
        matrix = np.moveaxis(sums, inner, 0).reshape(scaled.array.shape[inner], prod(out))
        # Factors are squared as large as their products with the weights are: they overflow alike.
        size = 2.0 ** round(np.log2(matrix.max(initial=0) or 1) / 2)
        scope, wide = self.scope, (1, matrix.shape[0])
        row = scope.combine(relax.op.multiply, [each.shaped(scope, (1, -1)) for each in factors])
        row = scope.emit(relax.op.multiply(row, relax.const(size, dtype_of(call))))
        row = scope.emit(relax.op.multiply(row, row))
        if static_shape(row) != wide:
            row = scope.emit(relax.op.broadcast_to(row, wide))
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


def _of_product(region: _Region, call: relax.Call) -> _Scaled | None:
    one, other = call.args
    return region.times(call, one, other) or region.times(call, other, one)


def _of_quotient(region: _Region, call: relax.Call) -> _Scaled | None:
    return region.times(call, *call.args, divides=True)


def _of_reshape(region: _Region, call: relax.Call) -> _Scaled | None:
    """Axes of one element come and go; others stay as they are."""
    scaled, shape = region.scaled(call.args[0]), static_shape(call)
    if scaled is None or shape is None:
        return None
    before, after = (
        [axis for axis, extent in enumerate(each) if extent > 1]
        for each in (scaled.array.shape, shape)
    )
    if [scaled.array.shape[axis] for axis in before] != [shape[axis] for axis in after]:
        return None
    return scaled.moved(scaled.array.reshape(shape), dict(zip(before, after, strict=True)))


def _of_permutation(region: _Region, call: relax.Call) -> _Scaled | None:
    scaled = region.scaled(call.args[0])
    if scaled is None or call.attrs.axes is None:
        return None
    axes = [int(axis) for axis in call.attrs.axes]
    return scaled.moved(scaled.array.transpose(axes), {axis: at for at, axis in enumerate(axes)})


_RULES: Mapping[str, Callable[[_Region, relax.Call], _Scaled | None]] = {
    "relax.multiply": _of_product,
    "relax.divide": _of_quotient,
    "relax.reshape": _of_reshape,
    "relax.permute_dims": _of_permutation,
}
