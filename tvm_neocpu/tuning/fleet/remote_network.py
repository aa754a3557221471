"""A session with one server, and the networks that it runs."""

from __future__ import annotations

import contextlib
import hashlib
import math
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tvm_neocpu.core.errors import ServerLostError, first_line
from tvm_neocpu.tuning.fleet.remote_kernels import LinkedNetwork
from tvm_neocpu.tuning.fleet.stamps import MAIN, STAMPED
from tvm_neocpu.tuning.fleet.tracker import NUM_THREADS, Fleet

# Of tensors that a server keeps for the next network, the latest ones.
KEPT_BYTES = 2**30
# What `runtime.config_threadpool` takes: threads on the big cores of a machine that has such.
_BIG_CORES = 1


class Server:
    """One server for the time of a session; libraries and tensors that it has are not sent again.

    Every method raises ServerLostError once the server is gone.
    """

    def __init__(self, fleet: Fleet, threads: int) -> None:
        self._session = fleet.connect()
        # Held during a call: a process that ends in one leaves an answer unread, and TVM's server
        # ends with a connection that was reset.
        self.calling = threading.RLock()
        self._libraries: dict[Path, Any] = {}
        self._tensors: dict[tuple[tuple[int, ...], str, bytes], tvm.runtime.Tensor] = {}
        with self.watched():
            self._session.get_function("runtime.config_threadpool")(_BIG_CORES, threads)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Tell an error of the code that a server ran from the loss of the server."""
        with self.calling:
            try:
                yield
            except Exception as error:  # TVM raises what the server raised, by its type
                if self._answers():
                    raise
                raise ServerLostError(f"its server is gone: {first_line(error)}") from error

    @property
    def device(self) -> tvm.runtime.Device:
        return self._session.cpu()

    def load(self, library: Path) -> Any:
        """The module of a library, sent and loaded once."""
        if library not in self._libraries:
            self._libraries[library] = self._loaded(library)
        return self._libraries[library]

    def load_once(self, library: Path) -> Any:
        """The module of a library that no later network needs."""
        module = self._loaded(library)
        self._session.remove(library.name)
        return module

    def tensor(self, array: NDArray[Any]) -> tvm.runtime.Tensor:
        """A tensor with the array's content; one that the server still has is not sent again."""
        content = hashlib.blake2b(np.ascontiguousarray(array).data).digest()
        key = (array.shape, str(array.dtype), content)
        found = self._tensors.pop(key, None)
        if found is None:
            found = tvm.runtime.tensor(array, self.device)
        self._tensors[key] = found  # now the latest
        return found

    def forget_old_tensors(self) -> None:
        """Keep the latest tensors only; networks have copies of theirs."""
        room = KEPT_BYTES
        for key in reversed(list(self._tensors)):
            room -= math.prod(key[0]) * np.dtype(key[1]).itemsize
            if room < 0:
                del self._tensors[key]

    def _loaded(self, library: Path) -> Any:
        self._session.upload(str(library))
        return self._session.load_module(library.name)

    def _answers(self) -> bool:
        try:
            self._session.get_function(NUM_THREADS)()
        except Exception:  # whatever it is, this was no answer
            return False
        return True


class RemoteNetwork:
    """A network on a server: run as it is, or with every call timed in place."""

    def __init__(
        self, server: Server, linked: LinkedNetwork, inputs: Sequence[NDArray[Any]]
    ) -> None:
        self._server = server
        self._network = linked.network
        with server.watched():
            module = server.load_once(linked.library)
            for library in linked.kernels:
                module.import_module(server.load(library))
            self._machine = relax.VirtualMachine(module, server.device)
            constants = [constant.numpy() for constant in linked.network.constants]
            self._arrays = [*inputs, *constants]
            for array in self._arrays:  # sent now, not when the first run is awaited
                server.tensor(array)
        self._ready: set[str] = set()
        self.calls: dict[str, int] = {}

    def run(self) -> None:
        """One inference, without a clock in it."""
        with self._server.watched():
            self._prepare(MAIN)
            self._machine.invoke_stateful(MAIN)

    @property
    def result(self) -> Any:
        """What the last :meth:`run` computed: a tensor, or a tuple of them."""
        with self._server.watched():
            return self._machine.get_outputs(MAIN)

    def timed(self) -> dict[str, float]:
        """One inference; seconds of all calls of each function, by name."""
        with self._server.watched():
            self._prepare(STAMPED)
            self._machine.invoke_stateful(STAMPED)
            stamps = self._machine.get_outputs(STAMPED)[1].numpy()
        seconds: dict[str, float] = defaultdict(float)
        self.calls = defaultdict(int)
        for name, passed in self._network.seconds(stamps):
            seconds[name] += passed
            self.calls[name] += 1
        return dict(seconds)

    def burst(self, count: int) -> list[float]:
        """Seconds of ``count`` whole inferences by the server's clock, after one not counted."""
        with self._server.watched():
            self._prepare(MAIN)
            clock = self._machine.time_evaluator(
                "invoke_stateful", self._server.device, number=1, repeat=count
            )
            return list(clock(MAIN).results)

    def _prepare(self, function: str) -> None:
        """The server copies the arguments of a function when it is run for the first time."""
        if function in self._ready:
            return
        stamps = [] if function == MAIN else [self._server.tensor(self._network.no_stamps)]
        arguments = [self._server.tensor(array) for array in self._arrays]
        self._machine.set_input(function, *arguments, *stamps)
        self._ready.add(function)
        self._server.forget_old_tensors()
