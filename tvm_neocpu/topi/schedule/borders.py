"""Where a row of a copy reads side by side: between the borders of a mirrored or repeated image.

The place that an element is read from is a formula with a maximum, a minimum or a condition, so
that LLVM gathers whole rows. Between the borders it is ``x - c``.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import BufferStore

from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.loops.affine import replaced, uses

# Longer rows than this are not looked at element by element.
MAX_COLUMNS = 4096


def interior_of(sch: Schedule, block: SBlockRV) -> tuple[int, int] | None:
    """[first, behind the last] column of the longest run that reads side by side.

    ``None`` for what is no copy, and where the whole row is one run or no run is half of it.
    """
    found, loops = sch.get(block), sch.get_loops(block)
    store = found.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, TensorLoad):
        return None
    x, extent = found.iter_vars[-1].var, steps.loop_extent(sch, loops[-1])
    if len(loops) != len(found.iter_vars) or extent > MAX_COLUMNS:
        return None
    if not store.value.indices:  # a scalar
        return None
    *outer, last = store.value.indices
    if last.same_as(x) or not uses(last, x) or any(uses(index, x) for index in outer):
        return None
    places = [_place(last, x, column) for column in range(extent)]
    if None in places:
        return None
    first, end = _longest_run(places)
    return (first, end) if extent > end - first >= extent // 2 else None


def _place(index: tirx.Expr, x: tirx.Var, column: int) -> int | None:
    place = Analyzer().simplify(replaced(index, {x: tirx.const(column, str(x.ty.dtype))}))
    return int(place) if isinstance(place, tirx.IntImm) else None


def _longest_run(places: list[int | None]) -> tuple[int, int]:
    """The bounds of the longest run of numbers that rise by one."""
    best = (0, 0)
    first = 0
    for at, place in enumerate(places):
        if at and place != (places[at - 1] or 0) + 1:
            first = at
        if at + 1 - first > best[1] - best[0]:
            best = (first, at + 1)
    return best
