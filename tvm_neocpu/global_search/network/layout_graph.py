"""From a conv graph and candidate times to a :class:`LayoutProblem` (NeoCPU, section 3.3.2).

A convolution's candidates are its (ic_bn, oc_bn) schemes with their fastest times. A join has one
layout for all inputs and its output. A boundary has plain NCHW. What runs at a node beside its
scheme (pools, concats that copy) costs by the layout that it runs in. An edge costs the transform
from the layout that its source writes to the layout that its target reads, at the size of the
tensor there.

A tensor with several consumers is transformed once per layout, whoever reads it. So each layout
that a consumer may read gets a node of its own with two candidates, "not made" and "made":

    source - [tensor as NCHW16c] - consumer 1    "made": the source pays for the transform
                                 - consumer 2    "not made": forbidden if a consumer reads NCHW16c

A tensor between two convolutions has a type, too: where its one consumer rounds it to bf16, and
reads it as its source writes it, it is stored so. That is never slower, so that an edge has the
cheaper one of its two types, and the consumer's rounding is paid by the edges that are not so. Such
an edge also pays for the copy (of a concat, of a volume's images) that a transform reads, where the
consumer would have read through.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from types import MappingProxyType

import numpy as np

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import (
    FLOAT,
    ConvGraph,
    GraphEdge,
    GraphNode,
    NodeKind,
    Shape4,
)
from tvm_neocpu.core.network.layer_group import GroupNode
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import Types
from tvm_neocpu.global_search.network.group_nodes import group_costs, member_costs
from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem

# (shape, before, after), and the element type where it is not float32.
TransformSeconds = Callable[..., float]
# (node, layout that it reads, layout that it writes, config if any) -> seconds beside the config's.
SweepSeconds = Callable[[GraphNode, Layout, Layout, Config | None], float]


def nothing(node: GraphNode, reads: Layout, writes: Layout, config: Config | None) -> float:
    """The price of sweeps that nobody priced."""
    return 0.0


NO_OTHERS: Mapping[str, Sequence[Candidate]] = MappingProxyType({})


@dataclass(frozen=True)
class Option:
    """One candidate of a node: the layouts it reads and writes, its seconds, its config if any.

    ``sweeps`` are the seconds of the node's sweeps under these layouts, beside its own ``seconds``.
    ``types`` are given where it computes in another precision than the node's workload says.
    ``apart`` are further seconds, paid where it does not read a tensor as its source writes it:
    what rounds it, what copies it in front of a transform.
    """

    reads: Layout
    writes: Layout
    seconds: float = 0.0
    config: Config | None = None
    sweeps: float = 0.0
    types: Types | None = None
    apart: float = 0.0

    @property
    def total(self) -> float:
        """What the network pays at the node."""
        return self.seconds + self.sweeps

    def elements(self, edge: GraphEdge) -> str:
        """The type of the elements that it reads of a tensor."""
        return edge.dtype if self.types is None else self.types.data


@dataclass(frozen=True)
class LayoutGraph:
    """A network as a LayoutProblem in seconds, and what the problem's candidates mean.

    The first ``len(graph.nodes)`` nodes of the problem are those of the graph: candidate ``k`` of
    node ``i`` is ``options[i][k]``. The nodes after them are the transforms of tensors with several
    consumers, and last the ``groups`` (:mod:`.group_nodes`).
    """

    graph: ConvGraph
    options: tuple[tuple[Option, ...], ...]
    problem: LayoutProblem
    transform_seconds: TransformSeconds
    groups: tuple[GroupNode, ...] = ()

    @property
    def first_group(self) -> int:
        """The number of the first group's node."""
        return len(self.problem) - len(self.groups)

    def picked(self, choice: Sequence[int]) -> tuple[Option, ...]:
        """The option of every graph node under a choice of the problem."""
        own = choice[: len(self.options)]
        return tuple(entry[k] for entry, k in zip(self.options, own, strict=True))


