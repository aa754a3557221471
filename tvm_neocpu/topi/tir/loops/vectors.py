"""A store of one element as a store of a vector of consecutive elements.

TVM vectorises a loop of its own kind, but loads element by element what lies two elements apart.
Here such a vector is picked from two loads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.ir import Expr, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import BufferStore, ForKind, Shuffle, Stmt

from tvm_neocpu.topi.tir.loops.affine import replaced, stride, uses
from tvm_neocpu.topi.tir.loops.rewrite_loops import counted_loop

_BINARY = (tirx.Max, tirx.Min, tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)


def vector_store(store: BufferStore, x: tirx.Var, start: Expr, lanes: int) -> Stmt:
    """``store`` for x in [start, start + lanes)."""
    if lanes == 1:
        return replaced(store, {x: start})
    value = wide(store.value, x, start, lanes)
    if value is not None and _step(store.buffer, store.indices, x) == 1:
        at = _places(store.indices, x, start)
        return BufferStore(store.buffer, value, [*at[:-1], ramp(at[-1], lanes)])
    lane = tirx.Var("lane", "int64")
    return counted_loop(lane, lanes, replaced(store, {x: start + lane}), ForKind.VECTORIZED)


def wide(value: Expr, x: tirx.Var, start: Expr, lanes: int) -> Expr | None:
    """Arithmetic on elements as that on the vector of x in [start, start + lanes).

    ``None`` for what TVM has to vectorise.
    """
    if lanes == 1:
        return replaced(value, {x: start})
    if isinstance(value, _BINARY):
        parts = [wide(part, x, start, lanes) for part in (value.a, value.b)]
        return None if None in parts else type(value)(*parts)
    if isinstance(value, tirx.FloatImm | tirx.IntImm):
        return tirx.Broadcast(value, lanes)
    if not isinstance(value, TensorLoad):
        return None
    if not any(uses(index, x) for index in value.indices):  # a scalar has none
        return tirx.Broadcast(value, lanes)
    repeats = _repeats(value, x)
    if repeats is not None:
        return _repeated(value, repeats, x, start, lanes)
    step = _step(value.source, value.indices, x)
    *outer, last = _places(value.indices, x, start)

    def load(offset: int) -> Expr:
        place = (*outer, ramp(last + offset, lanes))
        return value.source[place]

    if step == 0:
        element = (*outer, last)
        return tirx.Broadcast(value.source[element], lanes)
    if step == 1:
        return load(0)
    if step == 2:
        # The second load ends with the last lane's element.
        picks = [at if at < lanes else at + 1 for at in range(0, 2 * lanes, 2)]
        return Shuffle([load(0), load(lanes - 1)], [tirx.const(at, "int32") for at in picks])
    return None


def _repeats(load: TensorLoad, x: tirx.Var) -> int | None:
    """``c`` of a load ``a[.., x // c]``, which reads each element of a row c times."""
    *outer, last = load.indices
    if not isinstance(last, tirx.FloorDiv) or not last.a.same_as(x):
        return None
    count = int(last.b) if isinstance(last.b, tirx.IntImm) else 0
    return count if count > 1 and not any(uses(index, x) for index in outer) else None


def _repeated(load: TensorLoad, count: int, x: tirx.Var, start: Expr, lanes: int) -> Expr | None:
    """Every element of a shorter vector ``count`` times, where the vector begins with the first."""
    begin = Analyzer().modular_set(start)
    if lanes % count or begin.coeff % count or begin.base % count:
        return None
    *outer, first = _places(load.indices, x, start)
    place = (*outer, ramp(first, lanes // count))
    row = load.source[place]
    if lanes == count:
        return tirx.Broadcast(row, lanes)
    # A shuffle has no more lanes than it is given.
    return Shuffle([row] * count, [tirx.const(at // count, "int32") for at in range(lanes)])


def _places(indices: Sequence[Expr], x: tirx.Var, start: Expr) -> list[Expr]:
    return [Analyzer().simplify(replaced(index, {x: start})) for index in indices]


def _step(buffer: tirx.Buffer, indices: Sequence[Expr], x: tirx.Var) -> int | None:
    return stride(Analyzer(), buffer, indices, x)


def ramp(start: Expr, lanes: int) -> Expr:
    """Consecutive indices; of one lane, the index."""
    if lanes == 1:
        return start
    return tirx.Ramp(start, tirx.const(1, "int64"), lanes)
