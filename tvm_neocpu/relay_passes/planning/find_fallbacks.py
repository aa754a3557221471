"""Find the arithmetic-heavy operations outside the plan: why no template takes them, or what they
cost where a function of ours computes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax, tirx

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import Coverage, Fallback, Fixed
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name
from tvm_neocpu.relay_passes.ir.regions import relax_functions
from tvm_neocpu.relay_passes.ir.tensor_types import tensors_of
from tvm_neocpu.relay_passes.operators.call_form import MultiplyAdds
from tvm_neocpu.relay_passes.operators.heavy import HEAVY, flops_of
from tvm_neocpu.relay_passes.operators.new.recurrence import OP as RECURRENCE
from tvm_neocpu.relay_passes.operators.new.recurrence import layer_of
from tvm_neocpu.relay_passes.operators.table import forms, read_decision, why_no_template
from tvm_neocpu.relay_passes.operators.tensor_products import multiply_adds_of
from tvm_neocpu.topi.recurrence.cost import ALGORITHM, predict_seconds


@dataclass(frozen=True)
class FindFallbacks:
    """What the plan covers of a network's arithmetic, what is left to TVM's legalisation, and the
    recurrent layers, each of which is one function.

    Heavy operations are the calls of :data:`.operators.heavy.HEAVY`, of operators that have
    templates, and of PrimFuncs that sum products. A call counts once, whether its function is
    called often or not at all.

    Needs: the module is folded, so that weights are constants; layouts are not altered yet.
    Leaves: the module as it was.
    """

    name: ClassVar[str] = "find-fallbacks"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> Coverage:
        ours = {form.op: form.multiply_adds for form in forms() if form.multiply_adds is not None}
        counts = {**HEAVY, **ours}
        heavy = counts.keys() | {form.op for form in forms() if form.decides}
        planned: list[int] = []
        fallbacks: list[Fallback | None] = []
        fixed: list[Fixed] = []

        def visit(expr: relax.Expr) -> None:
            name = op_name(expr)
            if name == CALL_TIR:
                fallbacks.append(_of_primfunc(mod, expr))
            elif name == RECURRENCE:
                fixed.append(_of_recurrence(expr, self.cpu))
            elif name not in heavy:
                return
            elif (why := why_no_template(expr, self.cpu)) is not None:
                fallbacks.append(_of_call(expr, why, counts.get(name)))
            elif (found := read_decision(expr)) is not None:
                planned.append(found[1].flops)

        for _, function in relax_functions(mod):
            relax.analysis.post_order_visit(function, visit)
        left = tuple(each for each in fallbacks if each is not None)
        return Coverage(sum(planned), left, tuple(fixed))


def _of_recurrence(call: relax.Call, cpu: Cpu) -> Fixed:
    layer = layer_of(call)
    return Fixed(layer.kind, layer.sizes, ALGORITHM, layer.flops, predict_seconds(layer, cpu))


def _of_call(call: relax.Call, why: str, multiply_adds: MultiplyAdds | None) -> Fallback | None:
    """``None`` for a call without products, such as an einsum that transposes."""
    flops = flops_of(call, multiply_adds) if multiply_adds is not None else None
    label = op_name(call).removeprefix("relax.").removeprefix("nn.")
    return None if flops == 0 else Fallback(label, _shapes(call.args, call), why, flops)


def _of_primfunc(mod: tvm.IRModule, call: relax.Call) -> Fallback | None:
    """``None`` for a PrimFunc that sums no products."""
    function = mod[call.args[0]]
    count = multiply_adds_of(function) if isinstance(function, tirx.PrimFunc) else 0
    if count == 0:
        return None
    flops = None if count is None else 2 * count
    label, shapes = call.args[0].name_hint, _shapes(call.args[1].fields, call)
    return Fallback(label, shapes, "the importer wrote it as loops", flops)


def _shapes(arguments: Iterable[relax.Expr], result: relax.Expr) -> str:
    """``"1x3x64, 8x3x5 -> 1x8x60"``; arguments that are no tensors are left out."""
    parts = [part for each in arguments for part in tensors_of(each.ty)]
    shown = [_shape(ty) for ty in parts if isinstance(ty, relax.TensorType)]
    return f"{', '.join(shown)} -> {_shape(result.ty)}"


def _shape(ty: relax.TensorType) -> str:
    """``"1x3x64"``; an unknown extent by its name, ``"nx3x64"``; ``"?"`` for an unknown shape."""
    values = getattr(ty.shape, "values", None)
    if values is None:
        return "?"
    extents = (int(x) if isinstance(x, tirx.IntImm) else x for x in values)
    return "x".join(map(str, extents)) or "scalar"
