"""``Loop`` whose trips a run counts: a private function of one trip, and one that calls itself.

    body(x, w) -> (goes_on, x', piece)        straight-line: planned, scheduled, as any network

    loop(x, pieces, goes_on, [i, n], w):
        if goes_on:
            goes_on', x', piece = body(x, w)
            return loop(x', pieces with piece at row i, goes_on' and i + 1 < n, [i + 1, n], w)
        return x, pieces, [i]

The call is the last thing that the function does, so the virtual machine's program jumps to the
function's begin instead (`codegen.bytecode.tail_calls`): thousands of trips take no stack. What
the body reads of the tensors around it are parameters (``w``), constants aside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from tvm import relax, te, tirx
from tvm.ir import Call, GlobalVar
from tvm.relax.expr import _update_type

from tvm_neocpu.codegen.network import LOOP
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.loop_form import LoopForm
from tvm_neocpu.frontend.nodes import names_read
from tvm_neocpu.frontend.stacked_pieces import grown, stacked, stored
from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, static_shape_of

# Extents that vary from trip to trip become symbolic, one after another at most.
_MAX_ATTEMPTS = 64
_INT64 = relax.TensorType([], "int64")
_FLAG = relax.TensorType([], "bool")


class Names(dict[str, Any]):
    """Tensors by name; what is not in it comes from the scope around it.

    With ``captures`` a tensor of the scope around it that is no constant becomes a parameter.
    """

    def __init__(self, outer: dict[str, Any], captures: bool = False) -> None:
        super().__init__()
        self._outer = outer
        self._captures = captures
        self.captured: dict[relax.Var, relax.Expr] = {}

    def __missing__(self, name: str) -> Any:
        value = self._outer[name]
        if self._captures and isinstance(value, relax.Expr):
            value = self._inside(value)
        self[name] = value
        return value

    def _inside(self, value: relax.Expr) -> relax.Expr:
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._inside(field) for field in value.fields])
        if not isinstance(value, relax.Var) or isinstance(value.ty, relax.ShapeType):
            return value
        for own, outer in self.captured.items():
            if outer.same_as(value):
                return own
        own = relax.Var(value.name, value.ty)
        self.captured[own] = value
        return own


@dataclass(frozen=True)
class _Body:
    """A trip as a function: its name, and the tensors around it that it reads last.

    ``results`` are the types of the condition, of what is carried and of each piece.
    """

    name: GlobalVar
    carried: tuple[relax.TensorType, ...]
    takes_counter: bool
    captured: tuple[relax.Expr, ...]
    results: tuple[relax.TensorType, ...]


class LoopImporter:
    """What builds the functions of one ``Loop`` inside an importer's block."""

    def __init__(self, importer: Any, form: LoopForm) -> None:
        self._importer = importer
        self._builder: relax.BlockBuilder = importer.bb
        self._form = form

    def results(self) -> list[relax.Expr]:
        """The loop's results, carried ones first. Raises UnsupportedOperatorError."""
        form, names = self._form, self._importer._nodes
        self._bind_what_is_read(names)
        initial = [self._tensor(names[each.initial], each.inside) for each in form.carried]
        limit = self._limit()
        first = self._first_condition()
        self._always_begins = (limit is None or (_known(limit) or 0) > 0) and (
            first is None or bool(_known(first))
        )
        body = self._fitting_body(initial)
        elements = [self._element(ty) for ty in body.results[1 + len(initial) :]]
        loop = _LoopFunction(self._builder, form, body, elements, limit is not None)
        found = loop.call(initial, first, limit)
        return self._final(found, initial, elements, first, limit)

    def _bind_what_is_read(self, names: dict[str, Any]) -> None:
        """Bind what the loop reads here: an expression in its body would be computed there."""
        for name in names_read(self._form.node):
            with contextlib.suppress(KeyError):  # a tensor of the body
                value = names[name] if name else None
                if isinstance(value, Call):
                    names[name] = self._builder.emit(value)

    def _final(
        self,
        found: relax.Var,
        initial: Sequence[relax.Expr],
        elements: Sequence[tuple[tuple[int, ...], str]],
        first: relax.Expr | None,
        limit: relax.Expr | None,
    ) -> list[relax.Expr]:
        builder = self._builder
        values = [
            with_known_rank(builder, builder.emit(relax.TupleGetItem(found, at)))
            for at in range(len(initial) + len(elements))
        ]
        if not elements:
            return values
        trips: int | tirx.Var
        known = None if first is not None else _known(limit)
        if known is not None:
            trips = max(known, 0)
        else:
            trips = tirx.Var("trips", "int64")
            count = builder.emit(relax.TupleGetItem(found, len(values)))
            builder.match_cast(count, relax.ShapeType([trips]))
        carried = len(initial)
        return [
            *values[:carried],
            *(
                stacked(builder, flat, trips, shape)
                for flat, (shape, _) in zip(values[carried:], elements, strict=True)
            ),
        ]

    def _fitting_body(self, initial: Sequence[relax.Expr]) -> _Body:
        """The body for carried tensors whose extents hold in every trip."""
        types = [_with_own_extents(value.ty) for value in initial]
        for _ in range(_MAX_ATTEMPTS):
            body = self._body(types)
            found = body.results[1 : 1 + len(types)]
            widened = [
                self._widened(old, new, each.inside)
                for old, new, each in zip(types, found, self._form.carried, strict=True)
            ]
            if all(new is old for new, old in zip(widened, types, strict=True)):
                return body
            types = widened
        raise self._refused("the shapes that it carries never settle")

    def _widened(self, old: relax.TensorType, new: relax.TensorType, name: str) -> relax.TensorType:
        """The type that holds both before and after a trip; ``old`` itself where nothing varies."""
        if new.ndim != old.ndim and _is_single(old) and _is_single(new):
            # Paddle's exporter carries [] into the first trip and [1] into the others.
            return old if old.ndim > new.ndim else relax.TensorType([1] * new.ndim, str(old.dtype))
        differs = new.ndim != old.ndim or str(new.dtype) != str(old.dtype)
        if _is_other(old, new) and self._always_begins and not self._is_read(name):
            return new  # what it is before the first trip, nobody sees
        if differs:
            raise self._refused(
                f"{name!r} is {old.dtype} of rank {old.ndim} before a trip and {new.dtype} of "
                f"rank {new.ndim} after it"
            )
        before, after = dimensions(old) or (), dimensions(new) or ((None,) * new.ndim)
        varies = [a is not None and a != b for a, b in zip(before, after, strict=True)]
        if not any(varies):
            return old
        shape = [
            tirx.Var("extent", "int64") if varied or dim is None else dim
            for dim, varied in zip(before, varies, strict=True)
        ]
        return relax.TensorType(shape, str(old.dtype))

    def _is_read(self, name: str) -> bool:
        """Whether a trip reads what it gets under this name."""
        body = self._form.body
        read = {each for node in body.node for each in names_read(node)}
        return name in read or any(value.name == name for value in body.output)

    def _body(self, types: Sequence[relax.TensorType]) -> _Body:
        """One trip over carried tensors of these types, as a function of the module."""
        importer, builder, form = self._importer, self._builder, self._form
        outer = importer._nodes
        params = [
            relax.Var(_identifier(each.inside), ty)
            for each, ty in zip(form.carried, types, strict=True)
        ]
        counter = relax.Var("trip", _INT64)
        inner = Names(outer, captures=True)
        builder.begin_scope([counter, *params])
        builder._begin_binding_block()
        importer._nodes = inner
        try:
            inner.update(zip((each.inside for each in form.carried), params, strict=True))
            for inside, around in form.unchanged:
                inner[inside] = inner[around]
            counts, goes = form.body.input[:2]
            inner[counts.name] = self._as_declared(counter, counts)
            inner[goes.name] = relax.const(np.ones([1] * _rank(goes), "bool"))
            for tensor in form.body.initializer:
                inner[tensor.name] = relax.const(numpy_helper.to_array(tensor))
            importer._construct_nodes(form.body)
            condition = self._flag(inner[form.following_condition])
            names = [each.following for each in form.carried] + [name for name, _ in form.stacked]
            results = [condition, *(self._tensor(inner[name], name) for name in names)]
            result = builder.emit(relax.Tuple([builder.emit(each) for each in results]))
        finally:
            block = builder._end_block()
            builder.end_scope()
            importer._nodes = outer
        kinds = list(result.ty.fields)
        captured = list(inner.captured)
        used = _reads(block, counter)
        own = [*([counter] if used else []), *params, *captured]
        ret = relax.TupleType([_erased(kind) for kind in kinds])
        function = relax.Function(own, relax.SeqExpr([block], result), ret, True)
        function, shapes = _with_shape_parameter(function)
        name = builder.add_func(_fresh(function), "loop_body")
        around = [*inner.captured.values(), *([relax.ShapeExpr(shapes)] if shapes else [])]
        return _Body(name, tuple(types), used, tuple(around), tuple(kinds))

    def _as_declared(self, value: relax.Expr, declared: onnx.ValueInfoProto) -> relax.Expr:
        """A scalar as the body wants it: some have it as a vector of one element."""
        if not _rank(declared):
            return value
        return self._builder.emit(relax.op.reshape(value, [1] * _rank(declared)))

    def _limit(self) -> relax.Expr | None:
        """The most trips, an int64 of no axes; ``None`` where there is no such limit."""
        name = self._form.trips
        if not name:
            return None
        return self._scalar(self._tensor(self._importer._nodes[name], name), "int64")

    def _first_condition(self) -> relax.Expr | None:
        """Whether the first trip runs; ``None`` where nothing but the limit ends the loop."""
        name = self._form.condition
        value = None
        if name:
            value = self._flag(self._importer._nodes[name])
        known = _known(value)
        if self._form.has_condition or (value is not None and not known):
            return relax.const(True) if value is None else value
        return None

    def _flag(self, value: Any) -> relax.Expr:
        return self._scalar(self._tensor(value, "its condition"), "bool")

    def _scalar(self, value: relax.Expr, dtype: str) -> relax.Expr:
        known = array_of(value)
        if known is not None:
            return relax.const(known.reshape(()).astype(dtype), dtype)
        if value.ty.ndim != 0:
            value = self._builder.emit(relax.op.reshape(value, []))
        if str(value.ty.dtype) != dtype:
            value = self._builder.emit(relax.op.astype(value, dtype))
        return value

    def _tensor(self, value: Any, name: str) -> relax.Expr:
        """A tensor of known rank. Raises UnsupportedOperatorError for a sequence."""
        if isinstance(value, relax.Expr) and isinstance(value.ty, relax.ShapeType):
            value = self._builder.emit(relax.op.shape_to_tensor(value))
        ty = value.ty if isinstance(value, relax.Expr) else None
        if not isinstance(ty, relax.TensorType):
            raise self._refused(f"{name!r} is no tensor (sequences cannot be carried)")
        if ty.ndim < 0 or ty.dtype is None:
            raise self._refused(f"the rank of {name!r} is not known")
        return value

    def _element(self, ty: relax.TensorType) -> tuple[tuple[int, ...], str]:
        """The shape and type of a piece that each trip makes."""
        dims = dimensions(ty)
        if dims is None or None in dims:
            raise self._refused("the shape of a scan output depends on data")
        return tuple(dim for dim in dims if dim is not None), str(ty.dtype)

    def _refused(self, why: str) -> UnsupportedOperatorError:
        return UnsupportedOperatorError(f"cannot import operator {self._form.told}: {why}")


