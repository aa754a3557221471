"""TVM's RPC tracker: who serves a key, and a session with one of its servers.

TVM's own client retries a refused connection for a minute and waits for a free server without end.
Here both end after seconds, in one line.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tvm import rpc
from tvm.rpc import base

from tvm_neocpu.core.errors import FleetError, first_line

CONNECT_SECONDS = 5.0
# A server that ended a session forks anew and tells the tracker within about this long.
FREE_SECONDS = 15.0
# The server itself ends a session after this long: a candidate that hangs comes to an end there.
SESSION_SECONDS = 3600
# A server that hangs takes connections, the kernel does, and never answers.
ANSWER_SECONDS = 20.0
_POLL_SECONDS = 0.2

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Fleet:
    """The servers of one key at one tracker; plain data."""

    host: str
    port: int
    key: str

    def __str__(self) -> str:
        return f"{self.key} at {self.host}:{self.port}"

    def servers(self) -> int:
        """How many servers have the key, busy ones too. Raises FleetError."""
        return sum(info["key"] == f"server:{self.key}" for info in self._summary()["server_info"])

    def free(self) -> int:
        """How many of them wait for a session. Raises FleetError."""
        return int(self._summary()["queue_info"].get(self.key, {}).get("free", 0))

    def check(self) -> None:
        """Raises FleetError for a tracker that does not answer, or a key that nobody serves."""
        summary = self._summary()
        keys = sorted({info["key"].removeprefix("server:") for info in summary["server_info"]})
        if self.key not in keys:
            served = f"it knows {', '.join(keys)}" if keys else "it has no server at all"
            raise FleetError(f"nobody serves {self}: {served}")

    def threads(self) -> int:
        """How many threads a network takes on a server, by itself. Raises FleetError."""
        try:
            return self._first_answer(lambda session: int(session.get_function(NUM_THREADS)()))
        except RuntimeError as error:
            raise FleetError(f"a server of {self} does not answer: {first_line(error)}") from error

    def system(self) -> tuple[str, str] | None:
        """A server's triple and CPU as LLVM names them; ``None`` where it has TVM's runtime alone.

        Raises FleetError.
        """
        try:
            triple, cpu = self._first_answer(
                lambda session: [str(session.get_function(name)()) for name in _SYSTEM]
            )
        except (AttributeError, RuntimeError):
            return None
        return triple, cpu

    def connect(self, wait: float = FREE_SECONDS) -> rpc.RPCSession:
        """A session with a server, once one is free.

        Raises FleetError where none is free after ``wait`` seconds, or where the one that the
        tracker names does not answer: the tracker names another one then.
        """
        deadline = time.monotonic() + wait
        while not self.free():
            if time.monotonic() > deadline:
                raise FleetError(f"no free server of {self}: {self.servers()} are busy")
            time.sleep(_POLL_SECONDS)
        try:
            return _answered(self._requested, f"a server of {self}")
        except (OSError, RuntimeError, ValueError) as error:
            raise FleetError(f"a server of {self} does not answer: {first_line(error)}") from error

    def _requested(self) -> rpc.RPCSession:
        tracker = rpc.TrackerSession((self.host, self.port))
        try:
            return tracker.request(self.key, session_timeout=SESSION_SECONDS, max_retry=1)
        finally:
            tracker.close()

    def _first_answer(self, question: Callable[[rpc.RPCSession], Answer]) -> Answer:
        """Of the first server that answers at all."""
        for _ in range(self.free() - 1):
            with contextlib.suppress(FleetError):
                return self._answer(question)
        return self._answer(question)

    def _answer(self, question: Callable[[rpc.RPCSession], Answer]) -> Answer:
        session = self.connect()
        return _answered(lambda: question(session), f"a server of {self}")

    def _summary(self) -> dict[str, Any]:
        try:
            with socket.create_connection((self.host, self.port), CONNECT_SECONDS) as connection:
                connection.sendall(_MAGIC)
                if base.recvall(connection, len(_MAGIC)) != _MAGIC:
                    raise FleetError(f"{self.host}:{self.port} is no TVM tracker")
                base.sendjson(connection, [base.TrackerCode.SUMMARY])
                code, summary = base.recvjson(connection)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise FleetError(f"no tracker answers at {self.host}:{self.port}: {why}") from error
        assert code == base.TrackerCode.SUCCESS
        return dict(summary)


# The runtime's function that says it, the compiler's functions for triple and CPU.
NUM_THREADS = "runtime.NumThreads"
_SYSTEM = ("target.llvm_get_system_triple", "target.llvm_get_system_cpu")
_MAGIC = base.RPC_TRACKER_MAGIC.to_bytes(4, "little")


def _answered(ask: Callable[[], Answer], who: str) -> Answer:
    """What ``ask`` returns or raises; FleetError if it takes too long.

    TVM waits for an answer without end, and nothing interrupts it: the thread is left behind.
    """
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            answers.append(ask())
        except BaseException as error:  # raised again, where somebody waits for it
            errors.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    if errors:
        raise errors[0]
    if not answers:
        raise FleetError(f"{who} does not answer within {ANSWER_SECONDS:.0f} s")
    return answers[0]


def parse_fleet(address: str, key: str) -> Fleet:
    """``"host:9190"`` and a key as a fleet. Raises FleetError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise FleetError(f"--tracker is HOST:PORT, as 10.0.0.5:9190, not {address!r}")
    return Fleet(host.strip("[]"), int(port), key)
