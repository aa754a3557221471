"""All servers of a key at once, as :class:`Workers` has processes: one plan for each server.

A server that dies or hangs fails the plan that it had, as a process that crashes does, and is left
out from then on. Where the tracker has a free server, that one takes its place.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tvm_neocpu.core.errors import FleetError, ServerLostError
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.fleet.remote_machine import RemoteMachine
from tvm_neocpu.tuning.fleet.tracker import Fleet
from tvm_neocpu.tuning.in_network.processes.machine import Lowering, Run
from tvm_neocpu.tuning.in_network.processes.verify import Compute, Pair, Proof, prove
from tvm_neocpu.tuning.in_network.processes.workers import (
    BUILD_TIMEOUT,
    INCUMBENT,
    RUN_FACTOR,
    RUN_GRACE,
    STAND_IN,
    START_TIMEOUT,
    Start,
    all_done,
    longest_build,
)
from tvm_neocpu.tuning.measuring.child_process import ChildDied, ChildError, ChildProcess, Children
from tvm_neocpu.tuning.measuring.polite_end import end_between

# Each server has a process here that compiles for it.
MAX_SERVERS = 16
# Between two looks at the tracker for servers that may take the place of lost ones.
RECRUIT_SECONDS = 20.0

OpenNetwork = Callable[[], Lowering]

_LOG = logging.getLogger(__name__)


class _ServerGone(ChildDied):
    """A server that was lost, or none that was free: nothing is wrong with what it was to run."""


@dataclass(eq=False)
class _Server:
    """A process here that has a session with a server; ``baseline`` in seconds.

    After ``longest`` a build counts as hung.
    """

    process: ChildProcess
    baseline: float = 0.0
    longest: float = BUILD_TIMEOUT

    def ask(self, name: str, *arguments: Any, timeout: float = BUILD_TIMEOUT) -> Any:
        """Raises ChildDied, and ends the process, where the server is lost."""
        try:
            return self.process.ask(name, *arguments, timeout=timeout)
        except ChildDied:
            raise
        except ChildError as error:
            if error.kind != ServerLostError.__name__:
                raise
            self.process.kill()
            raise _ServerGone(str(error)) from None


@dataclass
class RemoteWorkers:
    """As :class:`Workers`; ``open_network`` is pickled. Use it in a ``with``.

    :meth:`start` and :meth:`build` raise FleetError once no server is left.
    """

    open_network: OpenNetwork
    fleet: Fleet
    threads: int
    _servers: list[_Server] = field(default_factory=list)
    _assigned: list[_Server] = field(default_factory=list)
    _timing: dict[int, Future[dict[str, list[Run]]]] = field(default_factory=dict)
    _wanted: int = 0
    _looked: float = 0.0

    def __enter__(self) -> RemoteWorkers:
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_neocpu-fleet-")
        self._pool = ThreadPoolExecutor(MAX_SERVERS)
        self._children = Children()
        return self

    def __exit__(self, *_: object) -> None:
        self._tell_of_lost()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._children.end()
        self._folder.cleanup()

    def __len__(self) -> int:
        """One where all servers are lost: the next build looks for others, or says so."""
        return max(1, len(self._alive()))

    @property
    def baseline(self) -> float:
        """The slowest server's."""
        return max(server.baseline for server in self._alive() or self._servers)

    def start(self, incumbent: Plan) -> None:
        """Take every free server, and compile the incumbent for it.

        Raises FleetError where none is to be had, ChildError where the incumbent does not run.
        """
        self._incumbent = incumbent
        self._wanted = min(MAX_SERVERS, max(1, self.fleet.free()))
        problems = self._recruit(self._wanted)
        if not self._servers:
            ours = [problem for problem in problems if not isinstance(problem, _ServerGone)]
            raise ours[0] if ours else FleetError(str(problems[0]))
        self._assigned = list(self._servers)

    def build(self, plans: Sequence[Plan], views: bool) -> list[ChildError | None]:
        """Compile and send one plan for each of the first servers; what went wrong with each."""
        all_done(list(self._timing.values()))
        self._timing.clear()
        self._replace_lost()
        self._assigned = self._alive()[: len(plans)]
        futures = [
            self._pool.submit(_built, server, plan, views)
            for server, plan in zip(self._assigned, plans, strict=False)
        ]
        problems: list[ChildError | None] = [future.result() for future in all_done(futures)]
        problems += [ChildDied("its server is gone")] * (len(plans) - len(problems))
        self._sound = [index for index, problem in enumerate(problems) if problem is None]
        return problems

    def times(self, index: int, runs: int) -> dict[str, list[Run]]:
        """The incumbent and the stand-in of one server, timed in turns; raises ChildError.

        The first question after a build starts all servers: they do not disturb each other.
        """
        if not self._timing:
            for each in self._sound:
                self._timing[each] = self._pool.submit(_timed, self._assigned[each], runs)
        future = self._timing.get(index) or self._pool.submit(_timed, self._assigned[index], runs)
        all_done([future])
        return future.result()

    def ask(self, index: int, name: str, *arguments: Any) -> Any:
        """Any other question to one server; raises ChildError.

        Before the first build all servers hold the same: another one answers for one that is lost.
        """
        servers = [self._assigned[index]]
        if not hasattr(self, "_sound"):
            servers += [each for each in self._servers if each is not servers[0]]
        for server in servers[:-1]:
            try:
                return server.ask(name, *arguments)
            except ChildDied:
                continue
        return servers[-1].ask(name, *arguments)

    def _alive(self) -> list[_Server]:
        return [server for server in self._servers if server.process.alive]

    def _replace_lost(self) -> None:
        """Forget lost servers, and look for others; raises FleetError if there is none at all."""
        self._tell_of_lost()
        self._servers = self._alive()
        missing = self._wanted - len(self._servers)
        if missing and (not self._servers or time.monotonic() - self._looked > RECRUIT_SECONDS):
            self._looked = time.monotonic()
            self._recruit(missing if not self._servers else min(missing, self.fleet.free()))
        if not self._servers:
            raise FleetError(f"no server of {self.fleet} is left; what was measured is in the log")

    def _tell_of_lost(self) -> None:
        lost = len(self._servers) - len(self._alive())
        if lost:
            _LOG.warning("%d of %d servers of %s lost", lost, len(self._servers), self.fleet)

    def _recruit(self, count: int) -> list[ChildError]:
        """Take up to so many servers; what went wrong with the others."""
        futures = [self._pool.submit(self._taken) for _ in range(count)]
        problems = []
        for future in all_done(futures):
            try:
                self._servers.append(future.result())
            except ChildError as error:
                problems.append(error)
        return problems

    def _taken(self) -> _Server:
        folder = Path(self._folder.name)
        load = partial(_machine, self.open_network, self.fleet, self.threads, folder)
        server = _connected(load, self._children.start)
        try:
            started = time.monotonic()
            server.ask("build", INCUMBENT, self._incumbent)
            server.longest = longest_build(time.monotonic() - started)
            server.baseline = server.ask("seconds", INCUMBENT)
        except ChildError:
            server.process.kill()
            raise
        return server


