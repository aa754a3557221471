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
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.stacked_pieces import elements_of, grown, stacked, stored
from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, static_shape_of

_INT64 = relax.TensorType([], "int64")
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


@dataclass(frozen=True)
class Element:
    """A piece that each trip makes: its extents, ``None`` for one that a run knows, and type.

    Pieces are stacked along a new axis; or, with an ``axis``, joined along that one, which comes
    first in ``dims`` and in memory. Its extent is ``None`` then, unless all trips are known.
    """

    dims: tuple[int | None, ...]
    dtype: str
    axis: int | None = None

    @classmethod
    def of(cls, ty: relax.TensorType, axis: int | None, trips: int | None) -> Element:
        """``trips`` is how many there are, ``None`` where only a run knows.

        Raises UnsupportedOperatorError for an axis that the pieces do not have.
        """
        dims = dimensions(ty) or (None,) * ty.ndim
        if axis is None:
            return cls(dims, str(ty.dtype))
        if not -len(dims) <= axis < len(dims):
            raise UnsupportedOperatorError(f"axis {axis} is outside pieces of rank {len(dims)}")
        axis %= len(dims)
        rows = None if trips is None else dims[axis]
        return cls((rows, *dims[:axis], *dims[axis + 1 :]), str(ty.dtype), axis)

    @property
    def open(self) -> tuple[bool, ...]:
        """One for each extent that a run knows: whether it counts the rows of all trips."""
        counts = self.axis is not None
        return tuple(counts and not at for at, dim in enumerate(self.dims) if dim is None)

    def named(self) -> tuple[int | tirx.Var, ...]:
        """The extents, with names for those that a run knows."""
        return tuple(tirx.Var("extent", "int64") if dim is None else dim for dim in self.dims)

    def laid_out(self, builder: relax.BlockBuilder, piece: relax.Expr) -> relax.Expr:
        """A piece as it stands in memory."""
        if not self.axis:
            return piece
        order = [self.axis, *(at for at in range(len(self.dims)) if at != self.axis)]
        return builder.emit(relax.op.permute_dims(piece, order))

    def whole(
        self,
        builder: relax.BlockBuilder,
        flat: relax.Expr,
        trips: tirx.Expr,
        shape: tuple[int | tirx.Var, ...],
    ) -> relax.Expr:
        """The result of all trips, of what stands in memory; ``shape`` is of :meth:`named`."""
        if self.axis is None:
            return stacked(builder, flat, trips, shape)
        rows = shape[0] if self.dims[0] is None else trips * shape[0]
        joined = stacked(builder, flat, rows, shape[1:])
        if not self.axis:
            return joined
        order = [*range(1, self.axis + 1), 0, *range(self.axis + 1, len(shape))]
        return builder.emit(relax.op.permute_dims(joined, order))


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


def with_extents_of(
    builder: relax.BlockBuilder, value: relax.Expr, ty: relax.TensorType
) -> relax.Expr:
    """A tensor of which only the rank is known gets the extents of ``ty``, and names for others."""
    known = value.ty
    if not isinstance(known, relax.TensorType) or known.shape is not None:
        return value
    return builder.match_cast(value, with_own_extents(ty))


def single_of_rank(builder: relax.BlockBuilder, value: relax.Expr, rank: int) -> relax.Expr:
    """A single element with this rank; any other tensor, or one that has it, as it is."""
    value = builder.normalize(value)
    if value.ty.ndim == rank or not is_single(value.ty):
        return value
    return builder.emit(relax.op.reshape(value, [1] * rank))


def before_first_trip(
    builder: relax.BlockBuilder, value: relax.Expr, ty: relax.TensorType
) -> relax.Expr:
    """A carried value of the type; zeros of it for one that no trip reads."""
    if is_single(ty):
        value = single_of_rank(builder, value, ty.ndim)
    if not is_other(value.ty, ty):
        return value
    return relax.const(np.zeros(dimensions(ty) or (), str(ty.dtype)))


def is_other(old: relax.TensorType, new: relax.TensorType) -> bool:
    """Whether ``new`` is another type, of a known shape."""
    shape = static_shape_of(new)
    same_kind = new.ndim == old.ndim and str(new.dtype) == str(old.dtype)
    return shape is not None and not (same_kind and shape == static_shape_of(old))


def is_single(ty: relax.TensorType) -> bool:
    return ty.ndim >= 0 and set(dimensions(ty) or (() if not ty.ndim else (None,))) <= {1}


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


def known_scalar(value: relax.Expr | None) -> int | None:
    """A scalar's value; ``None`` where a run computes it."""
    known = None if value is None else array_of(value)
    return None if known is None else int(known.item())


def with_own_extents(ty: relax.TensorType) -> relax.TensorType:
    """The type with new names for the extents that only a run knows."""
    dims = dimensions(ty) or (None,) * ty.ndim
    shape = [tirx.Var("extent", "int64") if dim is None else dim for dim in dims]
    return relax.TensorType(shape, str(ty.dtype))


def erased(ty: relax.TensorType) -> relax.TensorType:
    """The type as far as every call knows it."""
    dims = dimensions(ty)
    if dims is None or None in dims:
        return relax.TensorType(dtype=str(ty.dtype), ndim=ty.ndim)
    return relax.TensorType(list(dims), str(ty.dtype))


def fresh(function: relax.Function) -> relax.Function:
    """The function with variables of its own, which no other function binds."""
    return relax.utils.copy_with_new_vars(function)
