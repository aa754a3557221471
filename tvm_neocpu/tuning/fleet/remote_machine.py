"""One process of the tuner with one server: compiled and linked here, run and timed there."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.fleet.linker import find_linker
from tvm_neocpu.tuning.fleet.remote_kernels import RemoteKernels
from tvm_neocpu.tuning.fleet.remote_network import RemoteNetwork, Server
from tvm_neocpu.tuning.fleet.tracker import Fleet
from tvm_neocpu.tuning.in_network.processes.machine import Lowering, NetworkMachine, Slot


class RemoteMachine(NetworkMachine):
    """What a child process serves: :class:`NetworkMachine`'s questions, answered by a server.

    Libraries go into ``folder``, which outlives the process: it may be killed. Methods raise
    ServerLostError once the server is gone.
    """

    def __init__(
        self, open_network: Callable[[], Lowering], fleet: Fleet, threads: int, folder: Path
    ) -> None:
        self._lowering = open_network()
        link = find_linker(self._lowering.target)
        own = Path(tempfile.mkdtemp(dir=folder))
        self._kernels = RemoteKernels(self._lowering.target, link, own)
        self._server = Server(fleet, threads)
        self._slots: dict[str, Slot] = {}
        self._kept: dict[str, float] = {}  # a remote CPU's kernels are compiled by each process

    @property
    def calling(self) -> threading.RLock:
        """Held while the server is asked something."""
        return self._server.calling

    def build(self, slot: str, plan: Plan, views: bool = False) -> int:
        """Compile the network under ``plan``, send it; how many kernels LLVM compiled for it."""
        with self._server.watched():  # the server forgets it, too
            self._slots.pop(slot, None)
        lowered = self._lowering.lower(plan, views)
        before = self._kernels.compiled
        linked = self._kernels.linked(lowered.module)
        network = RemoteNetwork(self._server, linked, self._lowering.inputs)
        linked.library.unlink()
        self._slots[slot] = Slot(network, lowered.schemes, lowered.groups)
        return self._kernels.compiled - before
