"""The ten Reduce operators: axes as attribute or constant input, none of them, or empty extents."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of

Reduce = Callable[[Node, relax.Expr, list[int], bool], relax.Expr]


def reduction(node: Node) -> relax.Expr:
    """``(d0, ..)`` reduced over the axes, all by default; ``noop_with_empty_axes`` 1 over none.

    Reduced over no axis, elements are still squared, made positive and the like, as ONNX Runtime
    does. What needs roots or logarithms of integers is computed in float64 and truncated.
    """
    axes = _axes(node)
    keep = bool(node.attributes["keepdims"])
    shape = static_shape_of(node.data.ty)
    if shape is not None and 0 in shape and math.prod(shape) == 0:
        return _of_nothing(node, shape, axes, keep)
    return _REDUCTIONS[node.op_type](node, node.data, axes, keep)


def _axes(node: Node) -> list[int]:
    given = node.attributes.get("axes")
    if given is None:
        values = node.constant(1)
        given = None if values is None else [int(value) for value in values.ravel()]
    if not given:
        return [] if node.attributes.get("noop_with_empty_axes", 0) else list(range(node.rank))
    if any(not -node.rank <= axis < node.rank for axis in given):
        raise UnsupportedOperatorError(f"axes {list(given)} of data of rank {node.rank}")
    return sorted({axis % node.rank for axis in given})


def _plain(op: Callable[..., relax.Expr]) -> Reduce:
    """A reduction of Relax; booleans as small integers."""

    def reduce(node: Node, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
        if not axes:
            return data
        if str(data.ty.dtype) != "bool":
            return op(data, axes, keepdims=keep)
        small = node.emit(relax.op.astype(data, "uint8"))
        return relax.op.astype(node.emit(op(small, axes, keepdims=keep)), "bool")

    return reduce


_sum = _plain(relax.op.sum)


def _mean(node: Node, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    if node.dtype.startswith("float") or not axes:
        return _plain(relax.op.mean)(node, data, axes, keep)
    # The sum of two numbers may be too large for their type.
    wide = data if node.dtype == "int64" else node.emit(relax.op.astype(data, "int64"))
    total = node.emit(_sum(node, wide, axes, keep))
    count = math.prod(node.extent(axis) for axis in axes)
    # Relax divides integers towards zero, as C does.
    mean = relax.op.divide(total, relax.const(count, "int64"))
    return mean if node.dtype == "int64" else relax.op.astype(node.emit(mean), node.dtype)


def _sum_square(node: Node, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    return _sum(node, node.emit(relax.op.multiply(data, data)), axes, keep)


def _l1(node: Node, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    return _sum(node, node.emit(relax.op.abs(data)), axes, keep)


def _l2(node: Node, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    return relax.op.sqrt(node.emit(_sum_square(node, data, axes, keep)))


def _log_sum(node: Node, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    return relax.op.log(node.emit(_sum(node, data, axes, keep)))


def _log_sum_exp(node: Node, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    """``log(sum(exp(x - m))) + m``, where ``m`` is the largest element or 0."""
    dtype = str(data.ty.dtype)
    largest = node.emit(_plain(relax.op.max)(node, data, axes, True))
    is_finite = node.emit(relax.op.isfinite(largest))
    shift = node.emit(relax.op.where(is_finite, largest, relax.const(0, dtype)))
    powers = node.emit(relax.op.exp(node.emit(relax.op.subtract(data, shift))))
    logarithm = node.emit(relax.op.log(node.emit(_sum(node, powers, axes, True))))
    total = relax.op.add(logarithm, shift)
    return total if keep or not axes else relax.op.squeeze(node.emit(total), axes)


def _in_floats(reduce: Reduce) -> Reduce:
    """The reduction of integers in float64; float16 in float32."""

    def wide(node: Node, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
        if node.dtype in ("float32", "float64"):
            return reduce(node, data, axes, keep)
        width = "float32" if node.dtype == "float16" else "float64"
        result = reduce(node, node.emit(relax.op.astype(data, width)), axes, keep)
        return relax.op.astype(node.emit(result), node.dtype)

    return wide


def _of_nothing(node: Node, shape: tuple[int, ...], axes: list[int], keep: bool) -> relax.Expr:
    """The neutral elements where the data has no element."""
    dtype = node.dtype
    result = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    if not keep:
        result = [extent for axis, extent in enumerate(result) if axis not in axes]
    value = _NEUTRAL[node.op_type](dtype)
    return relax.const(np.full(result, value).astype(dtype), dtype)


def _smallest(dtype: str) -> float | int:
    if dtype.startswith("float"):
        return -math.inf
    return 0 if dtype == "bool" else int(np.iinfo(dtype).min)


def _largest(dtype: str) -> float | int:
    if dtype.startswith("float"):
        return math.inf
    return 1 if dtype == "bool" else int(np.iinfo(dtype).max)


_REDUCTIONS: Mapping[str, Reduce] = MappingProxyType(
    {
        "ReduceL1": _l1,
        "ReduceL2": _in_floats(_l2),
        "ReduceLogSum": _in_floats(_log_sum),
        "ReduceLogSumExp": _in_floats(_log_sum_exp),
        "ReduceMax": _plain(relax.op.max),
        "ReduceMean": _mean,
        "ReduceMin": _plain(relax.op.min),
        "ReduceProd": _plain(relax.op.prod),
        "ReduceSum": _sum,
        "ReduceSumSquare": _sum_square,
    }
)
_NEUTRAL: Mapping[str, Callable[[str], float | int]] = MappingProxyType(
    {
        "ReduceL1": lambda dtype: 0,
        "ReduceL2": lambda dtype: 0,
        "ReduceLogSum": _smallest,
        "ReduceLogSumExp": _smallest,
        "ReduceMax": _smallest,
        "ReduceMean": lambda dtype: math.nan if dtype.startswith("float") else 0,
        "ReduceMin": _largest,
        "ReduceProd": lambda dtype: 1,
        "ReduceSum": lambda dtype: 0,
        "ReduceSumSquare": lambda dtype: 0,
    }
)
