"""The fastest choice of precisions whose measured error stays within a bound, and which pays."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm_neocpu.global_search.solvers.within_bound import WithinBound, solve_within
from tvm_neocpu.precision.mixed_network import Mix, MixedNetwork
from tvm_neocpu.precision.problem import PrecisionProblem
from tvm_neocpu.quantizing.accuracy.meet_bound import TIGHTENING

# The share of the noise power that is allowed next, where a choice does not pay. A try runs all
# samples and plans a network: a smaller choice sooner is worth more than the largest one late.
UNPAID = 0.5


class Within:
    """The search for the fastest plan whose measured error stays within a bound, and which pays.

    ``seconds`` predicts a build with some layers in lower precision, which pays below ``fp32``
    seconds.

    ``chosen`` is what is in lower precision, ``measured`` is its error, ``lower_bound`` that of the
    first search, whose target is the bound itself; ``tightened`` counts the others before it.
    """

    def __init__(
        self,
        bound: float,
        network: MixedNetwork,
        problem: PrecisionProblem,
        seconds: Callable[[Mix], float] = lambda _: 0.0,
        fp32: float = math.inf,
    ) -> None:
        self._bound, self._network, self._problem = bound, network, problem
        self._seconds, self._fastest = seconds, fp32
        self._best: WithinBound | None = None
        self.chosen = Mix()
        self.measured, self.lower_bound, self.tightened = 0.0, 0.0, 0

    def search(self) -> WithinBound:
        """The search's own choice, as far as it goes; the plan in fp32 where nothing pays.

        Integers may err far more than their noise says, where classes flip. What is left of the
        bound then is too little for half precision, too: that is searched by itself.
        """
        problem = self._problem
        found = within_noise(problem, self._bound**2)
        self.lower_bound = found.lower_bound
        tries = self._tighten(problem, found, 0)
        if problem.halves and problem.noise.needs and (self._best is None or self.tightened):
            halves = problem.without_integers()
            tries = self._tighten(halves, within_noise(halves, self._bound**2), tries)
        if self._best is None:
            self.tightened = tries
            return within_noise(problem, 0.0)
        return self._best

    def _tighten(self, problem: PrecisionProblem, found: WithinBound, tries: int) -> int:
        """Keep the fastest of smaller and smaller choices; how many were tried until then.

        Where the measured error is above the bound, the predicted one must get smaller still. It
        must, too, where the choice does not pay: fewer layers in int8 may, since they need fewer
        conversions. For the same reason a choice that pays is not yet the fastest: smaller ones are
        tried until one is slower than the one before. The last choice of all is fp32.
        """
        target = self._bound**2
        while mix := self._mix(problem, found):
            measured, shrink = self._network.error(mix), UNPAID
            if not measured <= self._bound:
                shrink = min(TIGHTENING, (self._bound / measured) ** 2)
            else:
                seconds = self._seconds(mix)
                if seconds < self._fastest:
                    self._best, self._fastest = found, seconds
                    self.chosen, self.measured, self.tightened = mix, measured, tries
                    if not mix.int8:
                        break  # half precision needs no conversions: fewer layers gain nothing
                elif self._best is not None:
                    break
            tries += 1
            target = min(target, found.noise) * shrink
            found = within_noise(problem, target)
        return tries

    def _mix(self, problem: PrecisionProblem, found: WithinBound) -> Mix:
        """The operations in int8 where the layers of a choice are, and those in half precision."""
        return self._network.choose(problem.layers(found.choice), problem.in_half(found.choice))


def within_noise(problem: PrecisionProblem, bound: float) -> WithinBound:
    """The fastest plan whose noise power is at most ``bound``; fp32 has none."""
    if bound == 0:
        problem = problem.in_fp32()  # not even rounding that makes no difference on the samples
    graph = problem.precision_graph
    found = solve_within(graph.problem, graph.noise, bound)
    assert found is not None, "fp32 makes no noise"
    return found
