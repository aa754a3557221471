"""What a session spends its time on: wall-clock seconds by phase, told in its report."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.processes.crew import Crew
from tvm_neocpu.tuning.in_network.processes.machine import Run
from tvm_neocpu.tuning.measuring.child_process import ChildError

START, BUILD, TIME, SEARCH, PROOF = "start", "build", "time", "search", "proof"


class Spent:
    """Seconds by phase; a phase inside another one counts for itself alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = defaultdict(float)
        self._phases: list[str] = []
        self._since = 0.0

    @contextmanager
    def on(self, phase: str) -> Iterator[None]:
        """What runs inside is of this phase."""
        self._count()
        self._phases.append(phase)
        try:
            yield
        finally:
            self._count()
            self._phases.pop()

    @property
    def seconds(self) -> dict[str, float]:
        """By phase, in the order in which they first came to an end."""
        return dict(self._seconds)

    def _count(self) -> None:
        now = self._clock()
        if self._phases:
            self._seconds[self._phases[-1]] += now - self._since
        self._since = now


class ClockedCrew:
    """A crew whose builds and timings count as phases of their own."""

    def __init__(self, crew: Crew, spent: Spent) -> None:
        self._crew = crew
        self._spent = spent

    @property
    def baseline(self) -> float:
        """As the crew's own."""
        return self._crew.baseline

    def __len__(self) -> int:
        return len(self._crew)

    def start(self, incumbent: Plan) -> None:
        """As the crew's own, counted by who calls it: something else runs beside it."""
        self._crew.start(incumbent)

    def build(self, plans: Sequence[Plan], views: bool) -> list[ChildError | None]:
        """As the crew's own."""
        with self._spent.on(BUILD):
            return self._crew.build(plans, views)

    def times(self, index: int, runs: int) -> dict[str, list[Run]]:
        """As the crew's own."""
        with self._spent.on(TIME):
            return self._crew.times(index, runs)

    def ask(self, index: int, name: str, *arguments: Any) -> Any:
        """As the crew's own."""
        with self._spent.on(TIME):
            return self._crew.ask(index, name, *arguments)
