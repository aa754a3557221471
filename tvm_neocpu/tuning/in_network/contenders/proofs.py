"""The end of a session: contenders are proven one after the other, until one is faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm_neocpu.core.errors import first_line
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.contenders.reserve import PROOF_SECONDS
from tvm_neocpu.tuning.in_network.contenders.second_reading import LEAST_GAIN
from tvm_neocpu.tuning.in_network.processes.crew import Site
from tvm_neocpu.tuning.in_network.processes.machine import Lowering
from tvm_neocpu.tuning.in_network.processes.verify import Proof, find_wrong, find_wrong_groups
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.report.progress import Progress
from tvm_neocpu.tuning.in_network.rounds.beside import MakeRecord
from tvm_neocpu.tuning.in_network.rounds.board import Board
from tvm_neocpu.tuning.in_network.rounds.rounds import Keep
from tvm_neocpu.tuning.measuring.child_process import ChildError
from tvm_neocpu.tuning.measuring.measurer import MeasureErrorNo


@dataclass(frozen=True)
class Proofs:
    """Compares contenders with the incumbent, and finds what makes a contender wrong."""

    graph: ConvGraph
    board: Board
    incumbent: Plan
    site: Site
    open_network: Callable[[], Lowering]
    threads: int
    make_record: MakeRecord
    keep: Keep
    progress: Progress

    def first_faster(
        self, contenders: Sequence[tuple[Ratio, Plan]], left: Callable[[], float], needed: float
    ) -> tuple[Proof | None, Plan]:
        """The first contender that is proven faster, else the incumbent; and the best proof.

        ``left`` says how many seconds are left. Another proof is begun while these are ``needed``
        at least, and while the plan is believed to be faster after what the proofs before it showed
        of theirs.
        """
        best: Proof | None = None
        misses: list[float] = []
        for ratio, plan in contenders:
            if ratio.log + _shift(misses) > math.log(1 - LEAST_GAIN):
                break  # those behind it ran slower
            expected = f"{1 / ratio.value:.3f}x"
            self.progress.say(f"proving a plan that ran {expected} as fast, in fresh processes")
            plans, seconds = (self.incumbent, plan), max(PROOF_SECONDS, left())
            try:
                proof = self.site.prove(self.open_network, plans, self.threads, seconds)
            except ChildError as error:
                # A plan that dies in a fresh process is not proven; what was measured counts.
                self.progress.say(
                    f"  it does not build or run there: {first_line(error)}: not used"
                )
                if left() < needed:
                    break
                continue
            self.progress.say(f"  there it takes {proof.ratio} of the time")
            if proof.faster:
                return proof, replace(plan, seconds=self.board.network_seconds * proof.ratio.value)
            if proof.right:
                misses.append(proof.ratio.log - ratio.log)
            else:
                self.progress.say(f"  its outputs are off by {proof.error:.1e}: not used")
                self._blame(plan)
            if best is None or _rank(proof) < _rank(best):
                best = proof
            if left() < needed:
                break
        return best, self.incumbent

    def _blame(self, plan: Plan) -> None:
        """Find what computes something else: a group, which is named, or a candidate, which is
        written down too. A mixture of the plans that dies ends the search for it alone."""
        try:
            with self.site.computing(self.open_network, self.threads) as compute:
                groups = find_wrong_groups(compute, self.incumbent, plan)
                found = [] if groups else find_wrong(compute, self.graph, self.incumbent, plan)
        except ChildError as error:
            self.progress.say(f"  which layer it is was not found: {first_line(error)}")
            return
        for group in groups:
            names = " -> ".join(str(self.graph.by_id[id].workload) for id in group.members)
            self.progress.say(f"  {names} as one function computes something else than by itself")
        for workload, config in found:
            self.board.seats[workload].fail(config, "it computes something else")
            self.progress.say(f"  {workload} as {config} computes something else: never again")
            self.keep(self.make_record(workload, config, (), MeasureErrorNo.WRONG_ANSWER))


def _shift(misses: Sequence[float]) -> float:
    """How far the next plan is believed to miss, as the plans before it did on average.

    One miss counts half: a pair of processes is off by itself.
    """
    return sum(misses) / (len(misses) + 1)


def _rank(proof: Proof) -> tuple[bool, float]:
    """Plans that compute the same come before others, then the faster ones."""
    return not proof.right, proof.ratio.log
