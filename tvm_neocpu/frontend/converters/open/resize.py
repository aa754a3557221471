"""Resize and Upsample by sizes or scales that a run computes, or of extents that it knows.

Which elements an output element blends, and how much of each, stands in tables as in
`converters.resize`; here a run makes them, one element of an axis at a time.

    index(i, t) = clip(floor(at(i)) + t)      weight(i, t) = kernel(at(i) - floor(at(i)) - t)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.compute.weighted_gather import gather_by
from tvm_neocpu.frontend.converters.geometry.interpolation import CROP, TIE, Method
from tvm_neocpu.frontend.converters.known import Extent, as_expr
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.open.at_run_time import names_of, read
from tvm_neocpu.frontend.converters.sampling.resize import check_method, check_type, method_of
from tvm_neocpu.frontend.converters.sampling.resize import resize as resize_known

Expr = tirx.Expr
# ONNX Runtime computes the coordinates of nearest elements in float32.
_EXACT = "float64"
_RUNTIME = "float32"


@dataclass(frozen=True)
class _Axis:
    """An axis and what it becomes; ``scale`` is float64, of no axes.

    It is a tensor, for TVM's simplifier makes integers of quotients of extents.
    """

    number: int
    length: Extent
    resized: Extent
    scale: relax.Expr


def resize(node: Node) -> relax.Expr:
    """Resize and Upsample of every opset; all that import knows is left to `converters.resize`."""
    by_scales = 1 if node.opset < 11 or node.op_type == "Upsample" else 2
    places = range(1, len(node.inputs))
    own = extents_of(node.data)
    given = all(node.input(place) is None or node.known(place) is not None for place in places)
    if given and all(isinstance(own[number], int) for number in _changed(node, own, by_scales)):
        return resize_known(node)
    method = method_of(node)
    check_method(method)
    check_type(node, method)
    if method.coordinates == CROP:
        raise UnsupportedOperatorError(
            f"{CROP} needs a roi, extents and sizes that are known at import"
        )
    if method.antialias:
        raise UnsupportedOperatorError("antialias needs extents and sizes known at import")
    axes = _by_scales(node, own, by_scales) if _has(node, by_scales) else _by_sizes(node, own)
    value = node.data
    for axis in axes:
        value = gather_by(node, value, axis.number, *_tables(node, method, axis))
    return value


def _has(node: Node, place: int) -> bool:
    value = node.input(place)
    known = node.known(place)
    return value is not None and (known is None or known.size > 0)


def _changed(node: Node, own: Sequence[Extent], by_scales: int) -> list[int]:
    """The axes that change, by scales or sizes that are known."""
    listed = _listed(node)
    if _has(node, by_scales):
        scales = node.known(by_scales)
        assert scales is not None
        return [axis for axis, scale in zip(listed, scales, strict=False) if scale != 1]
    sizes = node.known(3)
    if sizes is None:
        return listed
    pairs = zip(listed, sizes.tolist(), strict=False)
    return [axis for axis, size in pairs if not node.extents.same(own[axis], size)]


def _listed(node: Node) -> list[int]:
    axes = node.attributes.get("axes")
    return [int(axis) % node.rank for axis in axes] if axes is not None else [*range(node.rank)]


def _by_sizes(node: Node, own: Sequence[Extent]) -> list[_Axis]:
    """The axes that sizes change. Raises UnsupportedOperatorError for a policy of ratios."""
    if node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise UnsupportedOperatorError("keep_aspect_ratio_policy needs sizes known at import")
    sizes, listed = read(node, 3), _listed(node)
    if sizes is None or sizes.size != len(listed):
        raise UnsupportedOperatorError(f"it needs sizes of {len(listed)} axes, or scales")
    named = names_of(node, list(sizes), [f"resized_{number}" for number in listed])
    pairs = zip(listed, named, strict=True)
    return [
        _Axis(number, own[number], size, _ratio(node, size, own[number]))
        for number, size in pairs
        if not node.extents.same(own[number], size)
    ]


def _by_scales(node: Node, own: Sequence[Extent], place: int) -> list[_Axis]:
    """The axes that scales change: ``floor(length * scale)`` long, in float32."""
    listed, known = _listed(node), node.known(place)
    if known is not None:
        pairs = [(n, float(np.float32(s))) for n, s in zip(listed, known, strict=True) if s != 1]
        extents = [
            tirx.Cast("int64", tirx.floor(_float(own[n], _RUNTIME) * tirx.const(s, _RUNTIME)))
            for n, s in pairs
        ]
        named = names_of(node, extents, [f"resized_{n}" for n, _ in pairs])
        rows = zip(pairs, named, strict=True)
        return [_Axis(n, own[n], size, relax.const(s, _EXACT)) for (n, s), size in rows]
    scales = node.required(place)
    shape = extents_of(scales)
    if shape != [len(listed)]:
        raise UnsupportedOperatorError(f"it needs scales of {len(listed)} axes")
    lengths = [as_expr(own[number]) for number in listed]
    found = node.builder.emit_te(_scaled, scales, lengths, primfunc_name_hint="resized_extents")
    named = [node.extents.new(f"resized_{number}") for number in listed]
    node.builder.match_cast(node.emit(relax.op.tensor_to_shape(found)), relax.ShapeType(named))
    return [
        _Axis(number, own[number], size, node.builder.emit_te(_element, scales, place))
        for place, (number, size) in enumerate(zip(listed, named, strict=True))
    ]


def _element(scales: te.Tensor, place: int) -> te.Tensor:
    return te.compute((), lambda: tirx.Cast(_EXACT, scales[place]), name="scale")


def _ratio(node: Node, resized: Extent, length: Extent) -> relax.Expr:
    def compute(resized: Expr, length: Expr) -> te.Tensor:
        return te.compute(
            (), lambda: _float(resized, _EXACT) / _float(length, _EXACT), name="scale"
        )

    return node.builder.emit_te(compute, as_expr(resized), as_expr(length))


def _scaled(scales: te.Tensor, lengths: Sequence[Expr]) -> te.Tensor:
    def element(at: tirx.Var) -> Expr:
        length = lengths[0]
        for place, other in enumerate(lengths[1:], 1):
            length = tirx.Select(at == place, other, length)
        return tirx.Cast("int64", tirx.floor(_float(length, _RUNTIME) * scales[at]))

    return te.compute((len(lengths),), element, name="resized_extents")


def _tables(node: Node, method: Method, axis: _Axis) -> tuple[relax.Expr, relax.Expr | None]:
    """``(resized, taps)``: which elements of the axis, and how much of each; no weight for one."""
    args = as_expr(axis.length), as_expr(axis.resized), axis.scale
    emit = node.builder.emit_te
    if method.mode == "nearest":
        return emit(partial(_nearest, method), *args, primfunc_name_hint="nearest_table"), None
    dtype = "float64" if node.dtype == "float64" else "float32"
    index = emit(partial(_index, method), *args, primfunc_name_hint="index_table")
    return index, emit(partial(_weight, method, dtype), *args, primfunc_name_hint="weight_table")


def _nearest(method: Method, length: Expr, resized: Expr, ratio: te.Tensor) -> te.Tensor:
    coordinate, rounding = _COORDINATES[method.coordinates], method.rounding
    scale = ratio()

    def element(i: tirx.Var, _: tirx.Var) -> Expr:
        at = coordinate(i, length, resized, tirx.Cast(_RUNTIME, scale), _RUNTIME)
        at = tirx.Cast(_EXACT, at)
        if rounding == "simple":
            found = tirx.Select(scale < tirx.const(1.0, _EXACT), tirx.ceil(at), tirx.floor(at))
        else:
            found = _ROUNDINGS[rounding](at)
        return _inside(tirx.Cast("int64", found), length)

    return te.compute((resized, 1), element, name="nearest_table")


def _index(method: Method, length: Expr, resized: Expr, ratio: te.Tensor) -> te.Tensor:
    coordinate, support = _COORDINATES[method.coordinates], _SUPPORT[method.mode]
    scale = ratio()

    def element(i: tirx.Var, tap: tirx.Var) -> Expr:
        at = coordinate(i, length, resized, scale, _EXACT)
        first = tirx.Cast("int64", tirx.floor(at)) - (support - 1)
        return _inside(first + tap, length)

    return te.compute((resized, 2 * support), element, name="index_table")


def _weight(method: Method, dtype: str, length: Expr, resized: Expr, ratio: te.Tensor) -> te.Tensor:
    coordinate, support = _COORDINATES[method.coordinates], _SUPPORT[method.mode]
    scale = ratio()

    def weight(i: tirx.Var, tap: Expr | int) -> Expr:
        at = coordinate(i, length, resized, scale, _EXACT)
        place = tirx.floor(at) + tirx.Cast(_EXACT, tap - (support - 1))
        found = _kernel(method, tirx.abs(place - at))
        if not method.exclude_outside:
            return found
        zero = tirx.const(0.0, _EXACT)
        outside = tirx.any(place < zero, place > _float(length - 1, _EXACT))
        return tirx.Select(outside, zero, found)

    def element(i: tirx.Var, tap: tirx.Var) -> Expr:
        found = weight(i, tap)
        if method.exclude_outside:
            total = weight(i, 0)
            for other in range(1, 2 * support):
                total = total + weight(i, other)
            is_none = tirx.EQ(total, tirx.const(0.0, _EXACT))
            found = found / tirx.Select(is_none, tirx.const(1.0, _EXACT), total)
        return tirx.Cast(dtype, found)

    return te.compute((resized, 2 * support), element, name="weight_table")


def _kernel(method: Method, x: Expr) -> Expr:
    """The weight of an element at this distance."""
    one = tirx.const(1.0, _EXACT)
    if method.mode == "linear":
        return tirx.max(one - x, tirx.const(0.0, _EXACT))
    a = tirx.const(method.cubic_a, _EXACT)
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
    zero = tirx.const(0.0, _EXACT)
    return tirx.Select(x <= 1.0, near, tirx.Select(x < 2.0, far, zero))


def _inside(index: Expr, length: Expr) -> Expr:
    last = tirx.Cast("int64", length) - 1
    return tirx.Cast("int32", tirx.max(tirx.min(index, last), tirx.const(0, "int64")))


def _float(value: Extent, dtype: str) -> Expr:
    return tirx.Cast(dtype, as_expr(value))


def _half_pixel(i: Expr, length: Expr, resized: Expr, scale: Expr, dtype: str) -> Expr:
    half = tirx.const(0.5, dtype)
    return (_float(i, dtype) + half) / scale - half


def _pytorch_half_pixel(i: Expr, length: Expr, resized: Expr, scale: Expr, dtype: str) -> Expr:
    found = _half_pixel(i, length, resized, scale, dtype)
    return tirx.Select(resized > 1, found, tirx.const(0.0, dtype))


def _half_pixel_symmetric(i: Expr, length: Expr, resized: Expr, scale: Expr, dtype: str) -> Expr:
    one, whole = tirx.const(1.0, dtype), _float(length, dtype)
    share = _float(resized, dtype) / (scale * whole)
    return whole / 2.0 * (one - share) + _half_pixel(i, length, resized, scale, dtype)


def _align_corners(i: Expr, length: Expr, resized: Expr, scale: Expr, dtype: str) -> Expr:
    steps = tirx.max(resized - 1, tirx.const(1, "int64"))
    return _float(i, dtype) * _float(length - 1, dtype) / _float(steps, dtype)


_COORDINATES: Mapping[str, Callable[[Expr, Expr, Expr, Expr, str], Expr]] = MappingProxyType(
    {
        "align_corners": _align_corners,
        "asymmetric": lambda i, length, resized, scale, dtype: _float(i, dtype) / scale,
        "half_pixel": _half_pixel,
        "half_pixel_symmetric": _half_pixel_symmetric,
        "pytorch_half_pixel": _pytorch_half_pixel,
        "tf_half_pixel_for_nn": lambda i, length, resized, scale, dtype: (
            (_float(i, dtype) + tirx.const(0.5, dtype)) / scale
        ),
    }
)
_SUPPORT: Mapping[str, int] = MappingProxyType({"linear": 1, "cubic": 2})


def _rounded(at: Expr, of_tie: Callable[[Expr], Expr]) -> Expr:
    whole = tirx.floor(at)
    is_tie = tirx.abs(at - whole - 0.5) <= tirx.const(TIE, _EXACT)
    return tirx.Select(is_tie, of_tie(at), tirx.floor(at + tirx.const(0.5, _EXACT)))


_ROUNDINGS: Mapping[str, Callable[[Expr], Expr]] = MappingProxyType(
    {
        "ceil": tirx.ceil,
        "floor": tirx.floor,
        "round_prefer_ceil": lambda at: _rounded(at, tirx.ceil),
        "round_prefer_floor": lambda at: _rounded(at, tirx.floor),
    }
)

__all__ = ["resize"]
