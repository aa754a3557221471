"""The function that runs a loop: it calls the body, and itself last of all.

loop(x, pieces, goes_on, [i, n], w):
    if goes_on:
        goes_on', x', piece = body(x, w)
        return loop(x', pieces with piece at row i, goes_on' and i + 1 < n, [i + 1, n], w)
    return x, pieces, [i]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import Call, GlobalVar
from tvm.relax.expr import _update_type

from tvm_neocpu.codegen.network import LOOP
from tvm_neocpu.frontend.control_flow.loop_types import (
    before_first_trip,
    erased,
    known_scalar,
    single_of_rank,
    with_extents_of,
)
from tvm_neocpu.frontend.control_flow.stacked_pieces import Element, elements_of, grown, stored

_FLAG = relax.TensorType([], "bool")


@dataclass(frozen=True)
class Body:
    """A trip as a function: its name, and the tensors around it that it reads last.

    ``results`` are the types of the condition, of what is carried and of each piece.
    """

    name: GlobalVar
    carried: tuple[relax.TensorType, ...]
    takes_counter: bool
    captured: tuple[relax.Expr, ...]
    results: tuple[relax.TensorType, ...]


class LoopFunction:
    """The function that calls the body and itself."""

    def __init__(
        self,
        builder: relax.BlockBuilder,
        body: Body,
        elements: Sequence[Element],
        is_limited: bool,
    ) -> None:
        self._builder = builder
        self._body = body
        self._elements = elements
        self._is_limited = is_limited
        self._counts = is_limited or body.takes_counter or bool(elements)

    def call(
        self,
        initial: Sequence[relax.Expr],
        first: relax.Expr | None,
        limit: relax.Expr | None,
    ) -> relax.Var:
        """The call from outside: a tuple of what is carried, the pieces, the number of trips."""
        builder, body = self._builder, self._body
        pairs = zip(initial, body.carried, strict=True)
        initial = [before_first_trip(builder, value, ty) for value, ty in pairs]
        state: list[tirx.Expr] = []
        self._most_trips = known_scalar(limit)
        if self._counts:
            state.append(tirx.IntImm("int64", 0))
        if limit is not None:
            state.append(self._extent(limit))
            if first is not None:
                first = and_below(builder, first, *state)
        state += [tirx.IntImm("int64", 0) for each in self._elements for _ in each.open]
        flags = [] if first is None else [first]
        empty = [relax.const(np.zeros(0, each.dtype), each.dtype) for each in self._elements]
        name = self._built(bool(flags))
        shape = [relax.ShapeExpr(state)] if state else []
        return builder.emit(
            Call(name, [*flags, *initial, *empty, *shape, *body.captured], None, [])
        )

    def _extent(self, limit: relax.Expr) -> tirx.Expr:
        """The limit as an extent, 0 for a negative one."""
        builder, known = self._builder, known_scalar(limit)
        if known is not None:
            return tirx.IntImm("int64", max(known, 0))
        whole = builder.emit(relax.op.maximum(limit, relax.const(0, "int64")))
        vector = builder.emit(relax.op.reshape(whole, [1]))
        shape = builder.emit(relax.op.tensor_to_shape(vector))
        extent = tirx.Var("limit", "int64")
        builder.match_cast(shape, relax.ShapeType([extent]))
        return extent

    def _built(self, has_flag: bool) -> GlobalVar:
        builder, body = self._builder, self._body
        trip, limit = tirx.Var("trip", "int64"), tirx.Var("limit", "int64")
        extents = [tirx.Var("extent", "int64") for each in self._elements for _ in each.open]
        state = [
            *([trip] if self._counts else []),
            *([limit] if self._is_limited else []),
            *extents,
        ]
        flag = relax.Var("goes_on", _FLAG)
        carried = [relax.Var(f"carried_{at}", ty) for at, ty in enumerate(body.carried)]
        buffers = [
            relax.Var(f"pieces_{at}", relax.TensorType([tirx.Var("room", "int64")], each.dtype))
            for at, each in enumerate(self._elements)
        ]
        at = [relax.Var("at", relax.ShapeType(state))] if state else []
        around = [relax.Var(f"around_{at}", value.ty) for at, value in enumerate(body.captured)]
        params = [*([flag] if has_flag else []), *carried, *buffers, *at, *around]
        count = [relax.ShapeType(ndim=1 + len(extents))] if self._elements else []
        ret = relax.TupleType([erased(var.ty) for var in (*carried, *buffers)] + count)
        name = GlobalVar(builder.get_unique_name("loop"))
        _update_type(name, relax.FuncType([var.ty for var in params], ret, True))
        builder.begin_scope(params)
        builder._begin_binding_block()
        again = self._again(name, flag if has_flag else None, carried, buffers, state, around)
        builder._begin_binding_block()
        number = [relax.ShapeExpr([trip, *extents])] if self._elements else []
        ended = builder.emit(relax.Tuple([*carried, *buffers, *number]))
        stop = relax.SeqExpr([builder._end_block()], ended)
        condition = flag if has_flag else relax.prim_value(trip < limit)
        result = builder.emit(relax.If(condition, again, stop))
        block = builder._end_block()
        builder.end_scope()
        function = relax.Function(params, relax.SeqExpr([block], result), ret, True)
        builder.update_func(name, fresh(function).with_attr(LOOP, True))
        return name

    def _again(
        self,
        name: GlobalVar,
        flag: relax.Var | None,
        carried: Sequence[relax.Var],
        buffers: Sequence[relax.Var],
        state: Sequence[tirx.Var],
        around: Sequence[relax.Var],
    ) -> relax.SeqExpr:
        """One trip, then the function again."""
        builder, body = self._builder, self._body
        builder._begin_binding_block()
        counter = []
        if body.takes_counter:
            counter = [builder.emit_te(_as_scalar, state[0], primfunc_name_hint="trip")]
        made = builder.emit(Call(body.name, [*counter, *carried, *around], None, []))
        values = [
            with_extents_of(builder, builder.emit(relax.TupleGetItem(made, 1 + at)), ty)
            for at, ty in enumerate(body.results[1:])
        ]
        for at, ty in enumerate(body.carried):
            values[at] = single_of_rank(builder, values[at], ty.ndim)
        trips = self._most_trips
        pairs = zip(self._elements, values[len(carried) :], strict=True)
        made_pieces = [each.laid_out(builder, piece) for each, piece in pairs]
        first = 1 + self._is_limited
        extents, places = self._following_extents(builder, made_pieces, state[first:], state[:1])
        pieces = [
            stored(builder, grown(builder, buffer, used, piece, trips), piece, used)
            for buffer, piece, used in zip(buffers, made_pieces, places, strict=True)
        ]
        following = [state[0] + 1, *state[1:first], *extents] if state else []
        flags = []
        if flag is not None:
            goes_on = builder.emit(relax.TupleGetItem(made, 0))
            if self._is_limited:
                goes_on = and_below(builder, goes_on, following[0], following[1])
            flags.append(goes_on)
        shape = [relax.ShapeExpr(following)] if following else []
        args = [*flags, *values[: len(carried)], *pieces, *shape, *around]
        result = builder.emit(Call(name, args, None, []))
        return relax.SeqExpr([builder._end_block()], result)

    def _following_extents(
        self,
        builder: relax.BlockBuilder,
        pieces: Sequence[relax.Expr],
        before: Sequence[tirx.Var],
        trip: Sequence[tirx.Var],
    ) -> tuple[list[tirx.Expr], list[tirx.Expr]]:
        """The extents after this trip, and how many elements each buffer has before it."""
        known = iter(before)
        following, places, found, expected = [], [], [], []
        for element, piece in zip(self._elements, pieces, strict=True):
            dims = list(piece.ty.shape.values)
            used = trip[0] * elements_of(dims)
            counts = iter(element.open)
            for extent in (new for old, new in zip(element.dims, dims, strict=True) if old is None):
                last = next(known)
                if next(counts):
                    used = last * elements_of(dims[1:])
                    following.append(last + extent)
                    continue
                found.append(extent)
                expected.append(last)
                following.append(extent)
            places.append(used)
        _check_same(builder, found, expected, trip)
        return following, places


def _check_same(
    builder: relax.BlockBuilder,
    found: Sequence[tirx.Var],
    before: Sequence[tirx.Var],
    trip: Sequence[tirx.Var],
) -> None:
    """Raise in a run whose pieces have not the extents of those before, from its second trip on."""
    if not found:
        return
    pairs = zip(found, before, strict=True)
    changes = [(new - old) * tirx.min(trip[0], tirx.IntImm("int64", 1)) for new, old in pairs]
    shape = builder.emit(relax.ShapeExpr(changes))
    builder.match_cast(shape, relax.ShapeType([0] * len(found)))


def and_below(
    builder: relax.BlockBuilder, flag: relax.Expr, trip: tirx.Expr, limit: tirx.Expr
) -> relax.Var:
    """``flag and trip < limit``, a tensor."""

    def compute(data: te.Tensor, at: tirx.Expr, end: tirx.Expr) -> te.Tensor:
        return te.compute((), lambda: tirx.all(data(), at < end), name="goes_on")

    return builder.emit_te(compute, flag, trip, limit, primfunc_name_hint="goes_on")


def _as_scalar(value: tirx.Expr) -> te.Tensor:
    return te.compute((), lambda: value, name="trip")


def fresh(function: relax.Function) -> relax.Function:
    """The function with variables of its own, which no other function binds."""
    return relax.utils.copy_with_new_vars(function)
