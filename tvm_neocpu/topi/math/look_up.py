"""Bytes of a table of 256, as an operator that TVM vectorises.

A function writes :func:`looked_up`, a load like any other;
:mod:`..tir.instructions.plant_look_ups` puts the CPU's instruction in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tvm import te, tirx
from tvm.ir import Call, Expr, TensorLoad

from tvm_neocpu.core.machine.look_up import ENTRIES, LookUp
from tvm_neocpu.topi.math.dot_products import define, lanes_of, picked, vector_of
from tvm_neocpu.topi.math.look_up_code import LANES, name_of

CODE_TYPE = "uint8"
_INDEX_TYPE = "int32"


def looked_up(table: te.Tensor, code: Expr) -> Expr:
    """The table's uint8 for a uint8."""
    return table(code.astype(_INDEX_TYPE))


def code_of(load: TensorLoad) -> Expr | None:
    """The code of a :func:`looked_up`; ``None`` for any other load."""
    if str(load.ty.dtype) != CODE_TYPE or len(load.source.shape) != 1:
        return None
    (extent,), (index,) = load.source.shape, load.indices
    if not isinstance(extent, tirx.IntImm) or int(extent) != ENTRIES:
        return None
    if not isinstance(index, tirx.Cast) or str(index.value.ty.dtype) != CODE_TYPE:
        return None
    return index.value


def by_instruction(load: TensorLoad, code: Expr, by: LookUp) -> Expr:
    """The same by what :func:`.look_up_code.llvm_code` defines, chosen once the lanes are known."""
    name = f"tirx.neocpu_{by.name}"
    define(name, None, _lowering(by.least))
    return tirx.call_intrin(CODE_TYPE, name, load.source[0], code)


@cache
def _lowering(least: int) -> Callable[..., Expr]:
    return lambda call, by: _lowered(call, least)


def _lowered(call: Call, least: int) -> Expr:
    first, code = call.args
    first = first.value if isinstance(first, tirx.Broadcast) else first
    lanes = lanes_of(call)
    at_once = next((count for count in LANES if lanes % count == 0), 0)
    if at_once < least:
        index = vector_of(_INDEX_TYPE, lanes)
        return first.source[code.astype(index)]
    places = [range(at, at + at_once) for at in range(0, lanes, at_once)]
    parts = [code] if len(places) == 1 else [picked([code], each) for each in places]
    dtype, name = f"{CODE_TYPE}x{at_once}", name_of(at_once)
    found = [tirx.call_extern(dtype, name, tirx.address_of(first), part) for part in parts]
    return found[0] if len(found) == 1 else picked(found, range(lanes))
