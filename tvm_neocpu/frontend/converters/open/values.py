"""Integer tensors that are computed of extents, element by element.

NumPy computes them on arrays of expressions. What becomes a number is a constant of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from tvm import relax, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.known import Extents, Numbers, as_expr, numbers
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.open.at_run_time import tensor_of

_WHOLE = ("int32", "int64")
_MOST_ELEMENTS = 64


def of_known_values(node: Node) -> relax.Expr | None:
    """The node's result where it is computed of extents; ``None`` where it is not."""
    if node.op_type == "Shape":
        return _shape(node)
    compute = _OPERATORS.get(node.op_type)
    if compute is None or node.input(0) is None or not reads_extents(node):
        return None
    given = [_numbers(node, place) for place in range(len(node.inputs))]
    if any(value is None and node.input(place) is not None for place, value in enumerate(given)):
        return None
    dtype = _result_type(node)
    if dtype is None:
        return None
    found = compute(node, *given)
    if found is None:
        return None
    found = np.asarray(found, object)
    if found.size > _MOST_ELEMENTS:
        return None
    flat = numbers([node.extents.simple(value) for value in found.ravel()])
    return tensor_of(node, flat.reshape(found.shape), dtype)


def reads_extents(node: Node) -> bool:
    """Whether an input is an integer tensor that is computed of extents."""
    return any(node.extents.values(value) is not None for value in node.inputs)


def _shape(node: Node) -> relax.Expr:
    """``(d0, d1, ...)`` -> int64 ``(rank,)``, or the part from ``start`` to ``end`` of it."""
    part = slice(node.attributes.get("start", 0), node.attributes.get("end"))
    extents = extents_of(node.data)[part]
    for extent in extents:
        if isinstance(extent, tirx.Var):
            node.extents.adopt(extent)
    return tensor_of(node, numbers(extents), "int64")


def _numbers(node: Node, place: int) -> Numbers | None:
    value = node.input(place)
    if value is None or not isinstance(value.ty, relax.TensorType):
        return None
    found = node.extents.values(value)
    if found is not None:
        return found
    known = node.known(place)
    if known is None or known.size > _MOST_ELEMENTS or known.dtype.kind not in "iub":
        return None
    return numbers(known)


def _result_type(node: Node) -> str | None:
    if node.op_type == "Cast":
        dtype = str(helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    elif node.op_type in _COMPARISONS:
        dtype = "bool"
    elif node.op_type == "Where":
        dtype = str(node.required(1).ty.dtype)
    else:
        dtype = node.dtype
    return dtype if dtype in (*_WHOLE, "bool") else None


def _elementwise(function: Callable[..., Any]) -> Callable[..., Numbers]:
    """Two or more arrays, broadcast."""

    def compute(node: Node, *given: Numbers) -> Numbers:
        result = given[0]
        for other in given[1:]:
            one, two = np.broadcast_arrays(result, other)
            found = [function(node.extents, a, b) for a, b in zip(one.flat, two.flat, strict=True)]
            result = numbers(found).reshape(one.shape)
        return result

    return compute


def _both_int(one: Any, other: Any) -> bool:
    return isinstance(one, int) and isinstance(other, int)


def _smaller(_: Extents, one: Any, other: Any) -> Any:
    return min(one, other) if _both_int(one, other) else tirx.min(as_expr(one), as_expr(other))


def _larger(_: Extents, one: Any, other: Any) -> Any:
    return max(one, other) if _both_int(one, other) else tirx.max(as_expr(one), as_expr(other))


def _divided(known: Extents, one: Any, other: Any) -> Any:
    """Towards zero."""
    if _both_int(one, other) and other != 0:
        return int(abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1))
    return tirx.truncdiv(as_expr(one), as_expr(other))


def _comparison(node_type: str) -> Callable[..., Numbers | None]:
    """``None`` unless every comparison is decided."""
    build, python = _COMPARISONS[node_type]

    def compute(node: Node, one: Numbers, other: Numbers) -> Numbers | None:
        both = np.broadcast_arrays(one, other)
        pairs = zip(both[0].flat, both[1].flat, strict=True)
        found = [_decided(node.extents, build, python, a, b) for a, b in pairs]
        if None in found:
            return None
        return numbers(found).reshape(both[0].shape)

    return compute


def _decided(known: Extents, build: Any, python: Any, one: Any, other: Any) -> bool | None:
    if _both_int(one, other):
        return bool(python(one, other))
    condition = build(as_expr(one), as_expr(other))
    if known.proves(condition):
        return True
    return False if known.proves(tirx.Not(condition)) else None


_COMPARISONS: Mapping[str, tuple[Any, Any]] = MappingProxyType(
    {
        "Equal": (tirx.EQ, lambda a, b: a == b),
        "Less": (tirx.LT, lambda a, b: a < b),
        "LessOrEqual": (tirx.LE, lambda a, b: a <= b),
        "Greater": (tirx.GT, lambda a, b: a > b),
        "GreaterOrEqual": (tirx.GE, lambda a, b: a >= b),
    }
)


