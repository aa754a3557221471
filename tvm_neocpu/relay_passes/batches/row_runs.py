"""Runs of layers over one open extent, found in a region.

A run begins at a product or a convolution whose batch is an extent that a run of the network
counts. It takes in what reads its tensors while no row depends on another, and ends with the last
heavy layer's epilogue::

    y = conv2d(x, W)      x: (k, 256, 14, 14)         heavy
    y = relu(y)                                       its epilogue
    z = conv2d(y, V)                                  heavy
    t = sum(z, axis=0)                                rows meet: not in the run
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GlobalVar

from tvm_neocpu.relay_passes.batches.independence import open_extents_of, why_dependent
from tvm_neocpu.relay_passes.batches.places import place_of
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name, over_variables, variables
from tvm_neocpu.relay_passes.ir.regions import Region, bindings_of, relax_functions
from tvm_neocpu.relay_passes.layouts.elementwise import BINARY, UNARY
from tvm_neocpu.relay_passes.operators.heavy import HEAVY
from tvm_neocpu.relay_passes.operators.new.recurrence import RECURRENCE, layer_of
from tvm_neocpu.relay_passes.operators.table import forms

# Element types whose rows a dispatch copies.
_COPIED = frozenset(("float32", "float16", "int8", "uint8", "int32", "int64"))


@dataclass(frozen=True, eq=False)
class RowRun:
    """Bindings of a region, in order, whose tensors have the extent ``rows`` for their batch."""

    mod: tvm.IRModule
    region: Region
    rows: tirx.Var
    members: tuple[relax.VarBinding, ...]

    @cached_property
    def inputs(self) -> tuple[relax.Var, ...]:
        """The tensors that it reads and does not bind."""
        return tuple(dict.fromkeys(v for v in self._reads if v not in self.bound))

    @cached_property
    def outputs(self) -> tuple[relax.Var, ...]:
        """The variables that it binds and something else reads."""
        inside = self._reads
        return tuple(
            each.var for each in self.members if self.region.uses[each.var] > inside.count(each.var)
        )

    @cached_property
    def input_rows(self) -> tuple[list[Any] | None, ...]:
        """The shapes (rows, elements of a row) of inputs whose first extent is not the rows."""
        return tuple(_flat(var.ty, self.rows, self.rows) for var in self.inputs)

    @cached_property
    def output_rows(self) -> tuple[list[Any] | None, ...]:
        """As :attr:`input_rows`, of the outputs."""
        return tuple(_flat(var.ty, self.rows, self.rows) for var in self.outputs)

    @cached_property
    def module(self) -> tvm.IRModule:
        """A module whose ``main`` computes the outputs for any number of rows."""
        return _module(self)

    @cached_property
    def can_be_called(self) -> bool:
        """Whether its inputs and outputs are tensors of rows, and no row depends on another."""
        tensors = [var.ty for var in (*self.inputs, *self.outputs)]
        if not self.inputs or not all(_is_of_rows(ty, self.rows) for ty in tensors):
            return False
        return why_dependent(self.module, self.module["main"].params[0].ty.shape[0]) is None

    def with_member(self, binding: relax.VarBinding) -> RowRun:
        return RowRun(self.mod, self.region, self.rows, (*self.members, binding))

    @cached_property
    def bound(self) -> frozenset[relax.Var]:
        """The variables of its members."""
        return frozenset(binding.var for binding in self.members)

    @cached_property
    def _reads(self) -> list[relax.Var]:
        return [var for each in self.members for var in _tensors_read(each.value)]

    def ended(self) -> RowRun:
        """The run without what only light layers read, but for the elementwise ones."""
        wanted: set[relax.Var] = set()
        for binding in reversed(self.members):
            if binding.var in wanted or is_heavy(binding.value):
                wanted |= {binding.var, *_tensors_read(binding.value)}
        kept = []
        for binding in self.members:
            if binding.var not in wanted and op_name(binding.value) in UNARY | BINARY:
                own = self.bound.intersection(_tensors_read(binding.value))
                if own <= wanted:
                    wanted.add(binding.var)
            if binding.var in wanted:
                kept.append(binding)
        return RowRun(self.mod, self.region, self.rows, tuple(kept))


def has_open_rows(mod: tvm.IRModule) -> bool:
    """Whether an operation that a template may compute gives a tensor of unknown extents."""
    return any(
        is_heavy(binding.value) and open_extents_of(binding.var.ty)
        for _, function in relax_functions(mod)
        for binding in bindings_of(function)
        if isinstance(binding, relax.VarBinding)
    )


def check_recurrences(mod: tvm.IRModule) -> None:
    """Raise ShapeError for a recurrent layer whose batch is open: its loops are of one number."""
    for _, function in relax_functions(mod):
        for binding in bindings_of(function):
            value = binding.value if isinstance(binding, relax.VarBinding) else None
            if op_name(value) == RECURRENCE.name:
                layer_of(value)


def row_runs(mod: tvm.IRModule, region: Region) -> list[RowRun]:
    """The region's runs in program order; none reads a tensor that a later one makes."""
    found: list[RowRun] = []
    current: RowRun | None = None
    # What depends on the current run and is none of its members.
    after: set[relax.Var] = set()
    for binding in region.bindings:
        reads = set(_tensors_read(binding.value))
        if current is not None and not reads & after:
            longer = _joined(current, binding)
            if longer is not None:
                current = longer
                continue
        started = _started(mod, region, binding)
        if started is not None:
            found += [current] if current is not None else []
            current, after = started, set()
        elif current is not None and reads & (after | current.bound):
            after.add(binding.var)
    found += [current] if current is not None else []
    ended = [run.ended() for run in found]
    return [run for run in ended if run.can_be_called]


