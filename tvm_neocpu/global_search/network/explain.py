"""Why the search chose as it did: every choice next to the price of its alternatives.

The price of an alternative is not its own time, because another scheme of one convolution changes
the layouts of its neighbours. Every price here is the time of the best whole network that takes the
alternative, with everything else chosen anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, Shape4
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.global_search.network.baselines import fastest_schemes
from tvm_neocpu.global_search.network.group_nodes import APART
from tvm_neocpu.global_search.network.layout_graph import LayoutGraph, Option, edges_by_tensor
from tvm_neocpu.global_search.network.prices import Prices
from tvm_neocpu.global_search.problem.cost_graph import Mask
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.problem.solution import Solution

# Seconds for the prices that min-marginals do not answer, in graphs whose tables are too large.
TIME_LIMIT = 10.0

Scheme = tuple[Workload | None, Config | None]


@dataclass(frozen=True)
class Alternative:
    """Another option of a node, and the seconds of the best network that takes it."""

    option: Option
    network_seconds: float


@dataclass(frozen=True)
class NodeRow:
    """The choice at one node, and its other options, the one of the fastest network first.

    ``candidates`` is the number of all options. If time did not suffice, ``alternatives`` holds the
    best one only, or none.
    """

    node: GraphNode
    option: Option
    candidates: int
    alternatives: tuple[Alternative, ...] = ()

    @property
    def runner_up(self) -> Alternative | None:
        """The best alternative, if any is known."""
        return self.alternatives[0] if self.alternatives else None


@dataclass(frozen=True)
class TransformRow:
    """A transform that the network pays for: a tensor, stored again in another layout.

    ``source`` writes the tensor in layout ``before``; ``targets`` are the consumers that read it in
    layout ``after``. The logical ``shape`` is (N, C, H, W). ``seconds`` is the transform's time.

    The other two are prices of networks without it, in seconds. ``if_source``: the source writes
    ``after``. ``if_targets``: the targets read ``before``. A price is +inf if no such network
    exists, and None if time did not suffice.
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
class GroupRow:
    """Layers that one function computes, bands of ``rows`` output rows at a time.

    ``run`` bands keep the rows that they share; 1: each band computes its halo.

    ``gain`` is what this saves of their seconds. ``if_apart`` is the time of the best network
    without the group, in seconds; None if time did not suffice.
    """

    members: tuple[GraphNode, ...]
    rows: int
    gain: float
    if_apart: float | None
    run: int = 1


@dataclass(frozen=True)
class Explanation:
    """All choices, transforms and groups of a network; ``seconds`` is their sum.

    No choice takes less than ``lower_bound`` seconds. ``greedy_seconds`` is the time of the network
    in which every convolution takes its own fastest scheme; None if time did not suffice.
    ``measured`` holds the schemes whose time was measured, not predicted.
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
    groups: tuple[GroupRow, ...] = ()

    @property
    def gap(self) -> float:
        """The max share of ``seconds`` that the optimum could save: 0 if proven optimal."""
        return (self.seconds - self.lower_bound) / self.seconds if self.seconds else 0.0

    @property
    def transform_seconds(self) -> float:
        """The sum of the transforms' seconds."""
        return sum(row.seconds for row in self.transforms)

    @property
    def group_gain(self) -> float:
        """The sum of what groups save."""
        return sum(row.gain for row in self.groups)

    @property
    def sweep_seconds(self) -> float:
        """The sum of the sweeps' seconds: pools, joins and what else runs beside the kernels."""
        return sum(row.option.sweeps for row in self.nodes)

    def is_measured(self, node: GraphNode, option: Option) -> bool:
        """Whether ``option.seconds``, those of a kernel, were measured."""
        return (node.workload, option.config) in self.measured


