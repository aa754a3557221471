"""Networks that write their outputs into tensors which the caller passes.

    main(x):                           main(x):
        z = alloc_tensor(1, 16, 8, 8)      y = alloc_tensor(1, 1024)
        conv2d(x, z)                       return main_into(x, y)
        r = z seen as (1, 1024)
        return r                       main_into(x, y):
                                           z = y seen as (1, 16, 8, 8)
                                           conv2d(x, z)
                                           r = z seen as (1, 1024)
                                           return r

A segmentation network's output is megabytes that a caller else would copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax
from tvm.ir import Call, GlobalVar
from tvm.relax import Var, VarBinding
from tvm.relax.expr import _update_type

from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.relay_passes.ir.regions import bindings_in, bindings_of
from tvm_neocpu.relay_passes.ir.written_outputs import WRITTEN, into_name
from tvm_neocpu.relay_passes.memory.explicit import ALLOCATE, IN_STORAGE, VIEW
from tvm_neocpu.relay_passes.merge_networks import SYMBOL
from tvm_neocpu.topi.tir.functions.memory_params import are_constant


@dataclass(frozen=True)
class OutputsFromCaller:
    """Have ``NAME_into`` do what ``NAME`` did, in each network whose outputs can lie with a caller.

    Those are tensors of static shape that the function allocates itself, or views of all of such a
    tensor, and those for which each branch of an ``If`` allocates one; of several outputs in one
    allocation, the first. A function that TVM plans stays as it is.

    Needs: PlanMemory and SeparateBranches made the allocations explicit.
    Leaves: ``NAME``, which allocates and calls ``NAME_into``. The latter's parameters are the
    inputs, then the outputs that the attribute ``neocpu_written_outputs`` numbers.
    """

    networks: Sequence[str]
    name: ClassVar[str] = "outputs-from-caller"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        functions = dict(mod.functions)
        for network in self.networks:
            writing = _writing(mod[network], into_name(network))
            if writing is not None:
                name = GlobalVar(into_name(network))
                _update_type(name, writing.ty)
                functions[name] = writing
                functions[mod.get_global_var(network)] = _allocating(mod[network], name, writing)
        if len(functions) == len(mod.functions):
            return mod
        return relax.transform.Normalize()(tvm.IRModule(functions, attrs=mod.attrs))


def _writing(func: relax.Function, name: str) -> relax.Function | None:
    """The function with its outputs as parameters; ``None`` where it can take none of them."""
    if len(func.body.blocks) != 1:
        return None
    bindings = {binding.var: binding for binding in bindings_of(func)}
    params: dict[Var, Var] = {}  # allocation -> the new parameter
    written, outputs = [], []
    for number, result in enumerate(_results(func.body.body, bindings)):
        allocations = _allocations(result, bindings)
        if allocations and params.keys().isdisjoint(allocations):
            outputs.append(Var(f"output_{number}", result.ty))
            params |= dict.fromkeys(allocations, outputs[-1])
            written.append(number)
    if not params:
        return None
    unused = {
        bindings[var].value.args[0] for var in params if op_name(bindings[var].value) == IN_STORAGE
    }
    body = _body(func.body, params, unused)
    everything = [*func.params, *outputs]
    made = relax.Function(everything, body, func.ret_ty, func.is_pure, func.attrs, func.span)
    return relax.utils.copy_with_new_vars(made.with_attr(SYMBOL, name).with_attr(WRITTEN, written))


def _allocating(old: relax.Function, name: GlobalVar, writing: relax.Function) -> relax.Function:
    """The function of the old interface that calls the new one."""
    bindings = []
    for param in writing.params[len(old.params) :]:
        shape, dtype = relax.ShapeExpr(static_shape(param)), str(param.ty.dtype)
        allocated = relax.op.builtin.alloc_tensor(shape, dtype, 0)
        bindings.append(VarBinding(Var(param.name, param.ty), allocated))
    call = Call(name, [*old.params, *(binding.var for binding in bindings)])
    result = Var("result", old.ret_ty)
    block = relax.BindingBlock([*bindings, VarBinding(result, call)])
    body = relax.SeqExpr([block], result)
    return relax.Function(old.params, body, old.ret_ty, old.is_pure, old.attrs, old.span)


def _results(expr: relax.Expr, bindings: Mapping[Var, relax.Binding]) -> list[relax.Expr]:
    """The expressions of a result's tensors, tuples flattened."""
    if isinstance(expr, relax.Tuple):
        return [each for field in expr.fields for each in _results(field, bindings)]
    value = _value(expr, bindings)
    if isinstance(value, relax.Tuple | Var):
        return _results(value, bindings)
    return [expr]


