"""The layout problem in which a layer chooses its precision, too: seconds, and noise beside them.

A layer has the schemes of its own workload and those in lower precision. Integer ones round its
weights and what it reads. A tensor that one layer reads is rounded by that layer's choice. A tensor
that several read is stored once: rounded for all of them or for none. Such a tensor gets a node of
its own, as its transforms do (:mod:`layout_graph`):

    layer 1 - [tensor: whole | rounded] - layer 2      "whole": forbids low precision on both sides
                                                       "rounded": adds the tensor's noise once; a
                                                       layer in fp32 pays for widening what it reads
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import FLOAT, ConvGraph, GraphEdge, NodeKind, Shape4
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import Types
from tvm_neocpu.global_search.network.layout_graph import (
    LayoutGraph,
    SweepSeconds,
    TransformSeconds,
    build_layout_graph,
    nothing,
)
from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem
from tvm_neocpu.global_search.solvers.restricted import restricted

# Seconds of reading a tensor of one precision and writing it in another, by its logical shape.
ConversionSeconds = Callable[[Shape4], float]


@dataclass(frozen=True)
class LowPrecision:
    """What a layer may be in integers: schemes with ``types``, and what rounding them needs.

    ``own`` is the noise power of its weights. ``reads`` names the tensor that it rounds.
    """

    schemes: tuple[Candidate, ...]
    own: float
    reads: str


@dataclass(frozen=True)
class HalfPrecision:
    """Schemes of a layer with weights of half precision, and their noise power at the outputs.

    What such a kernel rounds of its data is a copy of its own: no tensor is stored otherwise.
    """

    schemes: tuple[Candidate, ...]
    noise: float


NO_HALVES: Mapping[str, Sequence[HalfPrecision]] = MappingProxyType({})


@dataclass(frozen=True)
class PrecisionGraph:
    """A layout graph, and the noise power of every candidate of its problem's nodes."""

    layout_graph: LayoutGraph
    noise: tuple[Costs, ...]

    @property
    def problem(self) -> LayoutProblem:
        return self.layout_graph.problem

    def types(self, choice: Sequence[int]) -> dict[str, Types]:
        """The nodes that are not as their workloads say under a choice, by id."""
        picked = self.layout_graph.picked(choice)
        nodes = self.layout_graph.graph.nodes
        both = zip(nodes, picked, strict=True)
        return {node.id: option.types for node, option in both if option.types is not None}

    def low(self, choice: Sequence[int]) -> frozenset[str]:
        """The nodes in integers under a choice, by id."""
        return frozenset(id for id, types in self.types(choice).items() if _is_integer(types))

    def in_fp32(self) -> PrecisionGraph:
        """The same with the layers' own schemes alone."""
        return self._among(lambda types: types is None)

    def without_integers(self) -> PrecisionGraph:
        """The same with schemes in fp32 and in half precision."""
        return self._among(lambda types: not _is_integer(types))

    def _among(self, wanted: Callable[[Types | None], bool]) -> PrecisionGraph:
        plain = self.layout_graph
        keep = {
            place: np.array([wanted(option.types) for option in entry])
            for place, entry in enumerate(plain.options)
        }
        return PrecisionGraph(replace(plain, problem=restricted(plain.problem, keep)), self.noise)


def build_precision_graph(
    graph: ConvGraph,
    candidates: Mapping[Workload, Sequence[Candidate]],
    transform_seconds: TransformSeconds,
    low: Mapping[str, LowPrecision],
    tensors: Mapping[str, float],
    conversion_seconds: ConversionSeconds,
    sweep_seconds: SweepSeconds = nothing,
    halves: Mapping[str, Sequence[HalfPrecision]] = NO_HALVES,
) -> PrecisionGraph:
    """The problem of layouts and precisions together.

    candidates, transform_seconds, sweep_seconds: see :func:`build_layout_graph`.
    low: node id -> what it may be in low precision.
    tensors: the noise power that rounding each tensor adds at the network's outputs, by the names
        of ``LowPrecision.reads``.
    halves: node id -> what it may be in half precision.

    What a convolution or a join writes is rounded where it is made, which costs nothing; a tensor
    of a boundary pays a conversion. Raises what :func:`build_layout_graph` raises.
    """
    read_by = _read_by(graph)
    shared = _shared(graph, low, read_by)

    def narrowing(id: str) -> float:
        made_there = (e for e in read_by[id] if graph.by_id[e.src].kind is NodeKind.BOUNDARY)
        return sum(conversion_seconds(edge.shape) for edge in made_there)

    schemes = {}
    for id, layer in low.items():
        more = 0.0 if layer.reads in shared else narrowing(id)
        schemes[id] = [replace(c, seconds=c.seconds + more) for c in layer.schemes]
    for id, found in halves.items():
        schemes[id] = [*schemes.get(id, ()), *(c for each in found for c in each.schemes)]
    plain = build_layout_graph(graph, candidates, transform_seconds, sweep_seconds, schemes)
    index = {node.id: place for place, node in enumerate(graph.nodes)}
    nodes, names = list(plain.problem.node_costs), list(plain.problem.names)
    noise = [np.zeros(costs.size) for costs in nodes]
    edges = list(plain.problem.edge_costs.items())
    for id, layer in low.items():
        power = layer.own + (0.0 if layer.reads in shared else tensors[layer.reads])
        noise[index[id]] = np.where(_is_low(plain, index[id]), power, 0.0)
    for id, found in halves.items():
        powers = {c.types: each.noise for each in found for c in each.schemes}
        own = [powers.get(option.types, 0.0) for option in plain.options[index[id]]]
        noise[index[id]] = noise[index[id]] + np.array(own)
    for tensor, readers in shared.items():
        hub = len(nodes)
        nodes.append(np.array([0.0, narrowing(next(id for id in readers if id in low))]))
        names.append(f"{tensor} rounded or not")
        noise.append(np.array([0.0, tensors[tensor]]))
        for id in readers:
            lows = _is_low(plain, index[id])
            widening = sum(conversion_seconds(edge.shape) for edge in read_by[id])
            whole = np.where(lows, np.inf, 0.0)
            rounded = np.where(lows, 0.0, widening)
            edges.append(((index[id], hub), np.stack([whole, rounded], axis=1)))
    problem = LayoutProblem(nodes, edges, names=names)
    return PrecisionGraph(replace(plain, problem=problem), tuple(noise))


def _is_low(layout_graph: LayoutGraph, place: int) -> Costs:
    found: Costs = np.array([_is_integer(o.types) for o in layout_graph.options[place]])
    return found


def _is_integer(types: Types | None) -> bool:
    """Whether data are rounded where they are made, for all that read them."""
    return types is not None and types.data != FLOAT


def _read_by(graph: ConvGraph) -> Mapping[str, list[GraphEdge]]:
    found: dict[str, list[GraphEdge]] = defaultdict(list)
    for edge in graph.edges:
        found[edge.dst].append(edge)
    return found


def _shared(
    graph: ConvGraph, low: Mapping[str, LowPrecision], read_by: Mapping[str, list[GraphEdge]]
) -> dict[str, list[str]]:
    """Tensors whose rounding concerns several convolutions -> all of these, by id."""
    convs = [node.id for node in graph.convs]
    sources: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for id, layer in low.items():
        sources[layer.reads] |= {(edge.src, edge.tensor) for edge in read_by[id]}
    found = {}
    for tensor, places in sources.items():
        readers = [
            id
            for id in convs
            if (id in low and low[id].reads == tensor)
            or any((edge.src, edge.tensor) in places for edge in read_by[id])
        ]
        if len(readers) > 1:
            found[tensor] = readers
    return found
