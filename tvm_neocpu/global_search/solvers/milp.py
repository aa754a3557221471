"""Mixed integer linear programming: branch and cut by HiGHS, through SciPy; exact.

The program is the local-polytope linearisation of a cost graph:

    variables    x[i, a]          1 if node i takes its candidate a, else 0
                 y[i, a, j, b]    1 if both ends of the edge (i, j) take these candidates
    rows         the x of a node sum to 1
                 each row of an edge's y sums to the x of its first node's candidate,
                 each column to the x of its second node's candidate

A forbidden pair has no `y`. If the `x` are integers, so are the `y`: only `x` is declared integral.

SciPy is imported where it is used: that takes 0.3 s (Zen 3), and few networks come here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution, bounded, proven
from tvm_neocpu.global_search.simplify.consistency import drop_impossible
from tvm_neocpu.global_search.simplify.reductions import fix_single

Indices = npt.NDArray[np.intp]

# HiGHS has absolute tolerances of 1e-6 and 1e-7. Costs of microseconds, given in seconds, would all
# look equal to it. So the costs are scaled until the largest is this.
LARGEST_COEFFICIENT = 1e4
# The sum that HiGHS's tolerances can reach, as a share of the largest cost.
TOLERANCE = 1e-7
# Each pair of candidates is a variable. Four million of them take HiGHS some 4 GB of memory.
MAX_PAIRS = 4_000_000

HIGHS_OPTIMAL, HIGHS_INFEASIBLE = 0, 2


@dataclass(frozen=True)
class MilpResult:
    """The labels that HiGHS found (None without any), a lower bound, and whether it finished.

    If `chosen` is None and `finished` is True, every choice is forbidden.
    """

    chosen: dict[int, int] | None
    lower_bound: float
    finished: bool


def solve_milp(problem: LayoutProblem, deadline: Deadline) -> Solution | None:
    """The optimum, or the best choice found by the deadline; None if every choice is forbidden.

    Raises SearchLimitError if no choice was found by the deadline, and for more than MAX_PAIRS
    pairs of candidates.
    """
    graph = CostGraph.of(problem)
    if drop_impossible(graph) is not None:
        return None
    fix_single(graph)
    if count_pairs(graph) > MAX_PAIRS:
        raise SearchLimitError(
            f"milp: more than {MAX_PAIRS} pairs of candidates; use method='auto'"
        )
    result = branch_and_cut(graph, deadline)
    if result.chosen is None and result.finished:
        return None
    if result.chosen is None:
        raise SearchLimitError(
            "milp: found no choice in time; raise the time limit or use method='auto'"
        )
    chosen = graph.complete(result.chosen)
    if result.finished:
        return proven(problem, chosen, "milp")
    return bounded(problem, chosen, result.lower_bound, "milp")


def count_pairs(graph: CostGraph) -> int:
    """The pairs of candidates over all edges: an upper bound on the number of `y` variables."""
    return sum(matrix.size for _, _, matrix in graph.edge_list())


def branch_and_cut(graph: CostGraph, deadline: Deadline) -> MilpResult:
    """Solve what remains of a graph. The graph must be arc consistent."""
    if not graph.costs:
        return MilpResult({}, graph.constant, finished=True)
    from scipy import optimize

    program = linearise(graph)
    largest = float(program.objective.max())
    scale = LARGEST_COEFFICIENT / largest if largest > 0 else 1.0
    answer = optimize.milp(
        program.objective * scale,
        integrality=program.integrality,
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(program.matrix, program.sums, program.sums),
        options={"time_limit": deadline.remaining, "mip_rel_gap": 0.0},
    )
    dual = answer.mip_dual_bound
    bound = program.offset
    if dual is not None and np.isfinite(dual):
        bound += max(0.0, float(dual)) / scale
    if answer.x is None:
        return MilpResult(None, bound, finished=answer.status == HIGHS_INFEASIBLE)
    places = program.places(graph, answer.x)
    closed = graph.cost(places) - bound <= TOLERANCE * largest
    finished = answer.status == HIGHS_OPTIMAL and closed
    return MilpResult(graph.to_labels(places), bound, finished)


@dataclass(frozen=True)
class LinearProgram:
    """Minimise `objective @ v + offset` over `0 <= v <= 1`, `matrix @ v == sums`.

    For `n` variables and `m` rows: `objective` and `integrality` have shape `(n,)`, `sums` `(m,)`,
    `matrix` `(m, n)`. The objective is never negative. `integrality` is 1 for the `x` and 0 for the
    `y`. `first_x[i]` is the index of node `i`'s first variable.
    """

    objective: npt.NDArray[np.float64]
    offset: float
    matrix: Any  # scipy.sparse.csc_array
    sums: npt.NDArray[np.float64]
    integrality: npt.NDArray[np.int8]
    first_x: dict[int, int]

    def places(self, graph: CostGraph, values: npt.NDArray[np.float64]) -> dict[int, int]:
        """The place of every node's chosen candidate, read from the variables' values."""
        spans = ((i, self.first_x[i], costs.size) for i, costs in graph.costs.items())
        return {i: int(np.argmax(values[first : first + size])) for i, first, size in spans}


@dataclass
class _Entries:
    """The non-zero entries of the matrix and the objective, collected bit by bit."""

    rows: list[Indices] = field(default_factory=list)
    columns: list[Indices] = field(default_factory=list)
    values: list[npt.NDArray[np.float64]] = field(default_factory=list)
    objective: list[Costs] = field(default_factory=list)
    row_count: int = 0
    column_count: int = 0

    def put(self, rows: Indices, columns: Indices, value: float) -> None:
        """Set the entries at (rows, columns), two arrays of equal length, to a value."""
        self.rows.append(rows)
        self.columns.append(columns)
        self.values.append(np.full(rows.size, value))

    def new_variables(self, costs: Costs) -> Indices:
        """Append variables with these costs; return their columns."""
        self.objective.append(costs)
        self.column_count += costs.size
        return np.arange(self.column_count - costs.size, self.column_count)

    def new_rows(self, count: int) -> Indices:
        """Append rows; return their indices."""
        self.row_count += count
        return np.arange(self.row_count - count, self.row_count)


def linearise(graph: CostGraph) -> LinearProgram:
    """The program of what remains of a graph. The graph must be arc consistent."""
    from scipy import sparse

    entries = _Entries()
    offset = graph.constant
    x: dict[int, Indices] = {}
    for i, costs in graph.costs.items():
        x[i] = entries.new_variables(costs - costs.min())
        entries.put(entries.new_rows(1).repeat(costs.size), x[i], 1.0)
        offset += float(costs.min())
    for i, j, matrix in graph.edge_list():
        _put_edge(entries, x[i], x[j], matrix - matrix.min())
        offset += float(matrix.min())
    shape = (entries.row_count, entries.column_count)
    where = (np.concatenate(entries.rows), np.concatenate(entries.columns))
    nodes, first_y = len(x), sum(columns.size for columns in x.values())
    return LinearProgram(
        objective=np.concatenate(entries.objective),
        offset=offset,
        matrix=sparse.csc_array((np.concatenate(entries.values), where), shape=shape),
        sums=(np.arange(shape[0]) < nodes).astype(np.float64),
        integrality=(np.arange(shape[1]) < first_y).astype(np.int8),
        first_x={i: int(columns[0]) for i, columns in x.items()},
    )


def _put_edge(entries: _Entries, x_i: Indices, x_j: Indices, matrix: Costs) -> None:
    a, b = np.nonzero(np.isfinite(matrix))
    y = entries.new_variables(matrix[a, b])
    for end, variables in ((a, x_i), (b, x_j)):
        rows = entries.new_rows(variables.size)
        entries.put(rows[end], y, 1.0)
        entries.put(rows, variables, -1.0)
