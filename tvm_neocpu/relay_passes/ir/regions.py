"""The straight-line regions of a function: the pieces that every pass works on, one at a time.

A region is a maximal run of plain bindings in one block. A binding is plain if it is a pure call,
a tuple, one field of a tuple, or another name of a variable. An ``If``, a MatchCast, a local
function and an impure call bound regions; the branches of an ``If`` have regions of their own::

    lv = conv2d(x)           region 1, outputs: lv1
    lv1 = relu(lv)
    lv2 = match_cast(lv1)    boundary
    lv3 = conv2d(lv2)        region 2, inputs: lv2; outputs: lv3
    return lv3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import variables

_BOUNDARIES = (relax.If, relax.Function, relax.SeqExpr)


@dataclass(frozen=True, eq=False)
class Region:
    """Bindings in program order; ``uses`` counts the reads of every variable of the function."""

    bindings: tuple[relax.VarBinding, ...]
    uses: Counter[relax.Var]

    @cached_property
    def inputs(self) -> tuple[relax.Var, ...]:
        """The variables that the region reads and does not bind, in the order of first reading."""
        bound = {binding.var for binding in self.bindings}
        return tuple(var for var in self._reads if var not in bound)

    @cached_property
    def outputs(self) -> tuple[relax.Var, ...]:
        """The variables that the region binds and something outside it reads, in binding order."""
        inside = self._reads
        return tuple(b.var for b in self.bindings if self.uses[b.var] > inside[b.var])

    @cached_property
    def readers(self) -> dict[relax.Var, tuple[relax.VarBinding, ...]]:
        """The region's bindings that read each variable, once each, in program order."""
        found: dict[relax.Var, list[relax.VarBinding]] = {}
        for binding in self.bindings:
            for var in dict.fromkeys(variables(binding.value)):
                found.setdefault(var, []).append(binding)
        return {var: tuple(bindings) for var, bindings in found.items()}

    @cached_property
    def _reads(self) -> Counter[relax.Var]:
        return Counter(var for binding in self.bindings for var in variables(binding.value))


def relax_functions(mod: tvm.IRModule) -> list[tuple[tvm.ir.GlobalVar, relax.Function]]:
    """The module's Relax functions, by name."""
    functions = mod.functions_items()
    return [(name, func) for name, func in functions if isinstance(func, relax.Function)]


def regions_of(function: relax.Function) -> Iterator[Region]:
    """The regions in program order; the regions of an ``If``'s branches stand in its place."""
    return _regions_in(function.body, count_uses(function))


def bindings_of(function: relax.Function) -> Iterator[relax.Binding]:
    """Every binding in program order; the bindings in an ``If``'s branches precede its own."""
    return bindings_in(function.body)


def parts_of(
    block: relax.BindingBlock,
) -> Iterator[tuple[relax.VarBinding, ...] | relax.Binding]:
    """A block in order: the bindings of each region as a tuple, and each boundary by itself."""
    pure = isinstance(block, relax.DataflowBlock)
    for plain, run in groupby(block.bindings[:], lambda binding: _is_plain(binding, pure)):
        if plain:
            yield tuple(run)
        else:
            yield from run


def count_uses(function: relax.Function) -> Counter[relax.Var]:
    """How often each variable is read in the function; twice for ``multiply(x, x)``."""
    uses: Counter[relax.Var] = Counter(variables(function.body.body))
    for binding in bindings_of(function):
        uses.update(variables(binding.value))
    return uses


def count_module_uses(mod: tvm.IRModule) -> Counter[relax.Var]:
    """As :func:`count_uses`, over all functions of a module."""
    return sum((count_uses(function) for _, function in relax_functions(mod)), Counter())


def _is_plain(binding: relax.Binding, pure: bool) -> bool:
    if not isinstance(binding, relax.VarBinding) or type(binding.value) in _BOUNDARIES:
        return False
    return pure or not relax.analysis.contains_impure_call(binding.value)


def _regions_in(body: relax.SeqExpr, uses: Counter[relax.Var]) -> Iterator[Region]:
    for block in body.blocks:
        for part in parts_of(block):
            if isinstance(part, tuple):
                yield Region(part, uses)
            elif isinstance(part.value, relax.If):
                yield from _regions_in(part.value.true_branch, uses)
                yield from _regions_in(part.value.false_branch, uses)


def bindings_in(body: relax.SeqExpr) -> Iterator[relax.Binding]:
    """The same of a body, or of a branch."""
    for block in body.blocks:
        for binding in block.bindings[:]:
            if isinstance(binding.value, relax.If):
                yield from bindings_in(binding.value.true_branch)
                yield from bindings_in(binding.value.false_branch)
            yield binding


__all__ = [
    "Region",
    "bindings_in",
    "bindings_of",
    "count_module_uses",
    "count_uses",
    "parts_of",
    "regions_of",
    "relax_functions",
]
