"""Layers of a network that one function may compute, priced by the cost model.

Today these are depthwise layers with the 1x1 layers around them and stacks of dense convolutions
(`topi/fused_block`), and a layer with the pool behind it (:mod:`.pool_candidates`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_neocpu.core.candidate import Candidate, layouts_of
from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layer_group import GroupCandidate, GroupNode, LayerGroup
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.types import FP32
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.cost import priced_block
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.stack import MOST, is_stack
from tvm_neocpu.tuning.pool_candidates import planned_pool_groups, pool_groups_of

# Schemes of members so many times slower than the best one are not offered as a group: what a
# group saves is a few per cent, of a stack of dense layers still less.
HOPELESS, HOPELESS_IN_STACK = 1.5, 1.05

Schemes = Sequence[Sequence[Candidate]]


@dataclass(frozen=True)
class _Chain:
    """A depthwise layer with the 1x1 layers around it, or dense layers, in order.

    ``taps``: ids of those that something else reads too, besides the next one.
    """

    nodes: tuple[GraphNode, ...]
    taps: frozenset[str] = frozenset()

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(node.id for node in self.nodes)

    @property
    def is_stack(self) -> bool:
        return is_stack([Member(workload, None) for workload in self.workloads])

    @property
    def workloads(self) -> tuple[ConvWorkload, ...]:
        return tuple(node.workload for node in self.nodes)  # type: ignore[misc]

    def taps_in(self, part: range) -> tuple[int, ...]:
        """The places in a part of the chain of inner layers that something else reads too."""
        return tuple(place for place, at in enumerate(part[:-1]) if self.nodes[at].id in self.taps)

    @property
    def parts(self) -> tuple[range, ...]:
        """Which layers may be a group: two neighbours, or all."""
        count = len(self.nodes)
        pairs = tuple(range(at, at + 2) for at in range(count - 1))
        return pairs if count == 2 else (*pairs, range(count))


def groups_of(
    graph: ConvGraph, candidates: Mapping[Workload, Sequence[Candidate]], cpu: Cpu
) -> tuple[GroupNode, ...]:
    """The groups for the layout problem, under those schemes with which they may gain.

    Those within the model's error cost time there: the search does not take them, but a tuned plan
    may have them.
    """
    known: dict[tuple[object, ...], tuple[GroupCandidate, ...]] = {}
    found = []
    for chain in _chains(graph):
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
        if known[key]:
            found.append(GroupNode(chain.members, known[key]))
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
    chains = [
        group for _, group in _best_groups(plan, graph, cpu) if taken.isdisjoint(group.members)
    ]
    taken |= {member for group in chains for member in group.members}
    pools = planned_pool_groups(graph, plan.configs, cpu, taken, doubtful=True)
    return replace(plan, groups=(*groups, *chains, *pools))


def _best_groups(plan: Plan, graph: ConvGraph, cpu: Cpu) -> Iterator[tuple[float, LayerGroup]]:
    """The group of every chain that gains most under the plan's configs, and its sure gain.

    Where no gain is sure, the group that is predicted to gain most.
    """
    for chain in _chains(graph):
        offered = [found for part in chain.parts if (found := _priced(chain, part, plan, cpu))]
        if offered:
            sure, _, group = max(offered, key=lambda found: (max(found[0], 0.0), found[1]))
            yield sure, group


def _priced(
    chain: _Chain, part: range, plan: Plan, cpu: Cpu
) -> tuple[float, float, LayerGroup] | None:
    """Seconds that a group of a chain's layers gains under the plan's configs: surely, likely."""
    nodes = [chain.nodes[at] for at in part]
    configs = [plan.configs.get(node.id) for node in nodes]
    if None in configs:
        return None
    members = [Member(n.workload, c) for n, c in zip(nodes, configs, strict=True)]  # type: ignore[arg-type]
    priced = priced_block(members, cpu, chain.taps_in(part))
    if priced is None:
        return None
    group = LayerGroup(tuple(node.id for node in nodes), *priced.block.bands)
    return priced.saved_share * priced.apart, priced.apart - priced.fused, group


def _candidates(chain: _Chain, part: range, schemes: Schemes, cpu: Cpu) -> Iterator[GroupCandidate]:
    """What some layers of a chain gain, under those schemes that fit each other."""
    workloads = [chain.workloads[at] for at in part]
    for chosen in _fitting([schemes[at] for at in part]):
        members = [Member(w, c.config) for w, c in zip(workloads, chosen, strict=True)]
        priced = priced_block(members, cpu, chain.taps_in(part))
        if priced is None:
            continue
        gain = priced.saved_share * sum(candidate.seconds for candidate in chosen)
        configs = dict(zip(part, (candidate.config for candidate in chosen), strict=True))
        everywhere = tuple(configs.get(at) for at in range(len(chain.nodes)))
        bands = priced.block.bands
        yield GroupCandidate(everywhere, bands.rows, gain, bands.run)


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


def _chains(graph: ConvGraph) -> Iterator[_Chain]:
    """Every depthwise layer with the 1x1 layers around it; then stacks of other layers.

    A product of a layer with itself, such as HardSwish makes, may stand between two. Whether
    something else does that is no epilogue, lowering alone sees. No layer is in two chains.
    """
    pairs = tuple(_pairs(graph))
    taps = frozenset(first.id for first, _, is_tap in pairs if is_tap)
    before = {last.id: first for first, last, _ in pairs if _is_flat(first)}
    behind = {first.id: last for first, last, _ in reversed(pairs) if _is_flat(last)}
    taken: set[str] = set()
    for deep in graph.convs:
        if not (isinstance(deep.workload, ConvWorkload) and deep.workload.is_depthwise):
            continue
        around = (before.get(deep.id), deep, behind.get(deep.id))
        nodes = tuple(node for node in around if node is not None and node.id not in taken)
        if len(nodes) > 1:
            taken |= {node.id for node in nodes}
            yield _Chain(nodes, taps)
    yield from _stacks([pair[:2] for pair in pairs if not pair[2] and taken.isdisjoint(_ids(pair))])


def _stacks(pairs: Iterable[tuple[GraphNode, GraphNode]]) -> Iterator[_Chain]:
    """Dense convolutions of which each alone reads the one before, in pieces of two and three."""
    readers = {first.id: (first, last) for first, last in pairs if _is_dense(first, last)}
    behind = {last.id for _, last in readers.values()}
    for id, (first, last) in readers.items():
        if id in behind:
            continue
        run = [first, last]
        while run[-1].id in readers:
            run.append(readers[run[-1].id][1])
        while len(run) > 1:
            count = 2 if len(run) in (2, 4) else MOST
            yield _Chain(tuple(run[:count]))
            run = run[count:]


def _is_dense(*nodes: GraphNode) -> bool:
    """Whether layers may be in a stack: fp32, one group of channels, an image of rows."""
    convs = [node.workload for node in nodes]
    return all(
        isinstance(conv, ConvWorkload)
        and conv.groups == 1
        and conv.types == FP32
        and conv.out_height > 1
        for conv in convs
    )


def _ids(pair: tuple[GraphNode, GraphNode, bool]) -> tuple[str, str]:
    return pair[0].id, pair[1].id


def _is_flat(node: GraphNode) -> bool:
    """Whether a layer is an expansion or a projection: 1x1, and no depthwise layer itself."""
    conv = node.workload
    return isinstance(conv, ConvWorkload) and conv.is_pointwise and conv.groups == 1


def _pairs(graph: ConvGraph) -> Iterator[tuple[GraphNode, GraphNode, bool]]:
    """Every convolution with one that reads what it writes, as it writes it; and if others do.

    They read what the last one reads; what joins between make on the way has one reader.
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
        shared = [id for id in (first.id, *between) if not {*readers[id]} <= {*between, last.id}]
        if before.out_shape == after.in_shape and (not shared or shared == into[last.id]):
            yield first, last, bool(shared)


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