def _allocations(expr: relax.Expr, bindings: Mapping[Var, relax.Binding]) -> list[Var]:
    """The allocation that a result is all of, under whatever shape, in each branch one; none for
    other tensors.
    """
    if static_shape(expr) is None:
        return []
    while isinstance(expr, Var):
        value = _value(expr, bindings)
        if isinstance(value, relax.If):
            return _of_branches(value, bindings)
        if isinstance(value, relax.TupleGetItem):
            choice = _value(value.tuple_value, bindings)
            is_choice = isinstance(choice, relax.If)
            return _of_branches(choice, bindings, value.index) if is_choice else []
        if _is_own(value, bindings):
            return [expr]
        is_view = isinstance(value, Call) and isinstance(value.op, relax.ExternFunc)
        if is_view and value.op.global_symbol == VIEW.global_symbol:
            value = value.args[0]
        if not isinstance(value, Var):
            return []
        expr = value
    return []


def _of_branches(
    choice: relax.If, bindings: Mapping[Var, relax.Binding], field: int | None = None
) -> list[Var]:
    """What either branch allocates for the result, or for one field of it; none if one returns what
    was there before it, which the other may read.
    """
    found = []
    for branch in (choice.true_branch, choice.false_branch):
        results = [branch.body] if field is None else _results(branch.body, bindings)[field:]
        allocations = _allocations(results[0], bindings) if results else []
        inside = {binding.var for binding in bindings_in(branch)}
        if not allocations or not inside.issuperset(allocations):
            return []
        found += allocations
    return found


def _is_own(value: relax.Expr | None, bindings: Mapping[Var, relax.Binding]) -> bool:
    """Whether it is memory of known size for one tensor alone: SeparateBranches gives each tensor a
    storage of its own, PlanMemory's arena has many.
    """
    if op_name(value) == ALLOCATE:
        return bool(are_constant(value.args[0].values))
    if op_name(value) != IN_STORAGE or not are_constant(value.args[2].values):
        return False
    storage = value.args[0]
    takers = [
        binding
        for binding in bindings.values()
        if op_name(getattr(binding, "value", None)) == IN_STORAGE
        if binding.value.args[0].same_as(storage)
    ]
    return len(takers) == 1


def _value(expr: relax.Expr, bindings: Mapping[Var, relax.Binding]) -> relax.Expr | None:
    binding = bindings.get(expr) if isinstance(expr, Var) else None
    return binding.value if isinstance(binding, VarBinding) else None


def _body(body: relax.SeqExpr, params: Mapping[Var, Var], unused: Set[Var]) -> relax.SeqExpr:
    """The same, with allocations as views of the caller's tensors, without ``unused`` storage."""
    blocks = [
        relax.BindingBlock(
            [_placed(each, params, unused) for each in block.bindings if each.var not in unused]
        )
        for block in body.blocks
    ]
    return relax.SeqExpr(blocks, body.body, body.span)


def _placed(binding: relax.Binding, params: Mapping[Var, Var], unused: Set[Var]) -> relax.Binding:
    """An allocation as a view of the caller's tensor; any other binding as it is."""
    value = binding.value
    if isinstance(value, relax.If):
        one, other = (
            _body(branch, params, unused) for branch in (value.true_branch, value.false_branch)
        )
        return VarBinding(binding.var, relax.If(value.cond, one, other, value.span))
    if binding.var not in params:
        return binding
    shape = value.args[0 if op_name(value) == ALLOCATE else 2]
    view = Call(VIEW, [params[binding.var], shape], None, [binding.var.ty])
    return VarBinding(binding.var, view)