class _LoopFunction:
    """The function that calls the body and itself."""

    def __init__(
        self,
        builder: relax.BlockBuilder,
        form: LoopForm,
        body: _Body,
        elements: Sequence[tuple[tuple[int, ...], str]],
        is_limited: bool,
    ) -> None:
        self._builder = builder
        self._form = form
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
        initial = [_before_first_trip(builder, value, ty) for value, ty in pairs]
        state: list[tirx.Expr] = []
        self._most_trips = _known(limit)
        if self._counts:
            state.append(tirx.IntImm("int64", 0))
        if limit is not None:
            state.append(self._extent(limit))
            if first is not None:
                first = _and_below(builder, first, *state)
        flags = [] if first is None else [first]
        empty = [relax.const(np.zeros(0, dtype), dtype) for _, dtype in self._elements]
        name = self._built(bool(flags))
        shape = [relax.ShapeExpr(state)] if state else []
        return builder.emit(
            Call(name, [*flags, *initial, *empty, *shape, *body.captured], None, [])
        )

    def _extent(self, limit: relax.Expr) -> tirx.Expr:
        """The limit as an extent, 0 for a negative one."""
        builder, known = self._builder, _known(limit)
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
        state = [*([trip] if self._counts else []), *([limit] if self._is_limited else [])]
        flag = relax.Var("goes_on", _FLAG)
        carried = [relax.Var(f"carried_{at}", ty) for at, ty in enumerate(body.carried)]
        buffers = [
            relax.Var(f"pieces_{at}", relax.TensorType([tirx.Var("room", "int64")], dtype))
            for at, (_, dtype) in enumerate(self._elements)
        ]
        at = [relax.Var("at", relax.ShapeType(state))] if state else []
        around = [relax.Var(f"around_{at}", value.ty) for at, value in enumerate(body.captured)]
        params = [*([flag] if has_flag else []), *carried, *buffers, *at, *around]
        count = [relax.ShapeType(ndim=1)] if self._elements else []
        ret = relax.TupleType([_erased(var.ty) for var in (*carried, *buffers)] + count)
        name = GlobalVar(builder.get_unique_name("loop"))
        _update_type(name, relax.FuncType([var.ty for var in params], ret, True))
        builder.begin_scope(params)
        builder._begin_binding_block()
        again = self._again(name, flag if has_flag else None, carried, buffers, state, around)
        builder._begin_binding_block()
        number = [relax.ShapeExpr([trip])] if self._elements else []
        ended = builder.emit(relax.Tuple([*carried, *buffers, *number]))
        stop = relax.SeqExpr([builder._end_block()], ended)
        condition = flag if has_flag else relax.prim_value(trip < limit)
        result = builder.emit(relax.If(condition, again, stop))
        block = builder._end_block()
        builder.end_scope()
        function = relax.Function(params, relax.SeqExpr([block], result), ret, True)
        builder.update_func(name, _fresh(function).with_attr(LOOP, True))
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
            with_known_rank(builder, builder.emit(relax.TupleGetItem(made, 1 + at)))
            for at in range(len(carried) + len(buffers))
        ]
        for at, ty in enumerate(body.carried):
            values[at] = single_of_rank(builder, values[at], ty.ndim)
        trips = self._most_trips
        pieces = [
            stored(builder, grown(builder, buffer, state[0], shape, trips), piece, state[0])
            for buffer, piece, (shape, _) in zip(
                buffers, values[len(carried) :], self._elements, strict=True
            )
        ]
        following = [state[0] + 1, *state[1:]] if state else []
        flags = []
        if flag is not None:
            goes_on = builder.emit(relax.TupleGetItem(made, 0))
            if self._is_limited:
                goes_on = _and_below(builder, goes_on, following[0], following[1])
            flags.append(goes_on)
        shape = [relax.ShapeExpr(following)] if following else []
        args = [*flags, *values[: len(carried)], *pieces, *shape, *around]
        result = builder.emit(Call(name, args, None, []))
        return relax.SeqExpr([builder._end_block()], result)


