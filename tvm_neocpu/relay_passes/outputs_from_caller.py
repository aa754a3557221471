"""A second function of each network, which writes its outputs into tensors that the caller passes.

main(x):                           main_into(x, y):
    z = alloc_tensor(1, 16, 8, 8)      z = y seen as (1, 16, 8, 8)
    conv2d(x, z)                       conv2d(x, z)
    y = z seen as (1, 1024)            y = z seen as (1, 1024)
    return y                           return y

A segmentation network's output is megabytes that a caller else would copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax
from tvm.ir import Call, GlobalVar
from tvm.relax import Var, VarBinding

from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.relay_passes.merge_networks import SYMBOL
from tvm_neocpu.relay_passes.plan_memory import ALLOCATE, VIEW
from tvm_neocpu.topi.tir.memory_params import are_constant

# The attribute of a second function: the numbers of the outputs that it takes, in their order.
WRITTEN = "neocpu_written_outputs"


def into_name(network: str) -> str:
    """The name of a network's second function."""
    return f"{network}_into"


@dataclass(frozen=True)
class OutputsFromCaller:
    """Add ``NAME_into`` for each public function ``NAME`` whose outputs can lie with the caller.

    Those are tensors of static shape that the function allocates itself, or views of all of such a
    tensor; of several outputs in one allocation, the first. A function with branches, or that TVM
    plans, gets no second one.

    Needs: PlanMemory made the allocations explicit.
    Leaves: every function as it was, and the new ones, which share all kernels. Their parameters
    are the inputs, then the outputs that the attribute ``neocpu_written_outputs`` numbers.
    """

    networks: Sequence[str]
    name: ClassVar[str] = "outputs-from-caller"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        functions = dict(mod.functions)
        for network in self.networks:
            second = _second_function(mod[network], into_name(network))
            if second is not None:
                functions[GlobalVar(into_name(network))] = second
        if len(functions) == len(mod.functions):
            return mod
        return relax.transform.Normalize()(tvm.IRModule(functions, attrs=mod.attrs))


def written_outputs(mod: tvm.IRModule, network: str) -> tuple[int, ...]:
    """The outputs that a network's second function takes; empty if there is no such function."""
    for var, func in mod.functions.items():
        if var.name_hint == into_name(network) and func.attrs and WRITTEN in func.attrs:
            return tuple(map(int, func.attrs[WRITTEN]))
    return ()


def _second_function(func: relax.Function, name: str) -> relax.Function | None:
    if len(func.body.blocks) != 1:
        return None
    bindings = {binding.var: binding for binding in func.body.blocks[0].bindings}
    params: dict[Var, Var] = {}  # allocation -> the new parameter
    written = []
    for number, result in enumerate(_results(func.body.body, bindings)):
        allocation = _allocation(result, bindings)
        if allocation is not None and allocation not in params:
            params[allocation] = Var(f"output_{number}", result.ty)
            written.append(number)
    if not params:
        return None
    new = [_placed(binding, params) for binding in bindings.values()]
    body = relax.SeqExpr([relax.BindingBlock(new)], func.body.body)
    everything = [*func.params, *params.values()]
    made = relax.Function(everything, body, func.ret_ty, func.is_pure, func.attrs, func.span)
    return relax.utils.copy_with_new_vars(made.with_attr(SYMBOL, name).with_attr(WRITTEN, written))


def _results(expr: relax.Expr, bindings: Mapping[Var, relax.Binding]) -> list[relax.Expr]:
    """The expressions of a result's tensors, tuples flattened."""
    if isinstance(expr, relax.Tuple):
        return [each for field in expr.fields for each in _results(field, bindings)]
    value = _value(expr, bindings)
    if isinstance(value, relax.Tuple | Var):
        return _results(value, bindings)
    return [expr]


def _allocation(expr: relax.Expr, bindings: Mapping[Var, relax.Binding]) -> Var | None:
    """The allocation that a result is all of, under whatever shape; ``None`` for other tensors."""
    if static_shape(expr) is None:
        return None
    while isinstance(expr, Var):
        value = _value(expr, bindings)
        if op_name(value) == ALLOCATE and are_constant(value.args[0].values):
            return expr
        is_view = isinstance(value, Call) and isinstance(value.op, relax.ExternFunc)
        if is_view and value.op.global_symbol == VIEW.global_symbol:
            value = value.args[0]
        if not isinstance(value, Var):
            return None
        expr = value
    return None


def _value(expr: relax.Expr, bindings: Mapping[Var, relax.Binding]) -> relax.Expr | None:
    binding = bindings.get(expr) if isinstance(expr, Var) else None
    return binding.value if isinstance(binding, VarBinding) else None


def _placed(binding: relax.Binding, params: Mapping[Var, Var]) -> relax.Binding:
    """An allocation as a view of the caller's tensor; any other binding as it is."""
    if binding.var not in params:
        return binding
    view = Call(VIEW, [params[binding.var], binding.value.args[0]], None, [binding.var.ty])
    return VarBinding(binding.var, view)
