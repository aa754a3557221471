"""`solve`, and the table of its methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tvm_neocpu.core.errors import InvalidProblemError
from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.solvers.auto import solve_auto
from tvm_neocpu.global_search.solvers.brute import solve_brute
from tvm_neocpu.global_search.solvers.conflict import unsatisfiable
from tvm_neocpu.global_search.solvers.dp import solve_dp
from tvm_neocpu.global_search.solvers.milp import solve_milp
from tvm_neocpu.global_search.solvers.paper import solve_paper
from tvm_neocpu.global_search.solvers.pbqp import solve_pbqp


@dataclass(frozen=True)
class Method:
    """A solver and its default time limit in seconds.

    The solver returns None if every choice is forbidden.
    """

    solver: Callable[[LayoutProblem, Deadline], Solution | None]
    time_limit: float


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "auto": Method(solve_auto, 30.0),
        "dp": Method(solve_dp, 300.0),
        "pbqp": Method(solve_pbqp, 60.0),
        "milp": Method(solve_milp, 60.0),
        "brute": Method(solve_brute, 60.0),
        "paper": Method(solve_paper, 300.0),
    }
)


def solve(
    problem: LayoutProblem, method: str = "auto", time_limit: float | None = None
) -> Solution:
    """Solve a layout problem; costs, cost and lower bound are in the problem's unit.

    method: one of

        "auto"   exact if the limits allow it, always with a lower bound
        "paper"  dynamic programming, or PBQP if that takes too long (NeoCPU, section 3.3.2)
        "dp", "milp", "brute"  exact, or SearchLimitError
        "pbqp"   a heuristic with a lower bound

    time_limit: seconds; by default that of the method in METHODS.

    Raises UnsatisfiableError if every choice is forbidden (the text names the conflict),
    SearchLimitError if the method finds no answer within its size and time limits, and
    InvalidProblemError for an unknown method or a negative time limit.
    """
    if method not in METHODS:
        known = ", ".join(METHODS)
        raise InvalidProblemError(f"there is no method {method!r}; choose one of {known}")
    entry = METHODS[method]
    deadline = Deadline.after(entry.time_limit if time_limit is None else time_limit)
    solution = entry.solver(problem, deadline)
    if solution is None:
        raise unsatisfiable(problem)
    return solution
