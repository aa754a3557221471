"""Fold consecutive linear operations into the weights of one (CDUCA, graph engine).

y = conv2d(x, W)
y = batch_norm(y)        ->    y = conv2d(x, W')
y = multiply(y, s)             y = add(y, b)
y = add(y, t)
"""

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
    read_linear_op,
    write_linear_op,
)
from tvm_neocpu.relay_passes.linear.ops import Affine, LinearOp


@dataclass(frozen=True)
class FoldLinearOps:
    """Make one operation and one bias of every run of linear operations.

    A run is a chain in which each result but the last has one reader. Batch norms, scales and
    shifts go into the convolution, transposed convolution or dense layer before or after them.
    Dense layers merge with dense layers, 1x1 convolutions with convolutions, if that is no more
    work. A shift in front of a convolution that pads stays: the padding is zero, not the shift. A
    batch norm without a partner becomes a multiply and an add.

    Needs: weights and batch norms' parameters are constants; feature maps are plain NCHW.
    Leaves: no batch norm of inference with constant parameters whose first result alone is read.
    """

    name: ClassVar[str] = "fold-linear-ops"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(tidy(mod), _fold_region)


@dataclass(frozen=True, eq=False)
class _Link:
    """One linear operation of the module: ``out = op(source)``.

    ``weight`` is the constant that ``op.weight`` was read from.
    """

    source: relax.Expr
    op: LinearOp
    weight: relax.Expr | None = None
    is_batch_norm: bool = False


_Chain = tuple[_Link, ...]


def _fold_region(scope: Scope) -> None:
    chains = _find_chains(scope.region)
    for binding in scope.region.bindings:
        chain = chains.get(binding.var, ())
        ops = simplify(tuple(link.op for link in chain))
        if _pays_off(chain, ops):
            scope.bind(binding.var, _write_chain(scope, chain, ops))
        else:
            scope.bind(binding.var, binding.value)


def _find_chains(region: Region) -> dict[relax.Var, _Chain]:
    """The longest runs of linear operations, by the variable that each ends in."""
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
    read = read_linear_op(value)
    if read is None:
        return None
    source, op = read
    return _Link(source, op, None if isinstance(op, Affine) else value.args[1])


def _read_batch_norm_link(
    item: relax.TupleGetItem, values: dict[relax.Var, relax.Expr], uses: Counter[relax.Var]
) -> _Link | None:
    """A batch norm, if its first result is read and the other two are not."""
    call = call_of(values.get(item.tuple_value), "relax.nn.batch_norm")
    if call is None or item.index != 0 or uses[item.tuple_value] != 1:
        return None
    read = read_batch_norm(call)
    return None if read is None else _Link(*read, is_batch_norm=True)


def _pays_off(chain: _Chain, ops: tuple[LinearOp, ...]) -> bool:
    """Whether to write ``ops`` in place of the chain: it has a batch norm, or gets simpler."""
    if any(link.is_batch_norm for link in chain):
        return True
    calls = sum(calls_of(op) for op in ops)
    if calls == len(chain):
        return len(chain) > 1 and any(not isinstance(op, Affine) for op in ops)
    return calls < len(chain)


def _write_chain(scope: Scope, chain: _Chain, ops: tuple[LinearOp, ...]) -> relax.Expr:
    weights: dict[int, GenericConst] = {
        id(link.op.weight): link.weight for link in chain if not isinstance(link.op, Affine)
    }
    data = chain[0].source
    for op in ops:
        data = write_linear_op(scope, data, op, weights)
    return data


__all__ = ["FoldLinearOps"]
