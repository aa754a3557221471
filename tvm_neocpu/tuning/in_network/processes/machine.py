"""One process of the tuner: networks under several plans, compiled and timed in turns.

Plans are compiled into *slots*. All slots read the same inputs; a run of one is followed by a run
of the next, so that whatever slows the machine slows all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import tvm
from numpy.typing import NDArray
from tvm.target import Target

from tvm_neocpu.codegen.kernel_cache import KernelCache
from tvm_neocpu.codegen.kernel_store import store_for
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layer_group import Members
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.in_network.processes.clock import argument_seconds
from tvm_neocpu.tuning.in_network.processes.resting import rest
from tvm_neocpu.tuning.in_network.processes.watch import WatchedNetwork, arrays_of

# What a function computes; ``None`` for one without a template.
Scheme = tuple[Workload, Config]
# Seconds of one inference, by what the functions compute: a layer, the layers of a group; ``None``
# is everything else.
Run = dict[Scheme | Members | None, float]


def seconds_of(workload: Workload, run: Run) -> float:
    """Seconds of all calls of a workload in one run."""
    return sum(seconds for scheme, seconds in run.items() if scheme and scheme[0] == workload)


@dataclass(frozen=True)
class Lowered:
    """A scheduled module, and what the templates in it compute, by the functions' names.

    ``groups`` are functions that compute several layers.
    """

    module: tvm.IRModule
    schemes: Mapping[str, Scheme]
    groups: Mapping[str, Members] = field(default_factory=dict)


class Lowering(Protocol):
    """A network that was read and folded once, ready to be lowered under any plan."""

    @property
    def target(self) -> Target: ...

    @property
    def inputs(self) -> Sequence[NDArray[Any]]:
        """Data for ``main``, in order."""

    def lower(self, plan: Plan, views: bool) -> Lowered:
        """The network under a plan; with ``views``, layout transforms are views (stand-ins)."""


class TimedNetwork(Protocol):
    """A loaded network, here or on another machine."""

    @property
    def result(self) -> Any:
        """What the last run computed: a tensor, or several."""

    @property
    def calls(self) -> Mapping[str, int]:
        """How often the last timed inference called each function."""

    def run(self) -> None:
        """One inference."""

    def timed(self) -> dict[str, float]:
        """One inference; seconds of all calls of each function, by name."""

    def burst(self, count: int) -> list[float]:
        """Seconds of whole inferences in a row, after one that is not counted."""


@dataclass
class Slot:
    """A network under one plan, and what its functions compute."""

    network: TimedNetwork
    schemes: Mapping[str, Scheme]
    groups: Mapping[str, Members] = field(default_factory=dict)


class NetworkMachine:
    """What :class:`~tvm_neocpu.tuning.measuring.child_process.ChildProcess` serves."""

    def __init__(self, open_network: Callable[[], Lowering]) -> None:
        self._lowering = open_network()
        target = self._lowering.target
        store = store_for(target)
        self._cache = KernelCache(target, store)
        self._keeps = store is not None
        self._kept: dict[str, float] = {}
        self._inputs = [tvm.runtime.tensor(array) for array in self._lowering.inputs]
        self._slots: dict[str, Slot] = {}

    def build(self, slot: str, plan: Plan, views: bool = False) -> int:
        """Compile the network under ``plan`` into a slot; how many kernels this process lacked."""
        self._slots.pop(slot, None)
        lowered = self._lowering.lower(plan, views)
        before, start = self._cache.compiled, time.monotonic()
        network = WatchedNetwork(
            self._cache.load(lowered.module).mod, self._inputs, argument_seconds()
        )
        self._kept[slot] = time.monotonic() - start if self._keeps else 0.0
        self._slots[slot] = Slot(network, lowered.schemes, lowered.groups)
        return self._cache.compiled - before

    def kept_seconds(self, slot: str) -> float:
        """Seconds that LLVM took for a slot, and will not take again in another process."""
        return self._kept.get(slot, 0.0)

    def seconds(self, slot: str) -> float:
        """The faster of two inferences, after one that wakes threads."""
        return min(self.burst(slot, 2))

    def times(self, slots: Sequence[str], runs: int) -> dict[str, list[Run]]:
        """Every function's seconds in ``runs`` inferences of each slot, taken in turns.

        As after :meth:`burst`, nothing of this process runs on.
        """
        for slot in slots:  # wakes threads and fills caches
            self._slots[slot].network.timed()
        found: dict[str, list[Run]] = {slot: [] for slot in slots}
        for turn in range(runs):
            # The order changes: a slot finds the caches as the one before left them.
            for slot in slots if turn % 2 else reversed(slots):
                found[slot].append(self._run(self._slots[slot]))
        rest()
        return found

    def burst(self, slot: str, count: int) -> list[float]:
        """Seconds of ``count`` whole inferences in a row, after one that is not counted."""
        seconds = self._slots[slot].network.burst(count)
        rest()
        return seconds

    def whole(self, slots: Sequence[str], turns: int) -> dict[str, list[float]]:
        """Seconds of whole inferences, one of each slot in a turn, after one that is not counted.

        No call in them is timed. Nothing need rest between them: the slots share their threads.
        """
        found: dict[str, list[float]] = {slot: [] for slot in slots}
        for turn in range(turns):
            for slot in slots if turn % 2 else reversed(slots):
                found[slot] += self._slots[slot].network.burst(1)
        rest()
        return found

    def calls(self, slot: str) -> dict[Scheme, int]:
        """How often one inference runs each scheme."""
        held = self._slots[slot]
        held.network.timed()
        found: dict[Scheme, int] = {}
        for name, count in held.network.calls.items():
            scheme = held.schemes.get(name)
            if scheme is not None:
                found[scheme] = found.get(scheme, 0) + count
        return found

    def outputs(self, slot: str) -> list[NDArray[Any]]:
        """The results of one inference."""
        network = self._slots[slot].network
        network.run()
        return arrays_of(network.result)

    def _run(self, slot: Slot) -> Run:
        found: Run = {}
        for name, seconds in slot.network.timed().items():
            scheme = slot.schemes.get(name) or slot.groups.get(name)
            found[scheme] = found.get(scheme, 0.0) + seconds
        return found
