"""Plans to compare the global search with, as restrictions of the same problem.

Each function marks the schemes that the convolutions may take. The solver then picks the best
layouts for the joins. So two plans differ only by the convolutions' schemes and the transforms that
follow from them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.global_search.network.layout_graph import LayoutGraph, Option
from tvm_neocpu.global_search.problem.cost_graph import Mask
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.solvers.restricted import solve_among

# Seconds for solving one restricted problem.
TIME_LIMIT = 10.0

# For some nodes of the problem, which candidates they may take.
Marked = dict[int, Mask]


def fastest_schemes(layout_graph: LayoutGraph) -> Marked:
    """Greedy: every convolution takes its own fastest scheme, whatever its neighbours take."""
    seconds = {i: [o.seconds for o in layout_graph.options[i]] for i in _convs(layout_graph)}
    return {i: _only(int(np.argmin(own)), len(own)) for i, own in seconds.items()}


def schemes_of_one_layout(layout_graph: LayoutGraph, layout: Layout) -> Marked:
    """One layout for all tensors, as far as each node has it among its candidates.

    A convolution without a scheme that reads and writes the layout takes one that writes it, else
    one that reads it, else any. The first convolution must do so: its image has three channels. A
    join takes the layout if it can.
    """
    marked: Marked = {}
    for i, node in enumerate(layout_graph.graph.nodes):
        options = layout_graph.options[i]
        likeness = [_likeness(option, layout) for option in options]
        if node.workload is not None or layout in {option.writes for option in options}:
            marked[i] = np.array(likeness) == max(likeness)
    return marked


def random_schemes(layout_graph: LayoutGraph, start: Solution, share: float, seed: int) -> Marked:
    """``start`` with random schemes at some convolutions, which are picked at random too.

    share: how many of the convolutions, 0 to 1; at least one is picked. A random scheme may be the
        old one again.
    """
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
    """The best choice among the marked schemes, with the lower bound of the whole problem.

    optimum: the solution without marks. method: the name of the result's method.

    Raises SearchLimitError if no choice was found in :data:`TIME_LIMIT` seconds.
    """
    found = solve_among(layout_graph.problem, marked, Deadline.after(TIME_LIMIT))
    assert found is not None, "joins and boundaries go with every scheme of a convolution"
    bound = min(found.cost, optimum.lower_bound)
    return replace(found, lower_bound=bound, optimal=found.cost <= bound, method=method)


def _convs(layout_graph: LayoutGraph) -> list[int]:
    return [i for i, node in enumerate(layout_graph.graph.nodes) if node.workload is not None]


def _only(candidate: int, count: int) -> Mask:
    mask: Mask = np.arange(count) == candidate
    return mask


def _likeness(option: Option, layout: Layout) -> int:
    return 2 * (option.writes == layout) + (option.reads == layout)
