"""Fold a sum of linear branches of one tensor into one convolution (RepVGG, ACNet).

a = batch_norm(conv2d(x, W3))
b = batch_norm(conv2d(x, W1))    ->    y = conv2d(x, W)
c = batch_norm(x)                      y = add(y, t)
y = add(add(a, b), c)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.exprs import call_of, is_foldable, same_type
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions, tidy
from tvm_neocpu.relay_passes.linear.algebra import simplify
from tvm_neocpu.relay_passes.linear.branches import Branch, as_branch, merge_branches
from tvm_neocpu.relay_passes.linear.calls import write_linear_op
from tvm_neocpu.relay_passes.linear.chains import Chain, find_chains
from tvm_neocpu.relay_passes.linear.ops import Affine

_Values = Mapping[relax.Var, relax.Expr]


@dataclass(frozen=True)
class FoldParallelBranches:
    """Make one convolution of added branches that read the same tensor.

    A branch is a convolution with batch norms, scales and shifts, or those alone, or the tensor
    itself. The convolutions have the same stride and the same groups; smaller kernels are padded
    with zeros to the largest. Branches are folded where the sum has no more weights than they have
    together. A branch that has another reader stays, and so do the other terms of the sum.

    Needs: weights and batch norms' parameters are constants; feature maps are plain NCHW.
    """

    name: ClassVar[str] = "fold-parallel-branches"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(tidy(mod), _fold_region)


@dataclass(frozen=True, eq=False)
class _Term:
    """One summand: ``var``, which is ``branch`` of ``source`` if it is linear."""

    var: relax.Var
    source: relax.Expr | None = None
    branch: Branch | None = None


def _fold_region(scope: Scope) -> None:
    region = scope.region
    values = {binding.var: binding.value for binding in region.bindings}
    inner = _inner_sums(scope, values)
    sums = {var for var in values if _is_sum(values[var]) and var not in inner}
    chains = find_chains(region) if sums else {}
    for binding in region.bindings:
        folded = None
        if binding.var in sums:
            addends = list(_addends(binding.var, values, inner))
            folded = _fold(scope, _terms(scope, addends, chains))
        scope.bind(binding.var, binding.value if folded is None else folded)


def _is_sum(value: relax.Expr) -> bool:
    """An addition of two 4-D tensors of one type, neither of them constant."""
    call = call_of(value, "relax.add")
    if call is None or call.ty.ndim != 4 or not is_foldable(call):
        return False
    same = all(same_type(arg, call) for arg in call.args)
    return same and all(array_of(arg) is None for arg in call.args)


def _inner_sums(scope: Scope, values: _Values) -> set[relax.Var]:
    """The sums that another sum alone reads."""
    uses = scope.region.uses
    read = (arg for value in values.values() if _is_sum(value) for arg in value.args)
    return {arg for arg in read if uses[arg] == 1 and arg in values and _is_sum(values[arg])}


def _addends(var: relax.Var, values: _Values, inner: set[relax.Var]) -> Iterator[relax.Var]:
    """The summands of a sum of sums, from left to right."""
    for arg in values[var].args:
        if arg in inner:
            yield from _addends(arg, values, inner)
        else:
            yield arg


def _terms(
    scope: Scope, addends: list[relax.Var], chains: Mapping[relax.Var, Chain]
) -> list[_Term]:
    """The summands as terms; only those that share what they read are looked into."""
    found = {var: chains[var] for var in addends if var in chains and scope.region.uses[var] == 1}
    readers = Counter(chain[0].source for chain in found.values())
    read = {source for source in readers if readers[source] > 1 or source in addends}
    return [_term(var, found.get(var, ()), read) for var in addends]


def _term(var: relax.Var, chain: Chain, read: set[relax.Expr]) -> _Term:
    if var in read:  # a tensor that a branch reads is, as a summand, the identity of itself
        return _Term(var, var, as_branch((), _channels(var)))
    if not chain or chain[0].source not in read:
        return _Term(var)
    branch = as_branch(simplify(tuple(link.op for link in chain)), _channels(var))
    return _Term(var) if branch is None else _Term(var, chain[0].source, branch)


def _channels(var: relax.Var) -> int:
    return int(var.ty.shape.values[1])


def _fold(scope: Scope, terms: list[_Term]) -> relax.Expr | None:
    """The sum with its branches folded; ``None`` if there is nothing to fold."""
    left = list(terms)
    results: list[relax.Expr] = []
    by_source: dict[relax.Expr, list[_Term]] = {}
    for term in terms:
        if term.branch is not None:
            by_source.setdefault(term.source, []).append(term)
    for source, group in by_source.items():
        for branch, numbers in merge_branches([term.branch for term in group if term.branch]):
            if len(numbers) > 1:
                results.append(_write(scope, source, branch))
                taken = {id(group[number]) for number in numbers}
                left = [term for term in left if id(term) not in taken]
    if not results:
        return None
    results += [term.var for term in left]
    return reduce(lambda one, other: relax.op.add(scope.emit(one), other), results)


def _write(scope: Scope, source: relax.Expr, branch: Branch) -> relax.Expr:
    data = write_linear_op(scope, source, branch.op, {})
    bias = Affine(np.ones_like(branch.shift), branch.shift, 1)
    return write_linear_op(scope, data, bias, {})


__all__ = ["FoldParallelBranches"]