def with_known_rank(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """A tensor whose extents only a run knows gets symbolic ones, which its readers need."""
    known = value.ty
    if not isinstance(known, relax.TensorType) or known.shape is not None:
        return value
    extents = [tirx.Var(f"extent_{axis}", "int64") for axis in range(known.ndim)]
    return builder.match_cast(value, relax.TensorType(extents, str(known.dtype)))


def single_of_rank(builder: relax.BlockBuilder, value: relax.Expr, rank: int) -> relax.Expr:
    """A single element with this rank; any other tensor, or one that has it, as it is."""
    value = builder.normalize(value)
    if value.ty.ndim == rank or not _is_single(value.ty):
        return value
    return builder.emit(relax.op.reshape(value, [1] * rank))


def _before_first_trip(
    builder: relax.BlockBuilder, value: relax.Expr, ty: relax.TensorType
) -> relax.Expr:
    """A carried value of the type; zeros of it for one that no trip reads."""
    if _is_single(ty):
        value = single_of_rank(builder, value, ty.ndim)
    if not _is_other(value.ty, ty):
        return value
    return relax.const(np.zeros(dimensions(ty) or (), str(ty.dtype)))


def _is_other(old: relax.TensorType, new: relax.TensorType) -> bool:
    """Whether ``new`` is another type, of a known shape."""
    shape = static_shape_of(new)
    same_kind = new.ndim == old.ndim and str(new.dtype) == str(old.dtype)
    return shape is not None and not (same_kind and shape == static_shape_of(old))


def _is_single(ty: relax.TensorType) -> bool:
    return ty.ndim >= 0 and set(dimensions(ty) or (() if not ty.ndim else (None,))) <= {1}


def _and_below(
    builder: relax.BlockBuilder, flag: relax.Expr, trip: tirx.Expr, limit: tirx.Expr
) -> relax.Var:
    """``flag and trip < limit``, a tensor."""

    def compute(data: te.Tensor, at: tirx.Expr, end: tirx.Expr) -> te.Tensor:
        return te.compute((), lambda: tirx.all(data(), at < end), name="goes_on")

    return builder.emit_te(compute, flag, trip, limit, primfunc_name_hint="goes_on")


def _as_scalar(value: tirx.Expr) -> te.Tensor:
    return te.compute((), lambda: value, name="trip")


def _known(value: relax.Expr | None) -> int | None:
    """A scalar's value; ``None`` where a run computes it."""
    known = None if value is None else array_of(value)
    return None if known is None else int(known.item())


def _with_own_extents(ty: relax.TensorType) -> relax.TensorType:
    """The type with new names for the extents that only a run knows."""
    dims = dimensions(ty) or (None,) * ty.ndim
    shape = [tirx.Var("extent", "int64") if dim is None else dim for dim in dims]
    return relax.TensorType(shape, str(ty.dtype))


def _erased(ty: relax.TensorType) -> relax.TensorType:
    """The type as far as every call knows it."""
    dims = dimensions(ty)
    if dims is None or None in dims:
        return relax.TensorType(dtype=str(ty.dtype), ndim=ty.ndim)
    return relax.TensorType(list(dims), str(ty.dtype))


def _rank(declared: onnx.ValueInfoProto) -> int:
    return len(declared.type.tensor_type.shape.dim)


def _identifier(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name) or "carried"


def _reads(block: relax.BindingBlock, var: relax.Var) -> bool:
    free = relax.analysis.free_vars(relax.SeqExpr([block], relax.Tuple([])))
    return any(each.same_as(var) for each in free)


def _with_shape_parameter(function: relax.Function) -> tuple[relax.Function, list[tirx.Var]]:
    """The function with a last parameter for the extents that no other one defines."""
    free = list(relax.analysis.free_symbolic_vars(function))
    if not free:
        return function, []
    shape = relax.Var("extents", relax.ShapeType(free))
    params = [*function.params, shape]
    return relax.Function(params, function.body, function.ret_ty, function.is_pure), free


def _fresh(function: relax.Function) -> relax.Function:
    """The function with variables of its own, which no other function binds."""
    return relax.utils.copy_with_new_vars(function)