def is_heavy(value: relax.Expr) -> bool:
    """Whether a template may compute the operation, if its shapes are known."""
    name = op_name(value)
    return name in HEAVY or any(form.op == name for form in forms() if form.decides)


def _started(mod: tvm.IRModule, region: Region, binding: relax.VarBinding) -> RowRun | None:
    """The run that begins at a binding."""
    if not is_heavy(binding.value):
        return None
    open_extents = open_extents_of(binding.var.ty)
    if len(open_extents) != 1:
        return None
    run = RowRun(mod, region, open_extents[0], (binding,))
    return run if _computes_rows(run) else None


def _joined(run: RowRun, binding: relax.VarBinding) -> RowRun | None:
    """The run with one more binding; ``None`` where that mixes rows, or has nothing to do with it.

    A heavy layer may read other tensors of the same rows.
    """
    reads = _tensors_read(binding.value)
    if not run.bound.intersection(reads) and not is_heavy(binding.value):
        return None
    types = [var.ty for var in (*reads, binding.var)]
    if any(not extent.same_as(run.rows) for ty in types for extent in open_extents_of(ty)):
        return None
    if isinstance(binding.value, relax.Tuple | relax.TupleGetItem):
        return run.with_member(binding) if run.bound.issuperset(reads) else None
    alone = RowRun(run.mod, run.region, run.rows, (binding,))
    return run.with_member(binding) if _computes_rows(alone) else None


def _computes_rows(run: RowRun) -> bool:
    """Whether one binding by itself makes rows of rows."""
    return bool(run.inputs) and run.can_be_called


def _is_of_rows(ty: Any, rows: tirx.Var) -> bool:
    """Whether a tensor has the rows outermost, and nothing else is open in it."""
    if not isinstance(ty, relax.TensorType) or str(ty.dtype) not in _COPIED:
        return False
    place = place_of(ty, rows)
    return place is not None and place.before == 1 and place.behind > 0


def _flat(ty: Any, rows: tirx.Var, as_rows: tirx.Var) -> list[Any] | None:
    """(rows, elements of a row); ``None`` where the rows themselves are the first extent."""
    if ty.shape.values[0].same_as(rows):
        return None
    place = place_of(ty, rows)
    return [as_rows, tirx.const(place.behind, "int64")]


def _module(run: RowRun) -> tvm.IRModule:
    rows = tirx.Var("n", "int64")

    def own(extent: tirx.Var) -> tirx.Var:
        return rows if extent.same_as(run.rows) else extent

    def over_rows(value: Any) -> Any:
        return tvm_ffi.structural_map(value, [(tirx.Var, own)])

    params = []
    for at, var in enumerate(run.inputs):
        shape = _flat(var.ty, run.rows, rows) or over_rows(var.ty.shape).values
        params.append(relax.Var(f"x{at}", relax.TensorType(list(shape), str(var.ty.dtype))))
    builder = relax.BlockBuilder()
    new: dict[relax.Var, relax.Expr] = {}
    with builder.function("main", params):
        with builder.dataflow():
            for var, param in zip(run.inputs, params, strict=True):
                new[var] = param
                if _flat(var.ty, run.rows, rows) is not None:
                    new[var] = builder.emit(relax.op.reshape(param, over_rows(var.ty.shape)))
            for binding in run.members:
                value = over_variables(binding.value, lambda var: new.get(var, var))
                new[binding.var] = builder.emit(over_rows(value))
            results = []
            for var in run.outputs:
                shape = _flat(var.ty, run.rows, rows)
                made = new[var] if shape is None else relax.op.reshape(new[var], shape)
                results.append(made if shape is None else builder.emit(made))
            result = results[0] if len(results) == 1 else relax.Tuple(results)
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    made = builder.get()
    for binding in run.members:
        if op_name(binding.value) == CALL_TIR:
            name: GlobalVar = binding.value.args[0]
            made[name] = run.mod[name]
    return made


def _tensors_read(value: relax.Expr) -> list[relax.Var]:
    """The tensors and tuples that an expression reads, with repeats; no extents."""
    return [var for var in variables(value) if not isinstance(var.ty, tvm.ir.PrimType)]
