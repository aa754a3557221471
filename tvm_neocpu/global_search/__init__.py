"""Global search: which layout each node of the network takes (NeoCPU, section 3.3.2); no TVM.

problem = LayoutProblem(node_costs, edge_costs)
solution = solve(problem)
"""

from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem
from tvm_neocpu.global_search.problem.limits import SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.solvers.methods import METHODS, solve

__all__ = ["METHODS", "LayoutProblem", "SearchLimitError", "Solution", "solve"]
