"""Every straight-line region as a dataflow block, which TVM's fusion works on.

TVM's own ConvertToDataflow puts a MatchCast into a block too. Fusion sorts a block by the variables
that its bindings read, and an extent is none: a call would move before the MatchCast that binds an
extent of its result, and code generation would fail.

    lv = f(x)                                  with dataflow():  lv = f(x); output(lv)
    n = match_cast(shape_of(lv))        ->     n = match_cast(...)
    gv = g(lv, n)                              with dataflow():  gv = g(lv, n); output(gv)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import over_variables
from tvm_neocpu.relay_passes.ir.regions import Region, count_uses, parts_of, relax_functions


def regions_to_dataflow(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with a dataflow block for each region; what bounds regions stands between them."""
    mod = relax.transform.ToNonDataflow()(mod)
    result = mod.clone()
    for name, old in relax_functions(mod):
        body = _body(old.body, count_uses(old))
        function = relax.Function(old.params, body, old.ret_ty, old.is_pure, old.attrs, old.span)
        result.update_func(name, function)
    return relax.transform.Normalize()(result)  # rebuilt values have no type yet


def _body(body: relax.SeqExpr, uses: Counter[relax.Var]) -> relax.SeqExpr:
    blocks = [part for block in body.blocks for part in _blocks(block, uses)]
    return relax.SeqExpr(blocks, body.body, body.span)


def _blocks(block: relax.BindingBlock, uses: Counter[relax.Var]) -> Iterator[relax.BindingBlock]:
    for part in parts_of(block):
        if isinstance(part, tuple):
            yield _dataflow(Region(part, uses))
        else:
            yield relax.BindingBlock([_boundary(part, uses)])


def _dataflow(region: Region) -> relax.DataflowBlock:
    kept = set(region.outputs)
    inner: dict[relax.Var, relax.Var] = {}
    bindings = []
    for binding in region.bindings:
        value = over_variables(binding.value, lambda var: inner.get(var, var))
        old = binding.var
        if old not in kept:
            inner[old] = relax.DataflowVar(old.name, old.ty)
        bindings.append(relax.VarBinding(inner.get(old, old), value))
    return relax.DataflowBlock(bindings)


def _boundary(binding: relax.Binding, uses: Counter[relax.Var]) -> relax.Binding:
    value = binding.value
    if not isinstance(binding, relax.VarBinding) or not isinstance(value, relax.If):
        return binding
    branches = (_body(value.true_branch, uses), _body(value.false_branch, uses))
    return relax.VarBinding(binding.var, relax.If(value.cond, *branches, value.span))
