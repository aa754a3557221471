"""Every call of a run timed: Relax's virtual machine tells an instrument before and after each.

Runs with the instrument and runs without take turns. What the instrument itself takes is measured
on calls that do nothing (`vm.builtin.null_value`), and taken off every call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import tvm
from tvm import relax

# Prefix of Relax's own functions, such as allocation.
BUILTIN = "vm.builtin."
_NOTHING = "vm.builtin.null_value"


@dataclass(frozen=True)
class Call:
    """One call in the order of a run; medians over all runs.

    ``start`` counts seconds from the run's start, ``moved`` bytes of all tensors that it reads or
    writes: each once.
    """

    name: str
    start: float
    seconds: float
    moved: int


@dataclass(frozen=True)
class WatchedRun:
    """The calls of a run without Relax's own, and the seconds of runs that nobody watched."""

    calls: tuple[Call, ...]
    wall: float


def watch_calls(code: tvm.runtime.Module, inputs: Sequence[Any], runs: int) -> WatchedRun:
    """Time ``main`` of an executable's code on the inputs."""
    plain = relax.VirtualMachine(code, tvm.cpu())["main"]
    machine = relax.VirtualMachine(code, tvm.cpu())
    sizes, times = _Sizes(), _Times()
    machine.set_instrument(sizes)
    watched = machine["main"]
    watched(*inputs)
    machine.set_instrument(times)
    walls: list[float] = []
    records: list[list[tuple[str, float, float]]] = []
    for number in range(runs + 1):
        start = time.perf_counter()
        plain(*inputs)
        wall = time.perf_counter() - start
        times.begin()
        watched(*inputs)
        if number:  # the first of each wakes threads and fills caches
            walls.append(wall)
            records.append(times.calls)
    idle = [end - start for run in records for name, start, end in run if name == _NOTHING]
    own = median(idle) if idle else 0.0
    calls = []
    for place, (name, _, _) in enumerate(records[0]):
        if name.startswith(BUILTIN):
            continue
        seconds = median(run[place][2] - run[place][1] for run in records) - own
        start = median(run[place][1] for run in records)
        calls.append(Call(name, start, max(0.0, seconds), sizes.moved[place]))
    return WatchedRun(tuple(calls), median(walls))


class _Times:
    """Name, start and end of every call, in seconds since the run began."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float, float]] = []
        self._origin = self._start = 0.0

    def begin(self) -> None:
        self.calls = []
        self._origin = time.perf_counter()

    def __call__(self, _: Any, name: str, before: bool, *__: Any) -> int:
        now = time.perf_counter()
        if before:
            self._start = time.perf_counter()
        else:
            self.calls.append((name, self._start - self._origin, now - self._origin))
        return 0  # the machine goes on


class _Sizes:
    """The bytes of the tensors of every call."""

    def __init__(self) -> None:
        self.moved: list[int] = []

    def __call__(self, _: Any, name: str, before: bool, __: Any, *arguments: Any) -> int:
        if not before:
            tensors = [each for each in arguments if isinstance(each, tvm.runtime.Tensor)]
            self.moved.append(0 if name.startswith(BUILTIN) else sum(map(_bytes, tensors)))
        return 0


def _bytes(tensor: tvm.runtime.Tensor) -> int:
    count = 1
    for extent in tensor.shape:
        count *= int(extent)
    return (count * tensor.dtype.bits + 7) // 8
