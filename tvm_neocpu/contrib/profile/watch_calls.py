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

from tvm_neocpu.tuning.in_network.watch import BUILTIN, TimedCall, WatchedNetwork

_NOTHING = f"{BUILTIN}null_value"


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
    sizes = _sizes_of(code, inputs)
    network = WatchedNetwork(code, inputs)
    walls: list[float] = []
    traces: list[list[TimedCall]] = []
    for number in range(runs + 1):
        start = time.perf_counter()
        network.run()
        wall = time.perf_counter() - start
        trace = network.trace()
        if number:  # the first of each wakes threads and fills caches
            walls.append(wall)
            traces.append(trace)
    idle = [call.seconds for trace in traces for call in trace if call.name == _NOTHING]
    own = median(idle) if idle else 0.0
    calls = []
    for place, call in enumerate(traces[0]):
        if call.is_builtin:
            continue
        seconds = median(trace[place].seconds for trace in traces) - own
        begun = median(trace[place].start for trace in traces)
        calls.append(Call(call.name, begun, max(0.0, seconds), sizes[place]))
    return WatchedRun(tuple(calls), median(walls))


def _sizes_of(code: tvm.runtime.Module, inputs: Sequence[Any]) -> list[int]:
    """The bytes that each call of a run moves, in order."""
    machine, sizes = relax.VirtualMachine(code, tvm.cpu()), _Sizes()
    machine.set_instrument(sizes)
    machine["main"](*inputs)
    return sizes.moved


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
