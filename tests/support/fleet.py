"""A tracker and servers of TVM's own on loopback, each in a process group of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from tvm_neocpu.core.errors import FleetError
from tvm_neocpu.tuning.fleet.tracker import Fleet

HOST = "127.0.0.1"
START_SECONDS = 120.0


class LoopbackFleet:
    """Use it in a ``with``; ``servers`` can be killed one by one."""

    def __init__(self, key: str, count: int) -> None:
        self.fleet = Fleet(HOST, free_port(), key)
        self._count = count
        self.servers: list[subprocess.Popen[bytes]] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> LoopbackFleet:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        port = str(self.fleet.port)
        self._processes.append(_started("rpc_tracker", ["--port", port]))
        address = ["--tracker", f"{HOST}:{port}", "--key", self.fleet.key]
        self._wait(lambda: self.fleet.servers() == 0)
        for _ in range(self._count):
            self.servers.append(_started("rpc_server", ["--port", str(free_port()), *address]))
        self._wait(lambda: self.fleet.free() == self._count)

    def __exit__(self, *_: object) -> None:
        for process in (*self.servers, *self._processes):
            kill(process)

    @staticmethod
    def _wait(is_ready) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                if is_ready():
                    return
            except FleetError:
                pass
            time.sleep(0.1)
        raise TimeoutError("the loopback fleet does not start")


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a server with the processes that it forked."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _started(module: str, options: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"tvm.exec.{module}", "--host", HOST, *options]
    end = ["--port-end", "65535", "--silent"]
    return subprocess.Popen(
        [*command, *end],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TVM_NUM_THREADS": "1"},
    )
