"""Layers whose rows a run counts, as functions of their own for any number of rows.

    k = compress(x, p)             (k, 512)          k = compress(x, p)
    h = relu(matmul(k, W) + b)     (k, 1024)    ->   y = main_rows0(k)
    y = matmul(h, V)               (k, 8)
                                                     main_rows0(x: (n, 512)):
                                                         h = relu(matmul(x, W) + b)
                                                         return matmul(h, V)

Such a function is a network with an open batch: some batches get code of their own, any other runs
as a sum of these (:mod:`.dispatch`). Templates know numbers only, so that these layers would be
TVM's own code otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.ir import Call, GlobalVar
from tvm.relax.expr import _update_type

from tvm_neocpu.relay_passes.batches.row_runs import RowRun, row_runs
from tvm_neocpu.relay_passes.ir.exprs import variables
from tvm_neocpu.relay_passes.ir.regions import regions_of, relax_functions
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions

# What a stub calls; no such function exists.
_STUB = "neocpu.rows"


@dataclass(frozen=True)
class Outlined:
    """A module that calls functions of rows, and these: modules of one ``main`` each, by name."""

    mod: tvm.IRModule
    rows: Mapping[str, tvm.IRModule]


def outline_rows(mod: tvm.IRModule, prefix: str) -> Outlined:
    """Every run of layers over one open extent becomes a function ``prefix0``, ``prefix1`` ..

    Each takes and gives tensors whose first extent is the number of rows. In the module a function
    of that name, which cannot run, stands for it until its code is there.

    Needs: constants are folded. Leaves: no product or convolution of open rows by a constant whose
    rows are independent.
    """
    runs = [
        run
        for _, function in relax_functions(mod)
        for region in regions_of(function)
        for run in row_runs(mod, region)
    ]
    if not runs:
        return Outlined(mod, {})
    called: dict[relax.Var, tuple[RowRun, GlobalVar]] = {}
    rows, with_stubs = {}, mod.clone()
    for number, run in enumerate(runs):
        name = GlobalVar(f"{prefix}{number}")
        rows[name.name_hint] = run.module
        stub = _stub(run.module["main"])
        _update_type(name, stub.ty)
        with_stubs[name] = stub
        called |= {binding.var: (run, name) for binding in run.members}

    def rewrite(scope: Scope) -> None:
        for binding in _in_order(scope, called):
            scope.bind(binding.var, binding.value)

    return Outlined(rewrite_regions(with_stubs, rewrite), rows)


def _stub(function: relax.Function) -> relax.Function:
    """A private function of the same type that keeps its caller's types true."""
    made = relax.utils.copy_with_new_vars(function)
    call = relax.call_pure_packed(_STUB, *made.params, ty_args=[made.ret_ty])
    result = relax.Var("result", made.ret_ty)
    block = relax.DataflowBlock([relax.VarBinding(result, call)])
    return relax.Function(made.params, relax.SeqExpr([block], result), made.ret_ty)


def _in_order(
    scope: Scope, called: Mapping[relax.Var, tuple[RowRun, GlobalVar]]
) -> Iterator[relax.VarBinding]:
    """The region's bindings with a call in each run's place, none before what it reads."""
    bindings = {binding.var: binding for binding in scope.region.bindings}
    done: set[relax.Var] = set()

    def needed(reads: Sequence[relax.Var]) -> Iterator[relax.VarBinding]:
        for var in reads:
            if var in bindings and var not in done:
                yield from emitted(var)

    def emitted(var: relax.Var) -> Iterator[relax.VarBinding]:
        if var not in called:
            yield from needed(tuple(variables(bindings[var].value)))
            done.add(var)
            yield bindings[var]
            return
        run, name = called[var]
        yield from needed(run.inputs)
        done.update(member.var for member in run.members)
        yield from _call(scope, run, name)

    for var in bindings:
        if var not in called:
            yield from needed([var])
    yield from needed(tuple(bindings))


def _call(scope: Scope, run: RowRun, name: GlobalVar) -> Iterator[relax.VarBinding]:
    """The call of a run's function, and its results at the shapes that they had."""
    inputs = [
        scope.emit(relax.op.reshape(var, shape)) if shape is not None else var
        for var, shape in zip(run.inputs, run.input_rows, strict=True)
    ]
    result = scope.emit(Call(name, inputs))
    for at, (var, shape) in enumerate(zip(run.outputs, run.output_rows, strict=True)):
        value = relax.TupleGetItem(result, at) if len(run.outputs) > 1 else result
        if shape is not None:
            value = relax.op.reshape(scope.emit(value), var.ty.shape)
        yield relax.VarBinding(var, value)
