"""Why the search chose as it did: every choice beside what the next best would cost in the whole.

The price of a decision is not its own time: another scheme of one convolution moves the layouts of
its neighbours. All prices here are of the whole network, everything else chosen anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode, Shape4
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.global_search.conditional import restricted, solve_among
from tvm_neocpu.global_search.cost_graph import Mask
from tvm_neocpu.global_search.layout_graph import LayoutGraph, Option, edges_by_tensor
from tvm_neocpu.global_search.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.min_marginals import least_cost, min_marginals
from tvm_neocpu.global_search.problem import Costs
from tvm_neocpu.global_search.solution import Solution
from tvm_neocpu.global_search.split import split_nodes

# For what one pass of elimination cannot answer: graphs with a frontier too wide for tables.
TIME_LIMIT = 10.0

Scheme = tuple[Workload | None, Config | None]


@dataclass(frozen=True)
class Alternative:
    """Another option of a node and the seconds of the best network that takes it."""

    option: Option
    network_seconds: float


@dataclass(frozen=True)
class NodeRow:
    """One node's choice; ``alternatives`` are its other options, the cheapest in the whole first.

    ``candidates`` counts all options; where time did not allow more, the alternatives hold the best
    one only, or none.
    """

    node: GraphNode
    option: Option
    candidates: int
    alternatives: tuple[Alternative, ...] = ()

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
    fastest scheme, and only the joins between them are chosen well. ``measured`` are the schemes
    whose time is no guess.
    """

    graph: ConvGraph
    nodes: tuple[NodeRow, ...]
    transforms: tuple[TransformRow, ...]
    seconds: float
    lower_bound: float
    optimal: bool
    method: str
    greedy_seconds: float | None = None
    measured: frozenset[Scheme] = frozenset()

    @property
    def gap(self) -> float:
        """By what share of the total the choice may still exceed the optimum."""
        return (self.seconds - self.lower_bound) / self.seconds if self.seconds else 0.0

    @property
    def transform_seconds(self) -> float:
        return sum(row.seconds for row in self.transforms)

    def is_measured(self, node: GraphNode, option: Option) -> bool:
        """Whether ``option.seconds`` was timed; a join's 0 never is."""
        return (node.workload, option.config) in self.measured


def explain(
    layout_graph: LayoutGraph,
    solution: Solution,
    measured: Iterable[Scheme] = (),
    time_limit: float = TIME_LIMIT,
) -> Explanation:
    """Price what the solution did not choose. ``measured``: the schemes whose time is no guess.

    Exact, in a fraction of a second, while the tables of elimination are small; beyond that nodes
    and transforms are priced one by one for ``time_limit`` seconds.
    """
    prices = _Prices(layout_graph, Deadline.after(time_limit))
    greedy = prices.least_among(_fastest_schemes(layout_graph))
    return Explanation(
        graph=layout_graph.graph,
        transforms=tuple(_transforms(layout_graph, solution, prices)),
        nodes=tuple(_nodes(layout_graph, solution, prices)),
        seconds=solution.cost,
        lower_bound=solution.lower_bound,
        optimal=solution.optimal,
        method=solution.method,
        greedy_seconds=greedy,
        measured=frozenset(measured),
    )


class _Prices:
    """What networks cost that take only some of the options."""

    def __init__(self, layout_graph: LayoutGraph, deadline: Deadline) -> None:
        self.options = layout_graph.options
        self.problem = layout_graph.problem
        self.split = split_nodes(self.problem, _layouts_as_classes(layout_graph))
        self.deadline = deadline

    def of_all_options(self) -> tuple[Costs, ...] | None:
        """For each node the best network's cost with each of its options; None if too wide."""
        return min_marginals(self.split)

    def runner_up(self, node: int, taken: int) -> tuple[Alternative, ...]:
        """The best other option of one node; nothing if the time is over."""
        if self.deadline.passed:
            return ()
        others = np.arange(len(self.options[node])) != taken
        try:
            best = solve_among(self.problem, {node: others}, self.deadline)
        except SearchLimitError:
            return ()
        return (Alternative(self.options[node][best.choice[node]], best.cost),) if best else ()

    def least_among(self, keep: Mapping[int, Mask]) -> float | None:
        """The least cost among marked options; +inf if they exclude each other, None without time.

        In graphs that are too wide for tables this is the best that was found.
        """
        if not all(mask.any() for mask in keep.values()):
            return math.inf
        exact = least_cost(restricted(self.split, keep))
        if exact is not None or self.deadline.passed:
            return exact
        try:
            best = solve_among(self.problem, keep, self.deadline)
        except SearchLimitError:
            return None
        return math.inf if best is None else best.cost


def _layouts_as_classes(layout_graph: LayoutGraph) -> dict[int, list[list[int]]]:
    """Options that read alike, and options that write alike: no neighbour sees more of them."""
    return {
        i: [[o.reads.block for o in options], [o.writes.block for o in options]]
        for i, options in enumerate(layout_graph.options)
    }


def _nodes(layout_graph: LayoutGraph, solution: Solution, prices: _Prices) -> Iterator[NodeRow]:
    all_prices = prices.of_all_options()
    for i, node in enumerate(layout_graph.graph.nodes):
        options, taken = layout_graph.options[i], solution.choice[i]
        if len(options) == 1:
            others: tuple[Alternative, ...] = ()
        elif all_prices is not None:
            others = _ranked(options, all_prices[i].tolist(), taken)
        else:
            others = prices.runner_up(i, taken)
        yield NodeRow(node, options[taken], len(options), others)


def _ranked(
    options: tuple[Option, ...], prices: list[float], taken: int
) -> tuple[Alternative, ...]:
    others = (
        Alternative(option, price)
        for k, (option, price) in enumerate(zip(options, prices, strict=True))
        if k != taken
    )
    return tuple(sorted(others, key=lambda other: other.network_seconds))


def _transforms(
    layout_graph: LayoutGraph, solution: Solution, prices: _Prices
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
            yield TransformRow(
                source=graph.nodes[source],
                targets=tuple(graph.nodes[target] for target in targets),
                shape=shape,
                before=before,
                after=after,
                seconds=seconds,
                if_source=prices.least_among(_agreeing(layout_graph, source, targets, after)),
                if_targets=prices.least_among(_agreeing(layout_graph, source, targets, before)),
            )


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
