"""Feature maps that are stored as bf16, because the one layer that reads them rounds them to it.

    y = relu(conv2d(x, V))             y = bf16(relu(conv2d(x, V)))
    z = conv2d(bf16(y), W)      ->     z = conv2d(y, W)

The same numbers are multiplied; the map takes half the bytes, and the layer that makes it rounds
whole vectors on their way to memory, in place of a copy in front of the layer that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import tvm
from tvm import relax, te

from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_MAPS, BF16_WEIGHTS
from tvm_neocpu.relay_passes.ir.exprs import op_name, operands
from tvm_neocpu.relay_passes.ir.regions import regions_of, relax_functions
from tvm_neocpu.relay_passes.layouts.elementwise import BINARY, UNARY
from tvm_neocpu.relay_passes.operators.call_form import ELEMENTWISE, OUT_ELEMWISE_FUSABLE, CallForm
from tvm_neocpu.relay_passes.operators.table import read_call
from tvm_neocpu.topi.math.bf16_products import rounded_bits
from tvm_neocpu.topi.operator import Implementation

# What TVM fuses with the layer in front of it, and rounding with that.
EPILOGUES = UNARY | BINARY

# The implementation of a call of a form; ``None`` where no template takes it.
ImplementationOf = Callable[[relax.Call, CallForm, Workload], Implementation | None]


def rounded_maps(
    mod: tvm.IRModule, uses: Mapping[relax.Var, int], implementation: ImplementationOf
) -> frozenset[relax.Var]:
    """The variables of a module with layouts that are to be stored as bf16.

    ``uses``: how often each of its variables is read.
    """
    found = set()
    for _, function in relax_functions(mod):
        for region in regions_of(function):
            made = {binding.var: binding.value for binding in region.bindings}
            for value in made.values():
                data = _rounded_by(value, implementation)
                if data in made and uses[data] == 1 and _is_made_by_layer(data, made, uses):
                    found.add(data)
    return frozenset(found)


def stored_as_bf16(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Var:
    """The map's bits, rounded to nearest: a call that the layer in front takes along."""

    def rounded(wide: te.Tensor) -> te.Tensor:
        return te.compute(wide.shape, lambda *at: rounded_bits(wide(*at)), name="T_bf16")

    attrs = {"op_pattern": ELEMENTWISE}
    call = builder.call_te(rounded, data, primfunc_name_hint="bf16", primfunc_attrs=attrs)
    return builder.emit(call)


def over_stored(workload: Workload) -> Workload:
    """The workload of the layer that reads such a map."""
    changed: Workload = replace(workload, types=BF16_MAPS)  # type: ignore[type-var]
    return changed


def as_planned(workload: Workload) -> Workload:
    """The layer that the plan knows: it does not name maps that are stored so."""
    if workload.types != BF16_MAPS:
        return workload
    changed: Workload = replace(workload, types=BF16_WEIGHTS)  # type: ignore[type-var]
    return changed


def _rounded_by(value: relax.Expr, implementation: ImplementationOf) -> relax.Expr | None:
    """The map that a layer rounds before it multiplies, and could read rounded."""
    found = read_call(value)
    if found is None or found[1].types != BF16_WEIGHTS:
        return None
    form, workload = found
    entry = implementation(value, form, workload)
    if entry is None or BF16_MAPS not in entry.types or not form.layouts(value)[0].is_blocked:
        return None
    return form.tensors(value)[0]


def _is_made_by_layer(
    data: relax.Var, made: Mapping[relax.Var, relax.Expr], uses: Mapping[relax.Var, int]
) -> bool:
    """Whether a layer ends in this map, with nothing but its epilogue in between."""
    reads: dict[relax.Var, int] = {data: 1}
    front, layers = [data], []
    while front:
        var = front.pop()
        value = made.get(var)
        if _is_layer(value):
            layers.append(var)
        elif op_name(value) in EPILOGUES:
            for operand in _variables(value):
                if operand not in reads:
                    front.append(operand)
                reads[operand] = reads.get(operand, 0) + 1
    return any(uses[layer] == reads[layer] for layer in layers)


def _is_layer(value: relax.Expr | None) -> bool:
    found = None if value is None else read_call(value)
    return found is not None and found[0].pattern == OUT_ELEMWISE_FUSABLE


def _variables(call: relax.Expr) -> Iterator[relax.Var]:
    return (operand for operand in operands(call) if isinstance(operand, relax.Var))
