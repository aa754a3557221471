"""Calls whose results are allocated before them, which TVM's planner leaves as they are.

y = call_tir(f, x)   ->   y = alloc_tensor(..); f(x, y)
z = reshape(y)       ->   z = vm.builtin.reshape(y)      the same memory
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.ir import Call
from tvm.relax import VarBinding

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
