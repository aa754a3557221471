"""Runs of linear operations in a region, found for the passes that fold them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import call_of
from tvm_neocpu.relay_passes.ir.regions import Region
from tvm_neocpu.relay_passes.linear.calls import read_batch_norm, read_linear_op
from tvm_neocpu.relay_passes.linear.ops import Affine, LinearOp


@dataclass(frozen=True, eq=False)
class Link:
    """One linear operation of the module: ``out = op(source)``.

    ``weight`` is the constant that ``op.weight`` was read from.
    """

    source: relax.Expr
    op: LinearOp
    weight: relax.Expr | None = None
    is_batch_norm: bool = False


Chain = tuple[Link, ...]


def find_chains(region: Region) -> dict[relax.Var, Chain]:
    """The longest runs of linear operations, by the variable that each ends in."""
    values = {binding.var: binding.value for binding in region.bindings}
    uses = region.uses
    chains: dict[relax.Var, Chain] = {}
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
) -> Link | None:
    if isinstance(value, relax.TupleGetItem):
        return _read_batch_norm_link(value, values, uses)
    read = read_linear_op(value)
    if read is None:
        return None
    source, op = read
    return Link(source, op, None if isinstance(op, Affine) else value.args[1])


def _read_batch_norm_link(
    item: relax.TupleGetItem, values: dict[relax.Var, relax.Expr], uses: Counter[relax.Var]
) -> Link | None:
    """A batch norm, if its first result is read and the other two are not."""
    call = call_of(values.get(item.tuple_value), "relax.nn.batch_norm")
    if call is None or item.index != 0 or uses[item.tuple_value] != 1:
        return None
    read = read_batch_norm(call)
    return None if read is None else Link(*read, is_batch_norm=True)


__all__ = ["Chain", "Link", "find_chains"]
