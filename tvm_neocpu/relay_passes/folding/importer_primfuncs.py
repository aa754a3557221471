"""Reads back the few operators that TVM's ONNX importer writes as loops.

``from_onnx`` of TVM 0.27 lowers Clip, Pad and the padding of ``auto_pad`` to PrimFuncs at once
(``emit_te``), and no graph pass sees an operator there. The innermost statement of a PrimFunc gives
a guess. The guess counts if the importer's own call, repeated, gives the same loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import IRModule, relax, tirx, topi
from tvm.ir import Call, TensorLoad

from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.exprs import static_shape

_BOUNDS: dict[type, Callable[..., Any]] = {tirx.Max: topi.maximum, tirx.Min: topi.minimum}


@dataclass(frozen=True, eq=False)
class Bound:
    """``maximum(data, value)`` if ``lower``, else ``minimum(data, value)``."""

    data: relax.Expr
    value: float
    lower: bool


@dataclass(frozen=True, eq=False)
class ZeroPad:
    """``data`` with ``before[axis]`` zeros in front and ``after[axis]`` zeros behind."""

    data: relax.Expr
    before: tuple[int, ...]
    after: tuple[int, ...]


def read_bound(mod: IRModule, call: Call) -> Bound | None:
    """One side of a Clip; its bound stands in the loops (opset 6) or is a constant argument."""
    function, args = mod[call.args[0]], call.args[1].fields
    stored = _stored_value(function)
    rebuild = _BOUNDS.get(type(stored))
    if rebuild is None or not 1 <= len(args) <= 2:
        return None
    value = _scalar(args[1] if len(args) == 2 else stored.b)
    if value is None:
        return None
    bound = args[1] if len(args) == 2 else value
    if not _is_what_te_writes(function, rebuild, args[0], bound):
        return None
    return Bound(args[0], value, lower=rebuild is topi.maximum)


def read_zero_pad(mod: IRModule, call: Call) -> ZeroPad | None:
    """A Pad with zeros, also one that ``auto_pad`` put in front of a convolution."""
    function, args = mod[call.args[0]], call.args[1].fields
    if len(args) != 1:
        return None
    load = _padded_load(_stored_value(function))
    inner, outer = static_shape(args[0]), static_shape(call)
    if load is None or inner is None or outer is None or len(inner) != len(outer):
        return None
    before = tuple(_offset(index) for index in load.indices)
    after = tuple(big - small - pad for big, small, pad in zip(outer, inner, before, strict=True))
    if min(*before, *after) < 0:
        return None
    if not _is_what_te_writes(function, topi.nn.pad, args[0], list(before), list(after), 0.0):
        return None
    return ZeroPad(args[0], before, after)


def _stored_value(function: Any) -> Any:
    """The right-hand side of a PrimFunc's only statement; ``None`` if there are several."""
    statement = function.body if isinstance(function, tirx.PrimFunc) else None
    while statement is not None and not isinstance(statement, tirx.BufferStore):
        inside = getattr(statement, "block", None)
        statement = getattr(statement, "body", None) if inside is None else inside
    return None if statement is None else statement.value


def _padded_load(value: Any) -> Any:
    """The load in ``if_then_else(inside, data[...], 0)``, or a bare load: a padding of 0."""
    if isinstance(value, TensorLoad):
        return value
    if not isinstance(value, Call) or len(value.args) != 3:
        return None
    load, padding = value.args[1:]
    return load if isinstance(load, TensorLoad) and _scalar(padding) == 0.0 else None


def _offset(index: Any) -> int:
    """``before`` in the index ``i - before``; the comparison of loops finds a wrong guess."""
    return int(index.b) if isinstance(index, tirx.Sub) else 0


def _scalar(expr: Any) -> float | None:
    if isinstance(expr, tirx.FloatImm):
        return float(expr.value)
    array = array_of(expr)
    return float(array.item()) if array is not None and array.size == 1 else None


def _is_what_te_writes(function: Any, rebuild: Callable[..., Any], *args: Any) -> bool:
    builder = relax.BlockBuilder()
    call = builder.call_te(rebuild, *args)
    return bool(tvm_ffi.structural_equal(builder.get()[call.args[0]], function))


__all__ = ["Bound", "ZeroPad", "read_bound", "read_zero_pad"]
