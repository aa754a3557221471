"""Calls whose results are allocated before them, which TVM's planner leaves as they are.

y = call_tir(f, x)   ->   y = alloc_tensor(..); f(x, y)
z = reshape(y)       ->   z = vm.builtin.reshape(y)      the same memory
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import relax
from tvm.ir import Call, GlobalVar
from tvm.relax import Var, VarBinding

from tvm_neocpu.relay_passes.ir.exprs import variables

Bindings = Sequence[VarBinding]

ALLOCATE, RESHAPE = "relax.builtin.alloc_tensor", "relax.reshape"
# What an allocation becomes that names its storage.
IN_STORAGE = "relax.memory.alloc_tensor"
# The call that TVM turns a reshape into. Of a reshape among explicit allocations it makes a copy.
VIEW = relax.ExternFunc("vm.builtin.reshape")


def with_allocations(mod: tvm.IRModule) -> tvm.IRModule:
    """All results of calls allocated explicitly; reshapes are not views yet."""
    return tvm.transform.Sequential(
        [
            relax.transform.RewriteDataflowReshape(),
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
        ]
    )(mod)


def viewed(reshape: VarBinding) -> VarBinding:
    """A reshape's binding as a view of the same memory."""
    return VarBinding(reshape.var, Call(VIEW, reshape.value.args, None, [reshape.var.ty]))


def callee(binding: VarBinding) -> str:
    """The name of the function that a binding calls; ``""`` if it calls none."""
    value = binding.value
    called = isinstance(value, Call) and isinstance(value.op, GlobalVar)
    return str(value.op.name_hint) if called else ""


def uses_of(bindings: Bindings, owners: Mapping[Var, Var]) -> dict[Var, list[int]]:
    """The calls that take each allocation, by their places, ascending."""
    uses: dict[Var, list[int]] = {}
    for at, binding in enumerate(bindings):
        for name in variables(binding.value) if callee(binding) else ():
            if name in owners:
                uses.setdefault(owners[name], []).append(at)
    return uses
