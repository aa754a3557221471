"""Allocations of a network with branches, each with storage of its own.

TVM 0.27 plans both branches of an ``If`` as one block: the second branch takes storage that only
the first one allocates, and a run that skips the first one crashes. What is allocated explicitly,
TVM does not plan. The pool of the runtime reuses freed storage.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.regions import bindings_of, relax_functions

RESHAPE = "relax.reshape"
# The call that TVM turns a reshape into. Of a reshape among explicit allocations it makes a copy.
VIEW = relax.ExternFunc("vm.builtin.reshape")


def has_branches(function: relax.Function) -> bool:
    """Whether a function has an ``If``."""
    return any(isinstance(binding.value, relax.If) for binding in bindings_of(function))


def viewed(reshape: relax.VarBinding) -> relax.VarBinding:
    """A reshape as a call that shares the memory of its argument."""
    view = tvm.ir.Call(VIEW, reshape.value.args, None, [reshape.var.ty])
    return relax.VarBinding(reshape.var, view)


def without_shared_storage(explicit: tvm.IRModule) -> tvm.IRModule:
    """The module with the allocations of functions with branches as TVM leaves them.

    ``explicit`` is what CallTIRRewrite makes. Other functions stay.
    """
    result = explicit.clone()
    branching = [(name, old) for name, old in relax_functions(explicit) if has_branches(old)]
    if not branching:
        return result
    for name, old in branching:
        body = _body(old.body)
        function = relax.Function(old.params, body, old.ret_ty, old.is_pure, old.attrs, old.span)
        result.update_func(name, function)
    lowered = relax.transform.LowerAllocTensor()(relax.transform.Normalize()(result))
    for name, _ in branching:
        result.update_func(name, lowered[name])
    return result


def _body(body: relax.SeqExpr) -> relax.SeqExpr:
    blocks = [
        relax.BindingBlock([_binding(binding) for binding in block.bindings])
        for block in body.blocks
    ]
    return relax.SeqExpr(blocks, body.body, body.span)


def _binding(binding: relax.Binding) -> relax.Binding:
    if not isinstance(binding, relax.VarBinding):
        return binding
    value = binding.value
    if isinstance(value, relax.If):
        branches = (_body(value.true_branch), _body(value.false_branch))
        return relax.VarBinding(binding.var, relax.If(value.cond, *branches, value.span))
    return viewed(binding) if op_name(value) == RESHAPE else binding
