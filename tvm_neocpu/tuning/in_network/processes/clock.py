"""What it costs to time calls inside a network, and what the virtual machine itself takes.

Both are measured on networks that add two numbers over and over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import NamedTuple

import numpy as np
import tvm
from tvm import relax, te

from tvm_neocpu.tuning.in_network.processes.watch import (
    TimedCall,
    WatchedNetwork,
    idle_seconds,
)

_HOST = tvm.target.Target({"kind": "llvm"})
# Arguments of two additions, of which all but two are not read.
_FEW, _MANY = 3, 13
_CALLS, _RUNS = 20, 25


@dataclass(frozen=True)
class Overheads:
    """Seconds. ``argument``: by which the clock lengthens a call for each of its arguments, of
    which TVM makes objects for Python before the clock is read.

    ``run`` and ``call``: what the machine takes beside its calls, once a run and for each call.
    """

    argument: float
    run: float
    call: float

    def machine(self, calls: int) -> float:
        """The machine's own part of a run of so many calls."""
        return self.run + calls * self.call


def measure_overheads() -> Overheads:
    """Takes a quarter of a second, most of it to compile (Zen 4)."""
    few, many, one = _Adding(_CALLS, _FEW), _Adding(_CALLS, _MANY), _Adding(1, _FEW)
    for _ in range(_RUNS):
        for network in (few, many, one):
            network.run()
    return overheads_of(few.times, many.times, one.times, idle_seconds(few.traces))


@cache
def argument_seconds() -> float:
    """What the clock adds to a call for each argument, measured once in a process."""
    return measure_overheads().argument


class Times(NamedTuple):
    """Of a network of so many calls with so many arguments each: seconds of a run that nobody
    watches, and of a call and the clock.
    """

    calls: int
    arguments: int
    wall: float
    watched: float


def overheads_of(few: Times, many: Times, one: Times, idle: float) -> Overheads:
    """From networks that differ in arguments (``few``, ``many``) and in calls (``few``, ``one``).

    ``idle`` is what the clock adds to a call without arguments.
    """
    longer = many.watched - few.watched
    anyway = (many.wall - few.wall) / few.calls  # what arguments cost without a clock
    argument = max(0.0, (longer - anyway) / (many.arguments - few.arguments))
    clock = idle + few.arguments * argument
    beside, beside_one = (each.wall - each.calls * (few.watched - clock) for each in (few, one))
    call = max(0.0, (beside - beside_one) / (few.calls - 1))
    return Overheads(argument, max(0.0, beside_one - call), call)


class _Adding:
    """A network of so many additions, with the times of its runs."""

    def __init__(self, calls: int, arguments: int) -> None:
        self._calls, self._arguments = calls, arguments
        self.traces: list[list[TimedCall]] = []
        self._walls: list[float] = []
        numbers = [tvm.runtime.tensor(np.zeros(1, "float32"))]
        self._network = WatchedNetwork(tvm.compile(_adding(calls, arguments), _HOST).mod, numbers)

    def run(self) -> None:
        start = time.perf_counter()
        self._network.run()
        self._walls.append(time.perf_counter() - start)
        self.traces.append(self._network.trace())

    @property
    def times(self) -> Times:
        trace = (call for calls in self.traces for call in calls if not call.is_builtin)
        watched = median(call.seconds for call in trace)
        return Times(self._calls, self._arguments, median(self._walls), watched)


def _adding(calls: int, arguments: int) -> tvm.IRModule:
    numbers = [te.placeholder((1,), name=f"x{n}") for n in range(arguments - 1)]
    total = te.compute((1,), lambda at: numbers[0][at] + numbers[-1][at], name="total")
    func = te.create_prim_func([*numbers, total]).with_attr("global_symbol", "add")
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType([1], "float32"))
    name = builder.add_func(func, "add")
    with builder.function("main", [data]):
        found = data
        with builder.dataflow():
            for _ in range(calls):
                call = relax.call_tir(name, [found] * (arguments - 1), data.ty)
                found = builder.emit(call)
            found = builder.emit_output(found)
        builder.emit_func_output(found)
    return builder.get()