def explain(
    layout_graph: LayoutGraph,
    solution: Solution,
    measured: Iterable[Scheme] = (),
    time_limit: float = TIME_LIMIT,
) -> Explanation:
    """Price the alternatives to every choice and transform of a solution, in seconds.

    measured: the schemes whose time was measured, not predicted.
    time_limit: seconds. Prices that are not known by then are left out. If the tables of
        elimination are small, the alternatives of all nodes are priced at once in a fraction of a
        second; else each is a search of its own.

    Raises InvalidProblemError for a negative time limit.
    """
    prices, deadline = Prices(layout_graph), Deadline.after(time_limit)
    first = deadline.share(0.5)
    greedy = prices.min_among(fastest_schemes(layout_graph), first)
    return Explanation(
        graph=layout_graph.graph,
        transforms=tuple(_transforms(layout_graph, solution, prices, first)),
        nodes=tuple(_nodes(layout_graph, solution, prices, deadline)),
        seconds=solution.cost,
        lower_bound=solution.lower_bound,
        optimal=solution.optimal,
        method=solution.method,
        greedy_seconds=greedy,
        measured=frozenset(measured),
        groups=tuple(_groups(layout_graph, solution, prices, deadline)),
    )


def _nodes(
    layout_graph: LayoutGraph, solution: Solution, prices: Prices, deadline: Deadline
) -> Iterator[NodeRow]:
    all_prices = prices.of_all_options()
    for i, node in enumerate(layout_graph.graph.nodes):
        options, taken = layout_graph.options[i], solution.choice[i]
        others: tuple[Alternative, ...] = ()
        if all_prices is not None:
            others = _ranked(options, all_prices[i].tolist(), taken)
        elif (best := prices.without(i, taken, deadline)) is not None:
            others = (Alternative(options[best.choice[i]], best.cost),)
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
    layout_graph: LayoutGraph, solution: Solution, prices: Prices, deadline: Deadline
) -> Iterator[TransformRow]:
    """One row for each tensor and each layout into which it is transformed, unless that is free."""
    graph = layout_graph.graph
    index = {node.id: i for i, node in enumerate(graph.nodes)}
    picked = layout_graph.picked(solution.choice)
    for edges in edges_by_tensor(graph).values():
        source, shape = index[edges[0].src], edges[0].shape
        before = picked[source].writes
        readers = dict.fromkeys(index[edge.dst] for edge in edges)
        for after in sorted({picked[reader].reads for reader in readers} - {before}):
            seconds = layout_graph.transform_seconds(shape, before, after, edges[0].dtype)
            if seconds == 0:
                continue
            targets = [reader for reader in readers if picked[reader].reads == after]
            on_after = _agreeing(layout_graph, source, targets, after)
            on_before = _agreeing(layout_graph, source, targets, before)
            yield TransformRow(
                source=graph.nodes[source],
                targets=tuple(graph.nodes[target] for target in targets),
                shape=shape,
                before=before,
                after=after,
                seconds=seconds,
                if_source=prices.min_among(on_after, deadline),
                if_targets=prices.min_among(on_before, deadline),
            )


def _groups(
    layout_graph: LayoutGraph, solution: Solution, prices: Prices, deadline: Deadline
) -> Iterator[GroupRow]:
    """One row for each group that was chosen."""
    by_id = layout_graph.graph.by_id
    for number, group in enumerate(layout_graph.groups, layout_graph.first_group):
        taken = solution.choice[number]
        if taken == APART:
            continue
        candidate = group.candidates[taken - 1]
        apart = np.arange(len(group.candidates) + 1) == APART
        yield GroupRow(
            tuple(by_id[member] for member in candidate.members_of(group.members)),
            candidate.rows,
            candidate.gain,
            prices.min_among({number: apart}, deadline),
            candidate.run,
        )


def _agreeing(
    layout_graph: LayoutGraph, source: int, targets: list[int], layout: Layout
) -> dict[int, Mask]:
    """For source and targets, the options in which the tensor between them has this layout."""
    options = layout_graph.options
    reading = {t: np.array([o.reads == layout for o in options[t]]) for t in targets}
    return reading | {source: np.array([o.writes == layout for o in options[source]])}
