"""``Loop`` whose trips a run counts: a private function of one trip, and one that calls itself.

    body(x, w) -> (goes_on, x', piece)        straight-line: planned, scheduled, as any network

    loop(x, pieces, goes_on, [i, n], w):      `loop_function`
        ..

The call is the last thing that the function does, so the virtual machine's program jumps to the
function's begin instead (`codegen.bytecode.tail_calls`): thousands of trips take no stack. What
the body reads of the tensors around it are parameters (``w``), constants aside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from tvm import relax, tirx
from tvm.ir import Call

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.control_flow.loop_function import Body, LoopFunction, fresh
from tvm_neocpu.frontend.control_flow.loop_types import (
    erased,
    is_other,
    is_single,
    known_scalar,
    with_extents_of,
    with_own_extents,
)
from tvm_neocpu.frontend.control_flow.stacked_pieces import Element
from tvm_neocpu.frontend.nodes import names_read
from tvm_neocpu.frontend.unrolling.loop_form import LoopForm
from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

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
        if limit is None and first is None:
            raise self._refused("it has no number of trips, and its condition stays true: no end")
        self._always_begins = (limit is None or (known_scalar(limit) or 0) > 0) and (
            first is None or bool(known_scalar(first))
        )
        body = self._fitting_body(initial)
        trips = known_scalar(limit) if first is None else None
        pairs = zip(body.results[1 + len(initial) :], form.joined, strict=True)
        elements = [Element.of(ty, axis, trips) for ty, axis in pairs]
        loop = LoopFunction(self._builder, body, elements, limit is not None)
        found = loop.call(initial, first, limit)
        return self._final(found, body.carried, elements, trips)

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
        carried: Sequence[relax.TensorType],
        elements: Sequence[Element],
        trips: int | None,
    ) -> list[relax.Expr]:
        """The loop's results from what its function gives; ``trips`` where it is known."""
        builder = self._builder
        count = len(carried) + len(elements)
        fields = [builder.emit(relax.TupleGetItem(found, at)) for at in range(count)]
        pairs = zip(fields, carried, strict=False)
        values = [with_extents_of(builder, field, ty) for field, ty in pairs]
        if not elements:
            return values
        shapes = [each.named() for each in elements]
        open_extents = [dim for shape in shapes for dim in shape if isinstance(dim, tirx.Var)]
        whole = tirx.Var("trips", "int64")
        counted = builder.emit(relax.TupleGetItem(found, count))
        builder.match_cast(counted, relax.ShapeType([whole, *open_extents]))
        rows = whole if trips is None else tirx.IntImm("int64", max(trips, 0))
        flat = [with_extents_of(builder, each, each.ty) for each in fields[len(carried) :]]
        pieces = zip(elements, flat, shapes, strict=True)
        whole = [element.whole(builder, each, rows, shape) for element, each, shape in pieces]
        return [*values, *whole]

    def _fitting_body(self, initial: Sequence[relax.Expr]) -> Body:
        """The body for carried tensors whose extents hold in every trip."""
        types = [with_own_extents(value.ty) for value in initial]
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
        if new.ndim != old.ndim and is_single(old) and is_single(new):
            # Paddle's exporter carries [] into the first trip and [1] into the others.
            return old if old.ndim > new.ndim else relax.TensorType([1] * new.ndim, str(old.dtype))
        differs = new.ndim != old.ndim or str(new.dtype) != str(old.dtype)
        if is_other(old, new) and self._always_begins and not self._is_read(name):
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

    def _body(self, types: Sequence[relax.TensorType]) -> Body:
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
        ret = relax.TupleType([erased(kind) for kind in kinds])
        function = relax.Function(own, relax.SeqExpr([block], result), ret, True)
        function, shapes = _with_shape_parameter(function)
        name = builder.add_func(fresh(function), "loop_body")
        around = [*inner.captured.values(), *([relax.ShapeExpr(shapes)] if shapes else [])]
        return Body(name, tuple(types), used, tuple(around), tuple(kinds))

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
        known = known_scalar(value)
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

    def _refused(self, why: str) -> UnsupportedOperatorError:
        return UnsupportedOperatorError(f"cannot import operator {self._form.told}: {why}")


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