def build_layout_graph(
    graph: ConvGraph,
    candidates: Mapping[Workload, Sequence[Candidate]],
    transform_seconds: TransformSeconds,
    sweep_seconds: SweepSeconds = nothing,
    others: Mapping[str, Sequence[Candidate]] = NO_OTHERS,
    groups: Sequence[GroupNode] = (),
) -> LayoutGraph:
    """The layout problem of a network (NeoCPU, section 3.3.2).

    candidates: the schemes of every workload of the graph.
    transform_seconds: ``transform_seconds(shape, before, after)`` is the time of transforming a
        tensor of logical shape (N, C, H, W), in seconds; 0 for a transform that moves nothing. Of
        other elements than float32 a fourth argument names the type.
    sweep_seconds: the time of a node's sweeps by its layouts and config, in seconds; by default
        they cost nothing.
    others: node id -> further schemes of that node alone, such as those in another precision. A
        tensor is transformed as the elements that its reader takes.
    groups: layers that may be computed by one function.

    Raises InvalidProblemError for a workload with an empty list of schemes or a time that is nan,
    and KeyError for a workload that ``candidates`` lacks.
    """
    transform_seconds = _broadcasting(transform_seconds)
    options = _all_options(graph, candidates, sweep_seconds, others)
    index = {node.id: position for position, node in enumerate(graph.nodes)}
    node_costs: list[Costs] = [np.array([o.total for o in entry]) for entry in options]
    names = [f"{node.label} ({node.id})" for node in graph.nodes]
    edge_costs: list[tuple[tuple[int, int], Costs]] = []
    for edges in edges_by_tensor(graph).values():
        source = options[index[edges[0].src]]
        if len({edge.dst for edge in edges}) == 1:
            for edge in edges[:1]:
                matrix = _transform_matrix(
                    source, options[index[edge.dst]], edge, transform_seconds
                )
                edge_costs.append(((index[edge.src], index[edge.dst]), matrix))
            continue
        for layout, dtype in _wanted(edges, options, index):
            shared = len(node_costs)
            node_costs.append(np.zeros(2))
            names.append(f"{edges[0].tensor} as {layout}")
            made = [transform_seconds(edges[0].shape, o.writes, layout, dtype) for o in source]
            pays = np.array([[0.0, seconds] for seconds in made])
            edge_costs.append(((index[edges[0].src], shared), pays))
            for target in {edge.dst for edge in edges}:
                needs = [
                    (o.reads, o.elements(edges[0])) == (layout, dtype)
                    for o in options[index[target]]
                ]
                forbids = np.array([[np.inf if need else 0.0, 0.0] for need in needs])
                edge_costs.append(((index[target], shared), forbids))
    # A group computes in the precision of the workloads.
    configs = {
        id: [option.config if option.types is None else None for option in options[i]]
        for id, i in index.items()
    }
    for group in groups:
        edge_costs += [
            ((index[member], len(node_costs)), costs)
            for member, costs in member_costs(group, configs)
        ]
        node_costs.append(group_costs(group))
        names.append(f"group of {' and '.join(group.members)}")
    problem = LayoutProblem(node_costs, edge_costs, names=names)
    return LayoutGraph(graph, options, problem, transform_seconds, tuple(groups))


def _broadcasting(price: TransformSeconds) -> TransformSeconds:
    """The same price, but 0 for a single channel: it broadcasts over any block as it is stored."""

    def seconds(shape: Shape4, before: Layout, after: Layout, dtype: str) -> float:
        named = () if dtype == FLOAT else (dtype,)
        return 0.0 if shape[1] == 1 else price(shape, before, after, *named)

    return seconds


