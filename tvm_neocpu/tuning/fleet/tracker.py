"""TVM's RPC tracker: who serves a key, and a session with one of its servers.

TVM's own client retries a refused connection for a minute and waits for a free server without end.
Here both end after seconds, in one line.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import Any

from tvm import rpc
from tvm.rpc import base

from tvm_neocpu.core.errors import FleetError, first_line

CONNECT_SECONDS = 5.0
# A server that ended a session forks anew and tells the tracker within about this long.
FREE_SECONDS = 15.0
# The server itself ends a session after this long: a candidate that hangs comes to an end there.
SESSION_SECONDS = 3600
_POLL_SECONDS = 0.2


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
        session = self.connect()
        try:
            return int(session.get_function(NUM_THREADS)())
        except RuntimeError as error:
            raise FleetError(f"a server of {self} does not answer: {first_line(error)}") from error

    def system(self) -> tuple[str, str] | None:
        """A server's triple and CPU as LLVM names them; ``None`` where it has TVM's runtime alone.

        Raises FleetError.
        """
        session = self.connect()
        try:
            triple, cpu = (str(session.get_function(name)()) for name in _SYSTEM)
        except (AttributeError, RuntimeError):
            return None
        return triple, cpu

    def connect(self, wait: float = FREE_SECONDS) -> rpc.RPCSession:
        """A session with a server, once one is free. Raises FleetError after ``wait`` seconds."""
        deadline = time.monotonic() + wait
        while not self.free():
            if time.monotonic() > deadline:
                raise FleetError(f"no free server of {self}: {self.servers()} are busy")
            time.sleep(_POLL_SECONDS)
        tracker = rpc.TrackerSession((self.host, self.port))
        try:
            return tracker.request(self.key, session_timeout=SESSION_SECONDS, max_retry=1)
        except (OSError, RuntimeError, ValueError) as error:
            raise FleetError(f"a server of {self} does not answer: {first_line(error)}") from error
        finally:
            tracker.close()

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


def parse_fleet(address: str, key: str) -> Fleet:
    """``"host:9190"`` and a key as a fleet. Raises FleetError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise FleetError(f"--tracker is HOST:PORT, as 10.0.0.5:9190, not {address!r}")
    return Fleet(host.strip("[]"), int(port), key)
