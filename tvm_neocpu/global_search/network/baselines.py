"""Other ways to choose than the global search, as restrictions of the same problem.

Each marks the schemes that its convolutions may take; the joins between them are chosen best, so
that what differs in the end is the convolutions' choice and the transforms that follow from it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvm_neocpu.core.layout import Layout
from tvm_neocpu.global_search.network.layout_graph import LayoutGraph, Option
from tvm_neocpu.global_search.problem.cost_graph import Mask
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.solvers.restricted import solve_among

TIME_LIMIT = 10.0

Marked = dict[int, Mask]


def fastest_schemes(layout_graph: LayoutGraph) -> Marked:
    """Greedy: every convolution's own fastest scheme, whatever its neighbours take."""
    costs = layout_graph.problem.node_costs
    return {i: _only(int(costs[i].argmin()), costs[i].size) for i in _convs(layout_graph)}


def schemes_of_one_layout(layout_graph: LayoutGraph, layout: Layout) -> Marked:
    """One layout for all tensors: where a convolution cannot have it, as nearly as it can.

    Writing it counts for more than reading it: the image has three channels. Joins keep to it too.
    """
    marked: Marked = {}
    for i, node in enumerate(layout_graph.graph.nodes):
        options = layout_graph.options[i]
        likeness = [_likeness(option, layout) for option in options]
        if node.workload is not None or layout in {option.writes for option in options}:
            marked[i] = np.array(likeness) == max(likeness)
    return marked


def random_schemes(layout_graph: LayoutGraph, start: Solution, share: float, seed: int) -> Marked:
    """``start`` with a share of its convolutions, at least one, given any scheme at random."""
    rng = np.random.default_rng(seed)
    convs = _convs(layout_graph)
    changed = set(rng.permutation(convs)[: max(1, round(share * len(convs)))].tolist())
    marked: Marked = {}
    for i in convs:
        count = len(layout_graph.options[i])
        marked[i] = _only(int(rng.integers(count)) if i in changed else start.choice[i], count)
    return marked


def solve_marked(
    layout_graph: LayoutGraph, marked: Marked, optimum: Solution, method: str
) -> Solution:
    """The best choice among the marked schemes, bounded by the optimum of all of them.

    Raises SearchLimitError if none was found in :data:`TIME_LIMIT` seconds.
    """
    found = solve_among(layout_graph.problem, marked, Deadline.after(TIME_LIMIT))
    assert found is not None, "joins and boundaries follow any convolution"
    bound = min(found.cost, optimum.lower_bound)
    return replace(found, lower_bound=bound, optimal=found.cost <= bound, method=method)


def _convs(layout_graph: LayoutGraph) -> list[int]:
    return [i for i, node in enumerate(layout_graph.graph.nodes) if node.workload is not None]


def _only(candidate: int, count: int) -> Mask:
    mask: Mask = np.arange(count) == candidate
    return mask


def _likeness(option: Option, layout: Layout) -> int:
    return 2 * (option.writes == layout) + (option.reads == layout)
