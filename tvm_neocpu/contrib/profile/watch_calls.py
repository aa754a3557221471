"""Every call of a run timed: Relax's virtual machine tells an instrument before and after each.

Runs with the instrument and runs without take turns, and so do what the profile compares them with:
the machine's peak, a peer. What the clock itself takes is taken off every call: what it takes on
calls that do nothing (`vm.builtin.null_value`, in the same runs), and what every argument adds
(:mod:`tvm_neocpu.tuning.in_network.processes.clock`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import tvm
from tvm import relax

from tvm_neocpu.core.accuracy.middle_half import middle_half
from tvm_neocpu.tuning.in_network.processes.clock import measure_overheads
from tvm_neocpu.tuning.in_network.processes.watch import (
    BUILTIN,
    TimedCall,
    WatchedNetwork,
    idle_seconds,
)

# How often a profile measures what its runs are compared with, between them. An Ice Lake's virtual
# core reached 107 GFLOP/s in one profile and 182 in another: of peaks measured behind all runs, the
# same kernels had 105 % and 72 %.
TURNS = 4


@dataclass(frozen=True)
class Call:
    """One call in the order of a run; means over the runs whose time is in the middle half.

    ``start`` counts seconds from the run's start, ``moved`` bytes of all tensors that it reads or
    writes: each once.
    """

    name: str
    start: float
    seconds: float
    moved: int


@dataclass(frozen=True)
class WatchedRun:
    """The calls of a run without Relax's own, and the seconds of runs that nobody watched.

    ``machine`` are those that Relax's machine takes for itself in a run of so many calls.
    """

    calls: tuple[Call, ...]
    wall: float
    machine: float


def watch_calls(
    code: tvm.runtime.Module,
    inputs: Sequence[Any],
    runs: int,
    turn_of_others: Callable[[], None] = lambda: None,
) -> WatchedRun:
    """Time ``main`` of an executable's code on the inputs.

    ``turn_of_others`` is called up to :data:`TURNS` times, evenly between the runs.
    """
    moved = _moved_by(code, inputs)
    overheads = measure_overheads()
    network = WatchedNetwork(code, inputs)
    walls: list[float] = []
    traces: list[list[TimedCall]] = []
    turns = {1 + turn * runs // TURNS for turn in range(TURNS)}
    for number in range(runs + 1):
        if number in turns:
            turn_of_others()
            network.run()  # not counted: it fills the caches again
        start = time.perf_counter()
        network.run()
        wall = time.perf_counter() - start
        trace = network.trace()
        if number:  # the first of each wakes threads and fills caches
            walls.append(wall)
            traces.append(trace)
    idle = idle_seconds(traces)
    usual = middle_half(traces, lambda trace: sum(call.seconds for call in trace))
    calls = []
    for place, call in enumerate(traces[0]):
        if call.is_builtin:
            continue
        clock = idle + overheads.argument * call.arguments
        seconds = fmean(trace[place].seconds for trace in usual) - clock
        begun = fmean(trace[place].start for trace in usual)
        calls.append(Call(call.name, begun, max(0.0, seconds), moved[place]))
    wall = fmean(middle_half(walls, float))
    return WatchedRun(tuple(calls), wall, overheads.machine(len(calls)))


def _moved_by(code: tvm.runtime.Module, inputs: Sequence[Any]) -> list[int]:
    """The bytes that each call of a run moves, in order; 0 for Relax's own."""
    machine, moved = relax.VirtualMachine(code, tvm.cpu()), list[int]()

    def count(_: Any, name: str, before: bool, __: Any, *arguments: Any) -> int:
        if not before:
            tensors = [each for each in arguments if isinstance(each, tvm.runtime.Tensor)]
            moved.append(0 if name.startswith(BUILTIN) else sum(map(_bytes, tensors)))
        return 0

    machine.set_instrument(count)
    machine["main"](*inputs)
    return moved


def _bytes(tensor: tvm.runtime.Tensor) -> int:
    count = 1
    for extent in tensor.shape:
        count *= int(extent)
    return (count * tensor.dtype.bits + 7) // 8
