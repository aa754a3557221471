"""Fold consecutive linear operations into the weights of one (CDUCA, graph engine)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.exprs import call_of
from tvm_neocpu.relay_passes.ir.regions import Region
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions, tidy
from tvm_neocpu.relay_passes.linear.algebra import simplify
from tvm_neocpu.relay_passes.linear.calls import (
    calls_of,
    read_batch_norm,
    read_step,
    write_step,
)
from tvm_neocpu.relay_passes.linear.steps import Affine, Step


@dataclass(frozen=True)
class FoldLinearOps:
    """Make one operation and one bias of every run of linear operations that nobody else reads.

    Batch norms, scales and shifts go into the convolution, transposed convolution or dense layer
    before or after them; dense layers and 1x1 convolutions merge with their like where that costs
    nothing. A shift stays in front of a padded convolution, whose padding it would not reach. A
    batch norm without a partner becomes a multiply and an add. Needs constants folded.
    """

    name: ClassVar[str] = "fold-linear-ops"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(tidy(mod), _fold_region)


@dataclass(frozen=True, eq=False)
class _Link:
    """One linear operation of the module: ``out = step(source)``."""

    source: relax.Expr
    step: Step
    weight: relax.Expr | None = None
    is_batch_norm: bool = False


_Chain = tuple[_Link, ...]


def _fold_region(scope: Scope) -> None:
    chains = _find_chains(scope.region)
    for binding in scope.region.bindings:
        chain = chains.get(binding.var, ())
        steps = simplify(tuple(link.step for link in chain))
        if _pays_off(chain, steps):
            scope.bind(binding.var, _write_chain(scope, chain, steps))
        else:
            scope.bind(binding.var, binding.value)


def _find_chains(region: Region) -> dict[relax.Var, _Chain]:
    """The longest runs of linear operations, by the variable that they end in."""
    values = {binding.var: binding.value for binding in region.bindings}
    uses = region.uses
    chains: dict[relax.Var, _Chain] = {}
    for var, value in values.items():
        link = _read_link(value, values, uses)
        if link is None:
            continue
        source = link.source
        continues = isinstance(source, relax.Var) and uses[source] == 1
        chains[var] = (*(chains.pop(source, ()) if continues else ()), link)
    return chains


def _read_link(
    value: relax.Expr, values: dict[relax.Var, relax.Expr], uses: Counter[relax.Var]
) -> _Link | None:
    if isinstance(value, relax.TupleGetItem):
        return _read_batch_norm_link(value, values, uses)
    read = read_step(value)
    if read is None:
        return None
    source, step = read
    return _Link(source, step, None if isinstance(step, Affine) else value.args[1])


def _read_batch_norm_link(
    item: relax.TupleGetItem, values: dict[relax.Var, relax.Expr], uses: Counter[relax.Var]
) -> _Link | None:
    """A batch norm of whose three results only the first is read."""
    call = call_of(values.get(item.tuple_value), "relax.nn.batch_norm")
    if call is None or item.index != 0 or uses[item.tuple_value] != 1:
        return None
    read = read_batch_norm(call)
    return None if read is None else _Link(*read, is_batch_norm=True)


def _pays_off(chain: _Chain, steps: tuple[Step, ...]) -> bool:
    """Batch norms always go; otherwise nothing is rewritten that does not get simpler for it."""
    if any(link.is_batch_norm for link in chain):
        return True
    calls = sum(calls_of(step) for step in steps)
    if calls == len(chain):
        return len(chain) > 1 and any(not isinstance(step, Affine) for step in steps)
    return calls < len(chain)


def _write_chain(scope: Scope, chain: _Chain, steps: tuple[Step, ...]) -> relax.Expr:
    weights: dict[int, GenericConst] = {
        id(link.step.weight): link.weight for link in chain if not isinstance(link.step, Affine)
    }
    data = chain[0].source
    for step in steps:
        data = write_step(scope, data, step, weights)
    return data


__all__ = ["FoldLinearOps"]
