"""What a session measures with: processes here, or servers elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from tvm_neocpu.core.machine.cores import allowed_cpus
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.processes.machine import Lowering, Run
from tvm_neocpu.tuning.in_network.processes.verify import (
    Compute,
    Proof,
    computing,
    fresh_pair,
    prove,
)
from tvm_neocpu.tuning.in_network.processes.workers import Workers
from tvm_neocpu.tuning.measuring.child_process import ChildError


class Crew(Protocol):
    """Machines that hold the network, its incumbent and one more plan each; :class:`Workers`.

    ``baseline`` is the incumbent's time of one inference in seconds.
    """

    @property
    def baseline(self) -> float: ...

    def __len__(self) -> int:
        """How many plans the next :meth:`build` may take."""

    def start(self, incumbent: Plan) -> None:
        """Compile the incumbent everywhere; raises ChildError."""

    def build(self, plans: Sequence[Plan], views: bool) -> list[ChildError | None]:
        """Compile one plan on each machine; what went wrong with each."""

    def times(self, index: int, runs: int) -> dict[str, list[Run]]:
        """The incumbent and the plan of one machine, timed in turns; raises ChildError."""

    def ask(self, index: int, name: str, *arguments: Any) -> Any:
        """Any other question to one machine; raises ChildError."""


class Site(Protocol):
    """Where a session measures."""

    def crew(
        self, open_network: Callable[[], Lowering], threads: int
    ) -> AbstractContextManager[Crew]:
        """The machines, ended with the context."""

    def prove(
        self,
        open_network: Callable[[], Lowering],
        plans: tuple[Plan, Plan],
        threads: int,
        seconds: float,
    ) -> Proof:
        """Compare two plans, freshly started, for about ``seconds``; raises ChildError."""

    def computing(
        self, open_network: Callable[[], Lowering], threads: int
    ) -> AbstractContextManager[Compute]:
        """The outputs of any plan, ended with the context."""


class Here:
    """This machine."""

    def crew(self, open_network: Callable[[], Lowering], threads: int) -> Workers:
        """One process on each core that this process may use; more than four builds wait."""
        count = min(4, len(allowed_cpus()))
        return Workers(open_network, count)

    def prove(
        self,
        open_network: Callable[[], Lowering],
        plans: tuple[Plan, Plan],
        threads: int,
        seconds: float,
    ) -> Proof:
        """Each plan in a process of its own."""
        return prove(partial(fresh_pair, open_network, plans), seconds)

    def computing(
        self, open_network: Callable[[], Lowering], threads: int
    ) -> AbstractContextManager[Compute]:
        """One more process."""
        return computing(open_network)