@dataclass(frozen=True)
class Remotely:
    """The servers of a fleet as the place where a session measures."""

    fleet: Fleet

    def crew(self, open_network: OpenNetwork, threads: int) -> RemoteWorkers:
        """All servers that are free now."""
        return RemoteWorkers(open_network, self.fleet, threads)

    def prove(
        self,
        open_network: OpenNetwork,
        plans: tuple[Plan, Plan],
        threads: int,
        seconds: float,
    ) -> Proof:
        """The proof on one server, begun anew on another if it is lost.

        Raises FleetError if none is left.
        """
        for _ in range(1 + self.fleet.servers()):
            with contextlib.suppress(ChildDied):
                return prove(partial(self._pair, open_network, plans, threads), seconds)
        raise FleetError(f"no server of {self.fleet} is left; what was measured is in the log")

    @contextlib.contextmanager
    def _pair(
        self, open_network: OpenNetwork, plans: tuple[Plan, Plan], threads: int
    ) -> Iterator[Pair]:
        """Both plans in one fresh session: two servers would be two machines."""
        with tempfile.TemporaryDirectory(prefix="tvm_neocpu-fleet-") as folder:
            load = partial(_machine, open_network, self.fleet, threads, Path(folder))
            server = _connected(load)
            try:
                slots = (INCUMBENT, STAND_IN)
                for slot, plan in zip(slots, plans, strict=True):
                    server.ask("build", slot, plan)
                yield _Opponent(server, INCUMBENT), _Opponent(server, STAND_IN)
            finally:
                server.process.end()

    @contextlib.contextmanager
    def computing(self, open_network: OpenNetwork, threads: int) -> Iterator[Compute]:
        """The outputs of any plan, from one server."""
        with tempfile.TemporaryDirectory(prefix="tvm_neocpu-fleet-") as folder:
            load = partial(_machine, open_network, self.fleet, threads, Path(folder))
            server = _connected(load)

            def compute(plan: Plan) -> Any:
                server.ask("build", STAND_IN, plan)
                return server.ask("outputs", STAND_IN)

            try:
                yield compute
            finally:
                server.process.end()


@dataclass(frozen=True)
class _Opponent:
    server: _Server
    slot: str

    def outputs(self) -> Any:
        return self.server.ask("outputs", self.slot)

    def burst(self, count: int) -> list[float]:
        seconds: list[float] = self.server.ask("burst", self.slot, count)
        return seconds


def _machine(open_network: OpenNetwork, fleet: Fleet, threads: int, folder: Path) -> RemoteMachine:
    """What a process here serves; its end waits for the call that it is in."""
    machine = RemoteMachine(open_network, fleet, threads, folder)
    end_between(machine.calling)
    return machine


def _connected(load: Callable[[], RemoteMachine], start: Start = ChildProcess) -> _Server:
    """Raises ChildDied where the server is lost at once, or none is free."""
    try:
        return _Server(start(load, START_TIMEOUT))
    except ChildError as error:
        if error.kind not in (FleetError.__name__, ServerLostError.__name__):
            raise
        raise _ServerGone(str(error)) from None


def _built(server: _Server, plan: Plan, views: bool) -> ChildError | None:
    try:
        server.ask("build", STAND_IN, plan, views, timeout=server.longest)
    except ChildError as error:
        return error
    return None


def _timed(server: _Server, runs: int) -> dict[str, list[Run]]:
    timeout = RUN_GRACE + RUN_FACTOR * 2 * runs * server.baseline
    found: dict[str, list[Run]] = server.ask("times", (INCUMBENT, STAND_IN), runs, timeout=timeout)
    return found