def _cast(node: Node, data: Numbers) -> Numbers | None:
    """``None`` for an expression as a truth value, which would have to become 0 or 1."""
    to_bool = node.attributes["to"] == TensorProto.BOOL
    if to_bool and not all(isinstance(value, int) for value in data.flat):
        return None
    return data


def _where(node: Node, condition: Numbers, one: Numbers, other: Numbers) -> Numbers:
    flags, one, other = np.broadcast_arrays(condition, one, other)
    chosen = [a if flag else b for flag, a, b in zip(flags.flat, one.flat, other.flat, strict=True)]
    return numbers(chosen).reshape(flags.shape)


def _gather(node: Node, data: Numbers, places: Numbers) -> Numbers | None:
    axis = int(node.attributes["axis"])
    if not all(isinstance(place, int) for place in places.flat):
        return None
    index = places.astype("int64")
    if (index >= data.shape[axis]).any() or (index < -data.shape[axis]).any():
        raise UnsupportedOperatorError(f"index outside an axis of {data.shape[axis]}")
    return np.asarray(np.take(data, index, axis), object)


def _slice(node: Node, data: Numbers, *rest: Numbers | None) -> Numbers | None:
    if node.opset < 10:
        names = [node.attributes.get(name) for name in ("starts", "ends", "axes")]
        rest = tuple(None if value is None else numbers(list(value)) for value in names)
    lists = [None if part is None else list(part.flat) for part in rest]
    if any(not isinstance(value, int) for part in lists if part for value in part):
        return None
    starts, ends = lists[0] or [], lists[1] or []
    axes = lists[2] if len(lists) > 2 and lists[2] else list(range(len(starts)))
    steps = lists[3] if len(lists) > 3 and lists[3] else [1] * len(starts)
    index: list[Any] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        first, last, by = slice(start, end, step).indices(data.shape[axis])
        index[axis] = slice(first, last if last >= 0 else None, by)
    return data[tuple(index)]


def _axes(node: Node, axes: Numbers | None) -> tuple[int, ...] | None:
    given = node.attributes.get("axes")
    if given is None and axes is not None:
        given = axes.astype("int64").ravel().tolist()
    return None if given is None else tuple(int(axis) for axis in given)


def _unsqueeze(node: Node, data: Numbers, axes: Numbers | None = None) -> Numbers:
    return np.expand_dims(data, _axes(node, axes) or ())


def _squeeze(node: Node, data: Numbers, axes: Numbers | None = None) -> Numbers:
    return np.squeeze(data, _axes(node, axes))


def _reshape(node: Node, data: Numbers, target: Numbers | None = None) -> Numbers | None:
    shape: Sequence[Any] = node.attributes.get("shape") or ()
    if target is not None:
        shape = list(target.flat)
    if not all(isinstance(extent, int) for extent in shape) or 0 in shape:
        return None
    return data.reshape([int(extent) for extent in shape])


def _reduced(function: Callable[[Extents, Any, Any], Any]) -> Callable[..., Numbers | None]:
    def compute(node: Node, data: Numbers, axes: Numbers | None = None) -> Numbers | None:
        given = _axes(node, axes)
        if given is None and node.attributes.get("noop_with_empty_axes"):
            return None
        is_whole = data.ndim == 1 or given is None or len(given) == data.ndim
        if not is_whole or data.size == 0 or (given == () and data.ndim):
            return None
        result = data.flat[0]
        for value in list(data.flat)[1:]:
            result = function(node.extents, result, value)
        shape = (1,) * data.ndim if node.attributes["keepdims"] else ()
        return numbers([result]).reshape(shape)

    return compute


_OPERATORS: Mapping[str, Callable[..., Numbers | None]] = MappingProxyType(
    {
        "Add": _elementwise(lambda _, a, b: a + b),
        "Cast": _cast,
        "Concat": lambda node, *parts: np.concatenate(parts, node.attributes["axis"]),
        "Div": _elementwise(_divided),
        "Gather": _gather,
        "Identity": lambda node, data: data,
        "Max": _elementwise(_larger),
        "Min": _elementwise(_smaller),
        "Mul": _elementwise(lambda _, a, b: a * b),
        "ReduceMax": _reduced(_larger),
        "ReduceMin": _reduced(_smaller),
        "ReduceProd": _reduced(lambda _, a, b: a * b),
        "ReduceSum": _reduced(lambda _, a, b: a + b),
        "Reshape": _reshape,
        "Slice": _slice,
        "Squeeze": _squeeze,
        "Sub": _elementwise(lambda _, a, b: a - b),
        "Transpose": lambda node, data: data.transpose(node.attributes.get("perm")),
        "Unsqueeze": _unsqueeze,
        "Where": _where,
        **{name: _comparison(name) for name in _COMPARISONS},
    }
)

# The operators whose results may be computed at import.
OF_VALUES = frozenset({"Shape", *_OPERATORS})
