"""Constants without elements become memory that each call allocates.

    return c: float32[3, 0]   ->   empty = alloc_tensor([3, 0], float32)
                                   return empty

TVM writes such a constant into a file and fails to read it: reading no byte counts as an error.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst


def without_empty_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """The module itself where it has none."""
    changed = {}
    for name, function in mod.functions.items():
        if not isinstance(function, relax.Function):
            continue
        empty = _Empty()
        mapped = tvm_ffi.structural_map(function, [(GenericConst, empty.variable)])
        if empty.bindings:
            changed[name] = _beginning_with(empty.bindings, mapped)
    if not changed:
        return mod
    result = mod.clone()
    for name, function in changed.items():
        result.update_func(name, function)
    return result


class _Empty:
    """The allocations of a function, one for each constant."""

    def __init__(self) -> None:
        self.bindings: list[relax.Binding] = []

    def variable(self, constant: GenericConst) -> relax.Expr:
        """The constant itself where it has elements."""
        value = constant.value
        if not isinstance(value, tvm.runtime.Tensor) or 0 not in value.shape:
            return constant
        shape = relax.ShapeExpr([int(extent) for extent in value.shape])
        call = relax.op.builtin.alloc_tensor(shape, str(value.dtype), 0)
        var = relax.Var("empty", constant.ty)
        self.bindings.append(relax.VarBinding(var, relax.BlockBuilder().normalize(call)))
        return var


def _beginning_with(bindings: list[relax.Binding], function: relax.Function) -> relax.Function:
    blocks = [relax.BindingBlock(bindings), *function.body.blocks[:]]
    body = relax.SeqExpr(blocks, function.body.body)
    made = (function.params, body, function.ret_ty, function.is_pure, function.attrs)
    return relax.Function(*made)