def _all_options(
    graph: ConvGraph,
    candidates: Mapping[Workload, Sequence[Candidate]],
    sweep_seconds: SweepSeconds,
    others: Mapping[str, Sequence[Candidate]],
) -> tuple[tuple[Option, ...], ...]:
    chosen: dict[str, tuple[Option, ...]] = {}

    def option(
        node: GraphNode,
        reads: Layout,
        writes: Layout,
        seconds: float = 0.0,
        config: Config | None = None,
        types: Types | None = None,
        rounding: float = 0.0,
    ) -> Option:
        sweeps = sweep_seconds(node, reads, writes, config)
        apart = rounding
        if node.read_sweeps:
            apart += sweep_seconds(node, reads, writes, None) - sweeps
        return Option(reads, writes, seconds, config, sweeps, types, apart)

    alone = _read_alone(graph)
    for node in graph.nodes:
        if node.kind is NodeKind.CONV:
            assert node.workload is not None
            chosen[node.id] = tuple(
                option(node, c.reads, c.writes, c.seconds - rounding, c.config, c.types, rounding)
                for c in (*candidates[node.workload], *others.get(node.id, ()))
                for rounding in [c.rounding if node.id in alone else 0.0]
            )
        elif node.kind is NodeKind.BOUNDARY:
            chosen[node.id] = (option(node, NCHW, NCHW),)
    for node in graph.nodes:
        if node.kind is NodeKind.JOIN:
            layouts = _join_layouts(graph, node, chosen)
            chosen[node.id] = tuple(option(node, layout, layout) for layout in layouts)
    return tuple(chosen[node.id] for node in graph.nodes)


def _read_alone(graph: ConvGraph) -> frozenset[str]:
    """The convolutions that read what another one writes, and that nothing else reads."""
    found = set()
    for edges in edges_by_tensor(graph).values():
        source, target = graph.by_id[edges[0].src], graph.by_id[edges[0].dst]
        ends = source.kind is NodeKind.CONV and target.kind is NodeKind.CONV
        swept = source.sweeps or target.read_sweeps
        if len(edges) == 1 and ends and not swept and edges[0].dtype == FLOAT:
            found.add(target.id)
    return frozenset(found)


def _join_layouts(
    graph: ConvGraph, join: GraphNode, chosen: Mapping[str, tuple[Option, ...]]
) -> list[Layout]:
    """Plain NCHW and the layouts around the join that fit all its inputs, smallest block first."""
    layouts = {NCHW}
    for near in _around(graph, join.id):
        options = chosen.get(near, ()) if near not in graph.joins else ()
        layouts |= {layout for option in options for layout in (option.reads, option.writes)}
    fits = [
        layout
        for layout in layouts
        if all(layout.fits(channels) for channels in join.join_channels)
    ]
    shared = gcd(*join.join_channels)
    if len(join.join_channels) > 1 and shared > 1 and all(fit.block <= 1 for fit in fits):
        # No block around divides all inputs. Their gcd does, and moving vectors beats moving lanes.
        fits.append(Layout(shared))
    return sorted(fits)


def _around(graph: ConvGraph, start: str) -> set[str]:
    """The nodes next to ``start`` or next to a chain of joins that begins there."""
    seen, front = {start}, [start]
    while front:
        here = front.pop()
        for near in graph.neighbours[here] - seen:
            seen.add(near)
            if near in graph.joins:
                front.append(near)
    return seen


def edges_by_tensor(graph: ConvGraph) -> dict[tuple[str, str], list[GraphEdge]]:
    """The edges of every tensor, by (source id, tensor name): they share its transforms."""
    groups: dict[tuple[str, str], list[GraphEdge]] = defaultdict(list)
    for edge in graph.edges:
        groups[edge.src, edge.tensor].append(edge)
    return groups


def _transform_matrix(
    source: Sequence[Option], target: Sequence[Option], edge: GraphEdge, price: TransformSeconds
) -> Costs:
    wanted = [(t.reads, t.elements(edge)) for t in target]
    moves = {(s.writes, reads, kind) for s in source for reads, kind in wanted}
    cost = {move: price(edge.shape, *move) for move in moves}
    costs = np.array([[cost[s.writes, reads, kind] for reads, kind in wanted] for s in source])
    if not any(t.apart for t in target):
        return costs
    unlike = np.array([[s.writes != t.reads for t in target] for s in source])
    with_copies: Costs = costs + unlike * np.array([t.apart for t in target])
    return with_copies


def _wanted(
    edges: Sequence[GraphEdge], options: Sequence[Sequence[Option]], index: Mapping[str, int]
) -> list[tuple[Layout, str]]:
    """The layouts and element types in which a tensor is read."""
    read = {(o.reads, o.elements(e)) for e in edges for o in options[index[e.dst]]}
    return sorted(read)
