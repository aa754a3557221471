"""Global search: pick a layout for every node of a network (NeoCPU, section 3.3.2); no TVM.

    plan = choose_layouts(graph, candidates, transform_seconds)        a network
    solution = solve(LayoutProblem(node_costs, edge_costs))            the numbers behind it

`choose_layouts` is `build_layout_graph`, `solve` and `plan_of` in a row. `solution_of` goes from a
plan back to its solution, and `explain` says what every choice gains over the next best one.

The rooms; each imports only those below it:

    network/   a network as a LayoutProblem, and the plan that a Solution means
    solvers/   the methods of `solve`
    simplify/  exact rewritings that make a problem easier
    problem/   LayoutProblem, Solution, and the cost graph that solvers work on
"""

from tvm_neocpu.global_search.network.choose import choose_layouts, plan_of, solution_of
from tvm_neocpu.global_search.network.explain import Explanation, explain
from tvm_neocpu.global_search.network.layout_graph import LayoutGraph, build_layout_graph
from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem
from tvm_neocpu.global_search.problem.limits import SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.solvers.methods import METHODS, solve

__all__ = [
    "METHODS",
    "Explanation",
    "LayoutGraph",
    "LayoutProblem",
    "SearchLimitError",
    "Solution",
    "build_layout_graph",
    "choose_layouts",
    "explain",
    "plan_of",
    "solution_of",
    "solve",
]
