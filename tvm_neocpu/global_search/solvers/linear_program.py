"""The local-polytope linearisation of a cost graph, as sparse arrays.

Variables: `x[i, a]`, node `i` takes its candidate `a`, then `y[i, a, j, b]`, both ends of an edge
do; forbidden pairs have no `y`. Rows: each node's `x` sum to 1; each row and each column of an
edge's `y` sums to the `x` beside it. With `x` integral `y` needs no integrality of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.problem import Costs

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class LinearProgram:
    """Minimise `objective @ v + offset` over `0 <= v <= 1`, `matrix @ v == sums`.

    The objective is never negative; `integrality` is 1 for the `x`, 0 for the `y`. `first_x[i]` is
    the place of node `i`'s first variable.
    """

    objective: npt.NDArray[np.float64]
    offset: float
    matrix: Any  # scipy.sparse.csc_array
    sums: npt.NDArray[np.float64]
    integrality: npt.NDArray[np.int8]
    first_x: dict[int, int]

    def places(self, graph: CostGraph, values: npt.NDArray[np.float64]) -> dict[int, int]:
        """Every node's chosen candidate, read from the variables."""
        spans = ((i, self.first_x[i], costs.size) for i, costs in graph.costs.items())
        return {i: int(np.argmax(values[first : first + size])) for i, first, size in spans}


@dataclass
class _Entries:
    """The matrix's non-zero entries and the objective, as they are collected."""

    rows: list[Indices] = field(default_factory=list)
    columns: list[Indices] = field(default_factory=list)
    values: list[npt.NDArray[np.float64]] = field(default_factory=list)
    objective: list[Costs] = field(default_factory=list)
    row_count: int = 0
    column_count: int = 0

    def put(self, rows: Indices, columns: Indices, value: float) -> None:
        self.rows.append(rows)
        self.columns.append(columns)
        self.values.append(np.full(rows.size, value))

    def new_variables(self, costs: Costs) -> Indices:
        """Append variables with these costs; their columns."""
        self.objective.append(costs)
        self.column_count += costs.size
        return np.arange(self.column_count - costs.size, self.column_count)

    def new_rows(self, count: int) -> Indices:
        self.row_count += count
        return np.arange(self.row_count - count, self.row_count)


def linearise(graph: CostGraph) -> LinearProgram:
    """The program of what is left of a graph, which has to be arc consistent."""
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
