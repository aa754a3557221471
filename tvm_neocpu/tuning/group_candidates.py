"""Layers of a network that one function may compute, priced by the cost model.

Today these are a depthwise layer and the 1x1 layer that alone reads it, and a layer with the pool
behind it (:mod:`.pool_candidates`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from tvm_neocpu.core.candidate import Candidate
from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layer_group import GroupCandidate, GroupNode, LayerGroup
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.cost import best_block, saved_share
from tvm_neocpu.topi.fused_block.geometry import Member
from tvm_neocpu.tuning.pool_candidates import planned_pool_groups, pool_groups_of

# Schemes of members so many times slower than the best one are not offered as a group: what a
# group saves is a few per cent.
HOPELESS = 1.5

Pair = tuple[GraphNode, GraphNode]


def groups_of(
    graph: ConvGraph, candidates: Mapping[Workload, Sequence[Candidate]], cpu: Cpu
) -> tuple[GroupNode, ...]:
    """The groups for the layout problem, under those schemes with which they gain."""
    known: dict[tuple[Workload, Workload], tuple[GroupCandidate, ...]] = {}
    found = []
    for first, last in _pairs(graph):
        assert first.workload is not None and last.workload is not None
        workloads = first.workload, last.workload
        if workloads not in known:
            schemes = candidates[first.workload], candidates[last.workload]
            known[workloads] = tuple(_candidates(workloads, schemes, cpu))
        if known[workloads]:
            found.append(GroupNode((first.id, last.id), known[workloads]))
    taken = {member for group in found for member in group.members}
    return (*found, *pool_groups_of(graph, candidates, cpu, taken))


def with_groups(plan: Plan, graph: ConvGraph, cpu: Cpu) -> Plan:
    """The plan with groups where it says nothing of any: those that the cost model finds faster."""
    if plan.groups is not None:
        return plan
    groups = []
    for pair in _pairs(graph):
        configs = [plan.configs.get(node.id) for node in pair]
        members = [Member(n.workload, c) for n, c in zip(pair, configs, strict=True)]  # type: ignore[arg-type]
        block = None if None in configs else best_block(members[0], members[1], cpu)
        if block is not None:
            groups.append(LayerGroup((pair[0].id, pair[1].id), block.rows))
    taken = {member for group in groups for member in group.members}
    pools = planned_pool_groups(graph, plan.configs, cpu, taken)
    return replace(plan, groups=(*groups, *pools))


def _candidates(
    workloads: tuple[Workload, Workload],
    schemes: tuple[Sequence[Candidate], Sequence[Candidate]],
    cpu: Cpu,
) -> Iterator[GroupCandidate]:
    for first, last in product(*map(_quick, schemes)):
        members = [Member(w, c.config) for w, c in zip(workloads, (first, last), strict=True)]  # type: ignore[arg-type]
        block = best_block(members[0], members[1], cpu)
        if block is not None:
            gain = saved_share(block, cpu) * (first.seconds + last.seconds)
            yield GroupCandidate((first.config, last.config), block.rows, gain)


def _quick(schemes: Sequence[Candidate]) -> list[Candidate]:
    limit = HOPELESS * min(scheme.seconds for scheme in schemes)
    return [scheme for scheme in schemes if scheme.seconds <= limit]


def _pairs(graph: ConvGraph) -> Iterator[Pair]:
    """Every depthwise layer with the 1x1 layer behind it, where nothing else reads what it writes.

    A product of the layer with itself, such as HardSwish makes, may stand between them. Whether
    something else does that is no epilogue, lowering alone sees.
    """
    into: dict[str, list[str]] = defaultdict(list)
    readers: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        into[edge.dst].append(edge.src)
        readers[edge.src].append(edge.dst)
    for last in graph.convs:
        between, sources = _behind(last.id, into, graph.joins)
        if len(sources) != 1:
            continue
        first = graph.by_id[sources.pop()]
        before, after = first.workload, last.workload
        if not (isinstance(before, ConvWorkload) and isinstance(after, ConvWorkload)):
            continue
        fits = before.is_depthwise and after.is_pointwise and before.out_shape == after.in_shape
        alone = all({*readers[id]} <= {*between, last.id} for id in (first.id, *between))
        if fits and alone:
            yield first, last


def _behind(
    id: str, into: Mapping[str, Sequence[str]], joins: Collection[str]
) -> tuple[set[str], set[str]]:
    """The joins that a node reads, and what they or it read in turn that is no join."""
    between: set[str] = set()
    sources: set[str] = set()
    front = [*into[id]]
    while front:
        source = front.pop()
        if source not in joins:
            sources.add(source)
        elif source not in between:
            between.add(source)
            front += into[source]
    return between, sources
