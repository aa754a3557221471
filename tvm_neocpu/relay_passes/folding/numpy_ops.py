"""The operators that occur between constants, in NumPy.

An entry takes the call's attributes and its arguments: arrays, tuples of arrays, shapes as tuples
of integers, and scalars. It returns an array, a tuple of arrays, or ``None`` to decline. A result
may be a view, because nothing writes to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_neocpu.relay_passes.ir.constants import Array

Attrs = Any
Evaluate = Callable[..., Array | tuple[Array, ...] | None]


def elementwise(function: Callable[..., Array]) -> Evaluate:
    """An entry of a function of arrays, whatever the attributes."""
    return lambda _attrs, *args: function(*args)


def _of_floats(function: Callable[..., Array]) -> Evaluate:
    """Decline integers, whose division, powers and means differ between NumPy and TVM."""

    def evaluate(_attrs: Attrs, *args: Array) -> Array | None:
        if not all(np.issubdtype(arg.dtype, np.floating) for arg in args):
            return None
        return function(*args)

    return evaluate


def _reduction(function: Callable[..., Array]) -> Evaluate:
    def evaluate(attrs: Attrs, x: Array) -> Array | None:
        if not np.issubdtype(x.dtype, np.floating):
            return None
        return function(x, axis=_axes(attrs.axis), keepdims=bool(attrs.keepdims))

    return evaluate


def _axes(axis: Any) -> tuple[int, ...] | None:
    return None if axis is None else tuple(int(a) for a in axis)


def _permute_dims(attrs: Attrs, x: Array) -> Array:
    return np.transpose(x, _axes(attrs.axes))


def _expand_dims(attrs: Attrs, x: Array) -> Array:
    return np.expand_dims(x, _axes(attrs.axis) or ())


def _squeeze(attrs: Attrs, x: Array) -> Array:
    return np.squeeze(x, _axes(attrs.axis))


def _split(attrs: Attrs, x: Array) -> tuple[Array, ...]:
    sections = attrs.indices_or_sections
    if isinstance(sections, int) or hasattr(sections, "value"):
        return tuple(np.array_split(x, int(sections), axis=int(attrs.axis)))
    return tuple(np.split(x, [int(index) for index in sections], axis=int(attrs.axis)))


def _strided_slice(
    _attrs: Attrs,
    x: Array,
    axes: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
) -> Array | None:
    """Decline a negative bound or stride, which has another meaning in NumPy than in TVM."""
    strides = strides or (1,) * len(axes)
    if min((*begin, *end, *strides), default=0) < 0:
        return None
    window = [slice(None)] * x.ndim
    for axis, start, stop, stride in zip(axes, begin, end, strides, strict=True):
        window[axis] = slice(start, stop, stride)
    return x[tuple(window)]


def _full(attrs: Attrs, shape: tuple[int, ...], value: Array) -> Array:
    return np.broadcast_to(value.astype(str(attrs.dtype or value.dtype)), shape)


def _batch_norm(
    attrs: Attrs, x: Array, scale: Array, bias: Array, mean: Array, variance: Array
) -> tuple[Array, ...] | None:
    """Of a weight: weight standardisation is one, whose statistics are the weight's own."""
    if x.dtype != np.float32 or attrs.training:
        return None
    shape = [1] * x.ndim
    shape[int(attrs.axis)] = -1
    deviation = np.sqrt(variance + np.float32(attrs.epsilon)).reshape(shape)
    normal = (x - mean.reshape(shape)) / deviation
    normal = normal * scale.reshape(shape) if attrs.scale else normal
    return normal + bias.reshape(shape) if attrs.center else normal, mean, variance


def _pad(attrs: Attrs, x: Array) -> Array | None:
    widths = [int(width) for width in attrs.pad_width]
    if str(attrs.pad_mode) != "constant" or min(widths, default=0) < 0:
        return None
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    return np.pad(x, pairs, constant_values=x.dtype.type(attrs.pad_value))


def _take(attrs: Attrs, x: Array, places: Array) -> Array | None:
    """Decline a place outside, of which Relax has a choice of meanings."""
    axis = None if attrs.axis is None else int(attrs.axis)
    extent = x.size if axis is None else x.shape[axis]
    if places.size and not 0 <= places.min() <= places.max() < extent:
        return None
    return np.take(x, places, axis)


def _softmax(attrs: Attrs, x: Array) -> Array:
    axis = int(attrs.axis)
    exponentials = np.exp(x - x.max(axis, keepdims=True))
    return exponentials / exponentials.sum(axis, keepdims=True)


def _filled_with(value: int) -> Evaluate:
    return lambda attrs, shape: _full(attrs, shape, np.asarray(value))


NUMPY_OPS: dict[str, Evaluate] = {
    "relax.abs": elementwise(np.abs),
    "relax.add": elementwise(np.add),
    "relax.astype": lambda attrs, x: x.astype(str(attrs.dtype), copy=False),
    "relax.broadcast_to": elementwise(np.broadcast_to),
    "relax.concat": lambda attrs, parts: np.concatenate(parts, axis=int(attrs.axis or 0)),
    "relax.divide": _of_floats(np.divide),
    "relax.exp": _of_floats(np.exp),
    "relax.expand_dims": _expand_dims,
    "relax.full": _full,
    "relax.isnan": elementwise(np.isnan),
    "relax.log": _of_floats(np.log),
    "relax.matmul": _of_floats(np.matmul),
    "relax.max": _reduction(np.max),
    "relax.maximum": elementwise(np.maximum),
    "relax.mean": _reduction(np.mean),
    "relax.min": _reduction(np.min),
    "relax.minimum": elementwise(np.minimum),
    "relax.multiply": elementwise(np.multiply),
    "relax.negative": elementwise(np.negative),
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.pad": _pad,
    "relax.nn.relu": elementwise(lambda x: np.maximum(x, x.dtype.type(0))),
    "relax.nn.softmax": _softmax,
    "relax.ones": _filled_with(1),
    "relax.permute_dims": _permute_dims,
    "relax.power": _of_floats(np.power),
    "relax.reshape": elementwise(np.reshape),
    "relax.rsqrt": _of_floats(lambda x: np.reciprocal(np.sqrt(x))),
    "relax.sigmoid": _of_floats(lambda x: np.reciprocal(1 + np.exp(-x))),
    "relax.split": _split,
    "relax.sqrt": _of_floats(np.sqrt),
    "relax.squeeze": _squeeze,
    "relax.stack": lambda attrs, parts: np.stack(parts, axis=int(attrs.axis or 0)),
    "relax.strided_slice": _strided_slice,
    "relax.subtract": elementwise(np.subtract),
    "relax.sum": _reduction(np.sum),
    "relax.take": _take,
    "relax.tanh": _of_floats(np.tanh),
    "relax.tile": lambda attrs, x: np.tile(x, [int(count) for count in attrs.repeats]),
    "relax.where": elementwise(np.where),
    "relax.zeros": _filled_with(0),
}

__all__ = ["NUMPY_OPS", "Attrs", "Evaluate", "elementwise"]
