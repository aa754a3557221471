"""Where two layers meet, the one that is stored is stored as the codes that it was rounded to.

    a = dequantize(codes_a = quantize(conv(x)))
    b = dequantize(codes_b = quantize(conv(y)))
    add(a, b)

TVM's fusion gives the sum to the convolution that comes first, and the other one all that stands in
front of the sum: it would store floats, four times the bytes of its codes. A value that leaves its
dataflow block ends a fused group, so the codes are made such a value; what dequantises them then
joins the sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.ir import GlobalVar

from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, call_of, dtype_of, over_variables
from tvm_neocpu.relay_passes.ir.regions import count_uses, relax_functions
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE

# relax.OpPatternKind: elementwise and broadcasting functions have no higher one.
BROADCAST = 1
CODES = "uint8"


@dataclass(frozen=True)
class _Chain:
    """A run of elementwise calls: the place of the layer that it follows, its last codes."""

    layer: int
    codes: relax.Var | None = None


def store_codes(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with such codes as outputs of their dataflow blocks.

    Needs: functions know their patterns (AnnotateTIROpPattern), FuseOps comes next.
    """
    result = mod.clone()
    for name, function in relax_functions(mod):
        codes = _codes_to_store(mod, function)
        if codes:
            result.update_func(name, _with_outputs(function, codes))
    return relax.transform.Normalize()(result)  # rebuilt values have no type yet


def _codes_to_store(mod: tvm.IRModule, function: relax.Function) -> set[relax.Var]:
    uses = count_uses(function)
    chains: dict[relax.Var, _Chain] = {}
    found: set[relax.Var] = set()
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    for place, binding in enumerate(bindings):
        pattern, arguments = _pattern(mod, binding.value)
        if pattern == OUT_ELEMWISE_FUSABLE:
            chains[binding.var] = _Chain(place)
        if pattern > BROADCAST:
            continue
        met = [chains[arg] for arg in arguments if arg in chains and uses[arg] == 1]
        if not met:
            continue
        first = min(met, key=lambda chain: chain.layer)
        found |= {chain.codes for chain in met if chain is not first and chain.codes is not None}
        chains[binding.var] = first
        if dtype_of(binding.var) == CODES:
            chains[binding.var] = _Chain(first.layer, binding.var)
    return found


def _pattern(mod: tvm.IRModule, value: relax.Expr) -> tuple[int, list[relax.Expr]]:
    """The pattern of the function that a value calls, and the tensors that it reads.

    Above all patterns for anything else.
    """
    if call_of(value, CALL_TIR) is None or not isinstance(value.args[0], GlobalVar):
        return _OTHER
    attrs = mod[value.args[0]].attrs
    if attrs is None or "op_pattern" not in attrs:
        return _OTHER
    return int(attrs["op_pattern"]), list(value.args[1].fields)


_OTHER: tuple[int, list[relax.Expr]] = (1 << 30, [])


def _with_outputs(function: relax.Function, codes: set[relax.Var]) -> relax.Function:
    renamed = {var: relax.Var(var.name, var.ty) for var in codes}

    def block(old: relax.BindingBlock) -> relax.BindingBlock:
        bindings = [
            relax.VarBinding(
                renamed.get(binding.var, binding.var),
                over_variables(binding.value, lambda var: renamed.get(var, var)),
            )
            if isinstance(binding, relax.VarBinding)
            else binding
            for binding in old.bindings
        ]
        return type(old)(bindings, old.span)

    blocks = [
        block(old) if isinstance(old, relax.DataflowBlock) else old for old in function.body.blocks
    ]
    body = relax.SeqExpr(blocks, function.body.body, function.body.span)
    return relax.Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )
