"""Layers of a network that stand behind each other so that a group may have them.

These are depthwise layers with the 1x1 layers around them, and runs of dense convolutions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode
from tvm_neocpu.core.types import FP32
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.stack import MOST, is_stack


@dataclass(frozen=True)
class LayerChain:
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


def chains_of(graph: ConvGraph) -> Iterator[LayerChain]:
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
            yield LayerChain(nodes, taps)
    yield from _stacks([pair[:2] for pair in pairs if not pair[2] and taken.isdisjoint(_ids(pair))])


def _stacks(pairs: Iterable[tuple[GraphNode, GraphNode]]) -> Iterator[LayerChain]:
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
            yield LayerChain(tuple(run[:count]))
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
    into = graph.sources
    readers: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
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
        if before.out_shape == after.in_shape and (not shared or shared == [*into[last.id]]):
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
