"""Fold consecutive linear operations into the weights of one (CDUCA, graph engine).

y = conv2d(x, W)
y = batch_norm(y)        ->    y = conv2d(x, W')
y = multiply(y, s)             y = add(y, b)
y = add(y, t)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.constants import array_of, read_once
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions, tidy
from tvm_neocpu.relay_passes.linear.algebra import simplify
from tvm_neocpu.relay_passes.linear.calls import calls_of, write_linear_op
from tvm_neocpu.relay_passes.linear.chains import Chain, find_chains
from tvm_neocpu.relay_passes.linear.ops import Affine, LinearOp


@dataclass(frozen=True)
class FoldLinearOps:
    """Make one operation and one bias of every run of linear operations.

    A run is a chain in which each result but the last has one reader. Batch norms, scales and
    shifts go into the convolution, transposed convolution or dense layer before or after them.
    Dense layers merge with dense layers, 1x1 convolutions with convolutions, if that is no more
    work. A shift in front of a convolution that pads stays: the padding is zero, not the shift. A
    batch norm without a partner becomes a multiply and an add.

    With ``in_place`` a run's only weight is overwritten where nothing else in the module reads it.
    The caller must not use the module afterwards.

    Needs: weights and batch norms' parameters are constants; feature maps are plain NCHW.
    Leaves: no batch norm of inference with constant parameters whose first result alone is read.
    """

    name: ClassVar[str] = "fold-linear-ops"
    in_place: bool = False

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        mod = tidy(mod)
        own = read_once(mod) if self.in_place else frozenset[int]()
        return rewrite_regions(mod, partial(_fold_region, own))


def _fold_region(own: frozenset[int], scope: Scope) -> None:
    chains = find_chains(scope.region)
    for binding in scope.region.bindings:
        chain = chains.get(binding.var, ())
        ops = simplify(tuple(link.op for link in chain))
        if _pays_off(chain, ops):
            scope.bind(binding.var, _write_chain(scope, chain, ops, own))
        else:
            scope.bind(binding.var, binding.value)


def _pays_off(chain: Chain, ops: tuple[LinearOp, ...]) -> bool:
    """Whether to write ``ops`` in place of the chain: it has a batch norm, or gets simpler."""
    if any(link.is_batch_norm for link in chain):
        return True
    calls = sum(calls_of(op) for op in ops)
    if calls == len(chain):
        return len(chain) > 1 and any(not isinstance(op, Affine) for op in ops)
    return calls < len(chain)


def _write_chain(
    scope: Scope, chain: Chain, ops: tuple[LinearOp, ...], own: frozenset[int]
) -> relax.Expr:
    weights: dict[int, GenericConst] = {
        id(link.op.weight): link.weight for link in chain if not isinstance(link.op, Affine)
    }
    place = _place(chain, own)
    data = chain[0].source
    for op in ops:
        data = write_linear_op(scope, data, op, weights, place)
    return data


def _place(chain: Chain, own: frozenset[int]) -> GenericConst | None:
    """The chain's only weight, if its memory is among those of ``own``."""
    weighted = [link for link in chain if not isinstance(link.op, Affine)]
    if len(weighted) != 1 or weighted[0].weight is None:
        return None
    array = array_of(weighted[0].weight)
    return weighted[0].weight if array is not None and array.ctypes.data in own else None


__all__ = ["FoldLinearOps"]
