"""Groups of calls in a region: what depends on their inner outputs, and all bindings in order."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import variables
from tvm_neocpu.relay_passes.ir.regions import Region
from tvm_neocpu.relay_passes.ir.rewrite import Scope


@dataclass(frozen=True)
class Group:
    """Bindings that become one: all but the last vanish, the last one becomes ``call``.

    ``taps``: those whose results are outputs of the call too, in front of the last one's.
    """

    gone: tuple[relax.VarBinding, ...]
    last: relax.VarBinding
    call: relax.Call
    taps: tuple[relax.VarBinding, ...] = ()


def behind(
    taps: AbstractSet[relax.Var],
    own: AbstractSet[relax.Var],
    region: Region,
    groups: Sequence[Group],
) -> set[relax.Var]:
    """Taps, and what depends on them by other ways than their chain, whose variables are ``own``.

    Of another group all depends on what one of its layers depends on: it is one call.
    """
    group_of = {b.var: group for group in groups for b in (*group.gone, group.last)}
    found = set(taps)
    grows = True
    while grows:
        before = len(found)
        for binding in region.bindings:
            if binding.var in own or not any(var in found for var in variables(binding.value)):
                continue
            group = group_of.get(binding.var)
            found |= {binding.var} if group is None else {b.var for b in (*group.gone, group.last)}
        grows = len(found) > before
    return found


def bind_groups(scope: Scope, groups: Sequence[Group]) -> None:
    """Bind calls and groups, each once all that it reads is bound: a tap moves its readers."""
    by_last = {group.last.var: group for group in groups}
    gone = {binding.var for group in groups for binding in group.gone}
    waiting = {binding.var for binding in scope.region.bindings}
    pending = [binding for binding in scope.region.bindings if binding.var not in gone]
    while pending:
        later = []
        for binding in pending:
            group = by_last.get(binding.var)
            value = binding.value if group is None else group.call
            if any(var in waiting for var in variables(value)):
                later.append(binding)
                continue
            waiting -= _bind(scope, binding, group)
        assert len(later) < len(pending), "groups read each other"
        pending = later


def _bind(scope: Scope, binding: relax.VarBinding, group: Group | None) -> set[relax.Var]:
    """Bind a variable, or all that a group makes; returns what is bound or gone."""
    if group is None or not group.taps:
        scope.bind(binding.var, binding.value if group is None else group.call)
        return {binding.var}
    whole = scope.emit(group.call)
    made = [each.var for each in (*group.taps, group.last)]
    for at, var in enumerate(made):
        scope.bind(var, relax.TupleGetItem(whole, at))
    return set(made)
