"""The tuner's processes: builds in parallel, timing in turns with nothing else running."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.processes.machine import Lowering, NetworkMachine, Run
from tvm_neocpu.tuning.measuring.child_process import ChildError, ChildProcess, Children

# Seconds until a worker counts as hung. A build of the largest network of the zoo takes 60 s.
START_TIMEOUT = 600.0
BUILD_TIMEOUT = 300.0
# A stand-in's build, of what the processes took to start: they compiled all of the network. Where
# they read what was kept of it, or the machine becomes busy, the grace remains.
BUILD_FACTOR, BUILD_GRACE = 5.0, 120.0
# Of what the incumbent takes for as many runs, plus a grace.
RUN_FACTOR, RUN_GRACE = 20.0, 10.0

# How a process starts: its object and the seconds that it may take to load it.
Start = Callable[[Callable[[], Any], float], ChildProcess]

INCUMBENT, STAND_IN = "incumbent", "stand-in"


def longest_build(took: float) -> float:
    """Seconds after which a stand-in's build counts as hung; the network's own ``took`` so long."""
    return min(BUILD_TIMEOUT, BUILD_GRACE + BUILD_FACTOR * took)


class Workers:
    """``count`` processes that hold the network; each compiles the incumbent when it starts.

    ``open_network`` is pickled: a partial of a module-level function over plain data. A process
    that died is started again when it is needed. Close it, or use it in a ``with``.
    """

    def __init__(self, open_network: Callable[[], Lowering], count: int) -> None:
        self._open = open_network
        self._count = count
        self._incumbent: Plan | None = None
        self._children = Children()
        self._processes: list[ChildProcess | None] = [None] * count
        self._threads = ThreadPoolExecutor(count)
        self._longest = BUILD_TIMEOUT
        self.baseline = 0.0

    def __len__(self) -> int:
        return self._count

    def start(self, incumbent: Plan) -> None:
        """Start every process and compile the incumbent in it; raises ChildError."""
        self._incumbent, started = incumbent, time.monotonic()
        for future in [self._threads.submit(self._process, index) for index in range(self._count)]:
            future.result()
        self._longest = longest_build(time.monotonic() - started)
        self.baseline = self._ask(0, "seconds", INCUMBENT, timeout=BUILD_TIMEOUT)

    def build(self, plans: Sequence[Plan], views: bool) -> list[ChildError | None]:
        """Compile one plan in each of the first processes; what went wrong with each."""
        futures = [
            self._threads.submit(self._built, index, plan, views)
            for index, plan in enumerate(plans)
        ]
        return [future.result() for future in all_done(futures)]

    def times(self, index: int, runs: int) -> dict[str, list[Run]]:
        """The incumbent and the stand-in of one process, timed in turns; raises ChildError."""
        self._process(index)
        slots = (INCUMBENT, STAND_IN)
        timeout = RUN_GRACE + RUN_FACTOR * len(slots) * runs * self.baseline
        found: dict[str, list[Run]] = self._ask(index, "times", slots, runs, timeout=timeout)
        return found

    def ask(self, index: int, name: str, *arguments: Any) -> Any:
        """Any other question to one process; raises ChildError."""
        self._process(index)
        return self._ask(index, name, *arguments, timeout=BUILD_TIMEOUT)

    def close(self) -> None:
        """End the processes, whatever they do: what another thread asked them raises ChildDied."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._children.end()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _built(self, index: int, plan: Plan, views: bool) -> ChildError | None:
        try:
            self._process(index)
            self._ask(index, "build", STAND_IN, plan, views, timeout=self._longest)
        except ChildError as error:
            return error
        return None

    def _process(self, index: int) -> ChildProcess:
        """The process, started and given the incumbent if it does not live."""
        process = self._processes[index]
        if process is None or not process.alive:
            process = network_process(self._open, self._children.start)
            self._processes[index] = process
            if self._incumbent is not None:
                self._ask(index, "build", INCUMBENT, self._incumbent, timeout=BUILD_TIMEOUT)
        return process

    def _ask(self, index: int, name: str, *arguments: Any, timeout: float) -> Any:
        process = self._processes[index]
        assert process is not None
        return process.ask(name, *arguments, timeout=timeout)


def network_process(
    open_network: Callable[[], Lowering], start: Start = ChildProcess
) -> ChildProcess:
    """A fresh process with a :class:`NetworkMachine`; raises ChildError."""
    return start(partial(NetworkMachine, open_network), START_TIMEOUT)


def all_done(futures: list[Future[Any]]) -> list[Future[Any]]:
    """Wait in short steps, so that Ctrl-C reaches the main thread."""
    while not all(future.done() for future in futures):
        time.sleep(0.02)
    return futures
