"""Why the search chose as it did: every choice beside what the next best would cost in the whole.

The price of a decision is not its own time: another scheme of one convolution moves the layouts of
its neighbours. All prices here are of the whole network, everything else chosen anew.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode, Shape4
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.global_search.conditional import solve_among
from tvm_neocpu.global_search.cost_graph import Mask
from tvm_neocpu.global_search.layout_graph import LayoutGraph, Option, edges_by_tensor
from tvm_neocpu.global_search.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.min_marginals import min_marginals
from tvm_neocpu.global_search.solution import Solution

# For what one pass of elimination cannot answer: graphs with a frontier too wide for tables.
TIME_LIMIT = 10.0


@dataclass(frozen=True)
class Alternative:
    """Another option of a node and the seconds of the best network that takes it."""

    option: Option
    network_seconds: float


@dataclass(frozen=True)
class NodeRow:
    """One node's choice; ``alternatives`` are its other options, the cheapest in the whole first.

    ``measured`` says whether ``option.seconds`` was timed or predicted. ``candidates`` counts all
    options; where time did not allow more, the alternatives hold the best one only, or none.
    """

    node: GraphNode
    option: Option
    candidates: int
    alternatives: tuple[Alternative, ...] = ()
    measured: bool = False

    @property
    def runner_up(self) -> Alternative | None:
        return self.alternatives[0] if self.alternatives else None


@dataclass(frozen=True)
class TransformRow:
    """A transform that the network pays for: a tensor, stored anew for some of its consumers.

    ``if_source`` are the seconds of the best network in which the source writes what these
    consumers read now, ``if_targets`` of the one in which they read what it writes now. +inf where
    that cannot be; None where time did not allow to find out.
    """

    source: GraphNode
    targets: tuple[GraphNode, ...]
    shape: Shape4
    before: Layout
    after: Layout
    seconds: float
    if_source: float | None
    if_targets: float | None


@dataclass(frozen=True)
class Explanation:
    """All choices and transforms of a network; ``seconds`` is what they come to.

    No choice costs less than ``lower_bound``. ``greedy_seconds``: every convolution takes its own
    fastest scheme, and only the joins between them are chosen well.
    """

    graph: ConvGraph
    nodes: tuple[NodeRow, ...]
    transforms: tuple[TransformRow, ...]
    seconds: float
    lower_bound: float
    optimal: bool
    method: str
    greedy_seconds: float | None = None

    @property
    def gap(self) -> float:
        """By what share of the total the choice may still exceed the optimum."""
        return (self.seconds - self.lower_bound) / self.seconds if self.seconds else 0.0

    @property
    def transform_seconds(self) -> float:
        return sum(row.seconds for row in self.transforms)

    def extra(self, network_seconds: float) -> float:
        """What a network costs more than this one."""
        return network_seconds - self.seconds


def explain(
    layout_graph: LayoutGraph,
    solution: Solution,
    measured: Collection[tuple[Workload, Config]] = (),
    time_limit: float = TIME_LIMIT,
) -> Explanation:
    """Price what the solution did not choose. ``measured``: the schemes whose time is no guess.

    Exact, in a fraction of a second, while the tables of elimination are small; beyond that nodes
    and transforms are priced one by one for ``time_limit`` seconds.
    """
    deadline = Deadline.after(time_limit)
    greedy = _cost_among(layout_graph, _fastest_schemes(layout_graph), deadline)
    return Explanation(
        graph=layout_graph.graph,
        transforms=tuple(_transforms(layout_graph, solution, deadline)),
        nodes=tuple(_nodes(layout_graph, solution, frozenset(measured), deadline)),
        seconds=solution.cost,
        lower_bound=solution.lower_bound,
        optimal=solution.optimal,
        method=solution.method,
        greedy_seconds=greedy,
    )


def _nodes(
    layout_graph: LayoutGraph,
    solution: Solution,
    measured: Collection[tuple[Workload | None, Config | None]],
    deadline: Deadline,
) -> Iterator[NodeRow]:
    prices = min_marginals(layout_graph.problem)
    for i, node in enumerate(layout_graph.graph.nodes):
        options, taken = layout_graph.options[i], solution.choice[i]
        if len(options) == 1:
            others: tuple[Alternative, ...] = ()
        elif prices is not None:
            others = _ranked(options, prices[i].tolist(), taken)
        else:
            others = _runner_up(layout_graph, i, taken, deadline)
        known = (node.workload, options[taken].config) in measured
        yield NodeRow(node, options[taken], len(options), others, known)


def _ranked(
    options: tuple[Option, ...], prices: list[float], taken: int
) -> tuple[Alternative, ...]:
    others = (
        Alternative(o, p)
        for k, (o, p) in enumerate(zip(options, prices, strict=True))
        if k != taken
    )
    return tuple(sorted(others, key=lambda other: other.network_seconds))


def _runner_up(
    layout_graph: LayoutGraph, i: int, taken: int, deadline: Deadline
) -> tuple[Alternative, ...]:
    """The best other option by itself; nothing if the time is over."""
    if deadline.passed:
        return ()
    others = np.arange(len(layout_graph.options[i])) != taken
    try:
        best = solve_among(layout_graph.problem, {i: others}, deadline)
    except SearchLimitError:
        return ()
    return (Alternative(layout_graph.options[i][best.choice[i]], best.cost),) if best else ()


def _transforms(
    layout_graph: LayoutGraph, solution: Solution, deadline: Deadline
) -> Iterator[TransformRow]:
    """One row for each tensor and layout that its source does not write, unless it is free."""
    graph = layout_graph.graph
    index = {node.id: i for i, node in enumerate(graph.nodes)}
    picked = layout_graph.picked(solution.choice)
    for edges in edges_by_tensor(graph).values():
        source, shape = index[edges[0].src], edges[0].shape
        before = picked[source].writes
        readers = dict.fromkeys(index[edge.dst] for edge in edges)
        for after in sorted({picked[reader].reads for reader in readers} - {before}):
            seconds = layout_graph.transform_seconds(shape, before, after)
            if seconds == 0:
                continue
            targets = [reader for reader in readers if picked[reader].reads == after]
            agree = [_agreeing(layout_graph, source, targets, one) for one in (after, before)]
            prices = [_cost_among(layout_graph, keep, deadline) for keep in agree]
            nodes = tuple(graph.nodes[target] for target in targets)
            yield TransformRow(graph.nodes[source], nodes, shape, before, after, seconds, *prices)


def _agreeing(
    layout_graph: LayoutGraph, source: int, targets: list[int], layout: Layout
) -> dict[int, Mask]:
    """The options with which source and targets agree on a layout between them."""
    options = layout_graph.options
    reading = {t: np.array([o.reads == layout for o in options[t]]) for t in targets}
    return reading | {source: np.array([o.writes == layout for o in options[source]])}


def _fastest_schemes(layout_graph: LayoutGraph) -> dict[int, Mask]:
    """Every convolution's own fastest scheme, whatever its neighbours take."""
    problem = layout_graph.problem
    return {
        i: np.arange(problem.node_costs[i].size) == problem.node_costs[i].argmin()
        for i, node in enumerate(layout_graph.graph.nodes)
        if node.workload is not None
    }


def _cost_among(
    layout_graph: LayoutGraph, keep: Mapping[int, Mask], deadline: Deadline
) -> float | None:
    """The least cost among these options; +inf if they exclude each other, None without time."""
    if not all(mask.any() for mask in keep.values()):
        return math.inf
    if deadline.passed:
        return None
    try:
        best = solve_among(layout_graph.problem, keep, deadline)
    except SearchLimitError:
        return None
    return math.inf if best is None else best.cost
