"""Layers of a network that one function may compute, priced by the cost model.

Today these are depthwise layers with the 1x1 layers around them and stacks of dense convolutions
(`topi/fused_block`), and a layer with the pool behind it (:mod:`.pool_candidates`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.candidate import Candidate, layouts_of
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layer_group import GroupCandidate, GroupNode, LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.fused_block.cost import (
    best_block,
    priced,
)
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, misfit
from tvm_neocpu.topi.fused_block.geometry import candidates as blocks_of
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.tuning.layer_chains import LayerChain, chains_of
from tvm_neocpu.tuning.pool_candidates import planned_pool_groups, pool_groups_of

# Schemes of members so many times slower than the best one are not offered as a group: what a
# group saves is a few per cent, of a stack of dense layers still less.
HOPELESS, HOPELESS_IN_STACK = 1.5, 1.05

Schemes = Sequence[Sequence[Candidate]]


def groups_of(
    graph: ConvGraph,
    candidates: Mapping[Workload, Sequence[Candidate]],
    cpu: Cpu,
    plan: Plan | None = None,
) -> tuple[GroupNode, ...]:
    """The groups for the layout problem, under those schemes with which they may gain.

    Those within the model's error cost time there: the search does not take them, but a tuned plan
    may have them. The groups of ``plan`` are offered, whatever the model says of them: without its
    margin where that has kept the search from them.
    """
    known: dict[tuple[object, ...], tuple[GroupCandidate, ...]] = {}
    found = []
    for chain in chains_of(graph):
        workloads = chain.workloads
        key = workloads, tuple(node.id in chain.taps for node in chain.nodes)
        if key not in known:
            limit = HOPELESS_IN_STACK if chain.is_stack else HOPELESS
            schemes = [_quick(candidates[workload], limit) for workload in workloads]
            known[key] = tuple(
                offered
                for part in chain.parts
                for offered in _candidates(chain, part, schemes, cpu)
            )
        planned = () if plan is None else tuple(_planned(chain, plan, candidates, cpu))
        sure = [group for group in known[key] if group.gain > 0 or not _is_among(group, planned)]
        offered = (*sure, *(group for group in planned if not _is_among(group, sure)))
        if offered:
            found.append(GroupNode(chain.members, offered))
    taken = {member for group in found for member in group.members}
    return (*found, *pool_groups_of(graph, candidates, cpu, taken))


def with_groups(plan: Plan, graph: ConvGraph, cpu: Cpu) -> Plan:
    """The plan with groups where it says nothing of any: those that the cost model finds faster."""
    if plan.groups is not None:
        return plan
    groups = [group for gain, group in _best_groups(plan, graph, cpu) if gain > 0]
    taken = {member for group in groups for member in group.members}
    pools = planned_pool_groups(graph, plan.configs, cpu, taken)
    return replace(plan, groups=(*groups, *pools))


def with_doubtful_groups(plan: Plan, graph: ConvGraph, cpu: Cpu) -> Plan:
    """The plan with groups too that only a measurement can prove faster: the tuner tries them."""
    groups = plan.groups or ()
    taken = {member for group in groups for member in group.members}
    doubtful = [group for _, group in _best_groups(plan, graph, cpu, measured=True)]
    chains = [group for group in doubtful if taken.isdisjoint(group.members)]
    taken |= {member for group in chains for member in group.members}
    pools = planned_pool_groups(graph, plan.configs, cpu, taken, doubtful=True)
    return replace(plan, groups=(*groups, *chains, *pools))


def _best_groups(
    plan: Plan, graph: ConvGraph, cpu: Cpu, measured: bool = False
) -> Iterator[tuple[float, LayerGroup]]:
    """The group of every chain that gains most under the plan's configs, and its sure gain.

    Where no gain is sure, the group that is predicted to gain most. ``measured``: see `best_block`.
    """
    for chain in chains_of(graph):
        parts = [_priced(chain, part, plan, cpu, measured) for part in chain.parts]
        offered = [found for found in parts if found is not None]
        if offered:
            sure, _, group = max(offered, key=lambda found: (max(found[0], 0.0), found[1]))
            yield sure, group


def _priced(
    chain: LayerChain, part: range, plan: Plan, cpu: Cpu, measured: bool
) -> tuple[float, float, LayerGroup] | None:
    """Seconds that a group of a chain's layers gains under the plan's configs: surely, likely."""
    nodes = [chain.nodes[at] for at in part]
    configs = [plan.configs.get(node.id) for node in nodes]
    if None in configs:
        return None
    members = [Member(n.workload, c) for n, c in zip(nodes, configs, strict=True)]  # type: ignore[arg-type]
    best = best_block(members, cpu, chain.taps_in(part), measured)
    if best is None:
        return None
    group = LayerGroup(tuple(node.id for node in nodes), *best.block.bands)
    return best.saved_seconds, best.apart - best.fused, group


def _candidates(
    chain: LayerChain, part: range, schemes: Schemes, cpu: Cpu
) -> Iterator[GroupCandidate]:
    """What some layers of a chain gain, under those schemes that fit each other."""
    workloads = [chain.workloads[at] for at in part]
    for chosen in _fitting([schemes[at] for at in part]):
        members = [Member(w, c.config) for w, c in zip(workloads, chosen, strict=True)]
        best = best_block(members, cpu, chain.taps_in(part))
        if best is None:
            continue
        yield _offer(chain, part, chosen, best.block, best.saved_share)


def _planned(
    chain: LayerChain, plan: Plan, candidates: Mapping[Workload, Sequence[Candidate]], cpu: Cpu
) -> Iterator[GroupCandidate]:
    """The plan's groups of a chain's layers, where their configs are still candidates."""
    bands = {group.members: group.bands for group in plan.groups or ()}
    for part in chain.parts:
        ids = chain.members[part.start : part.stop]
        wanted = [(chain.workloads[at], plan.configs.get(chain.members[at])) for at in part]
        chosen = [c for conv, config in wanted for c in candidates[conv] if c.config == config]
        members = [Member(w, c.config) for (w, _), c in zip(wanted, chosen, strict=False)]
        if ids not in bands or len(chosen) < len(part) or misfit(members) is not None:
            continue
        for block in blocks_of(members, cpu.cores, chain.taps_in(part)):
            if block.bands == bands[ids]:
                found = priced(block, cpu)
                yield _offer(chain, part, chosen, block, 1 - found.fused / found.apart)


def _offer(
    chain: LayerChain, part: range, chosen: Sequence[Candidate], block: FusedBlock, share: float
) -> GroupCandidate:
    gain = share * sum(candidate.seconds for candidate in chosen)
    configs = dict(zip(part, (candidate.config for candidate in chosen), strict=True))
    everywhere = tuple(configs.get(at) for at in range(len(chain.nodes)))
    return GroupCandidate(everywhere, block.bands.rows, gain, block.bands.run)


def _is_among(group: GroupCandidate, offered: Sequence[GroupCandidate]) -> bool:
    return any(replace(group, gain=each.gain) == each for each in offered)


def _fitting(schemes: Schemes) -> list[tuple[Candidate, ...]]:
    """The schemes of layers in a row, each of which reads the layout that the one before writes."""
    rows: list[tuple[Candidate, ...]] = [(candidate,) for candidate in schemes[0]]
    for column in schemes[1:]:
        rows = [
            (*row, candidate)
            for row in rows
            for candidate in column
            if layouts_of(row[-1].config)[1] == layouts_of(candidate.config)[0]
        ]
    return rows


def _quick(schemes: Sequence[Candidate], times: float) -> list[Candidate]:
    limit = times * min(scheme.seconds for scheme in schemes)
    return [scheme for scheme in schemes if scheme.seconds <= limit]
