"""Every tensor of a function with branches has storage of its own.

TVM 0.27 plans both branches of an ``If`` as one block: the second branch takes storage that only
the first one allocates, and a run that skips the first one crashes. What is allocated explicitly,
TVM does not plan. The pool of the runtime reuses what is freed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.regions import bindings_of, relax_functions
from tvm_neocpu.relay_passes.memory.explicit import RESHAPE, viewed, with_allocations


@dataclass(frozen=True)
class SeparateBranches:
    """Allocate the results of calls explicitly in functions that have an ``If``.

    Needs: functions are scheduled; PlanMemory left the functions with branches as they were.
    Leaves: explicit allocations and calls in these functions, all others as they were.
    """

    name: ClassVar[str] = "separate-branches"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        branching = {name for name, function in relax_functions(mod) if _branches(function)}
        if not branching:
            return mod
        explicit = relax.transform.LowerAllocTensor()(with_allocations(mod))
        result = mod.clone()
        for name in branching:
            old = explicit[name]
            body = _body(old.body)
            function = relax.Function(
                old.params, body, old.ret_ty, old.is_pure, old.attrs, old.span
            )
            result.update_func(name, function)
        return relax.transform.Normalize()(result)


def _branches(function: relax.Function) -> bool:
    return any(isinstance(binding.value, relax.If) for binding in bindings_of(function))


def _body(body: relax.SeqExpr) -> relax.SeqExpr:
    blocks = [
        relax.BindingBlock([_binding(binding) for binding in block.bindings])
        for block in body.blocks
    ]
    return relax.SeqExpr(blocks, body.body, body.span)


def _binding(binding: relax.Binding) -> relax.Binding:
    value = binding.value
    if not isinstance(binding, relax.VarBinding):
        return binding
    if isinstance(value, relax.If):
        branches = (_body(value.true_branch), _body(value.false_branch))
        return relax.VarBinding(binding.var, relax.If(value.cond, *branches, value.span))
    return viewed(binding) if op_name(value) == RESHAPE else binding
