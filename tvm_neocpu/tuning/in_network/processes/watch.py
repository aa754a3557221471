"""The calls of a network, timed in place by an instrument of Relax's virtual machine."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tvm_neocpu.runtime.calls.timing import time_calls

# Prefix of Relax's own functions, such as allocation: each takes well under a microsecond.
BUILTIN = "vm.builtin."
# A call that does nothing, of which the machine makes one for each tensor that it gives up.
NOTHING = f"{BUILTIN}null_value"
# Seconds: what a clock tells apart.
LEAST = 1e-9


@dataclass(frozen=True)
class TimedCall:
    """One call of a run; ``start`` and ``end`` are seconds since the run began.

    ``arguments``: how many it has, the result's memory among them.
    """

    name: str
    start: float
    end: float
    arguments: int = 0

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def is_builtin(self) -> bool:
        """Whether it is one of Relax's own."""
        return self.name.startswith(BUILTIN)


class CallTimes:
    """Called by the machine before and after every call; keeps the names and both times."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, float, float, int]] = []
        self._origin = self._start = 0.0

    def __call__(self, _: Any, name: str, before: bool, __: Any, *arguments: Any) -> int:
        now = time.perf_counter()
        if before:
            self._start = time.perf_counter()
        else:
            self._rows.append((name, self._start, now, len(arguments)))
        return 0  # the machine goes on

    def begin(self) -> None:
        """Forget everything: the next run begins."""
        self._rows = []
        self._origin = time.perf_counter()

    @property
    def calls(self) -> list[TimedCall]:
        """The calls since then, in order."""
        at = self._origin
        return [
            TimedCall(name, start - at, end - at, count) for name, start, end, count in self._rows
        ]


def idle_seconds(traces: Sequence[Sequence[TimedCall]]) -> float:
    """What the clock adds to a call without arguments."""
    idle = [call.seconds for trace in traces for call in trace if call.name == NOTHING]
    return median(idle) if idle else 0.0


class WatchedNetwork:
    """A loaded network: run as it is, or with every function timed inside it.

    ``argument`` is what the clock adds to a call for each of its arguments (:mod:`.clock`).
    """

    def __init__(
        self,
        code: tvm.runtime.Module,
        inputs: Sequence[tvm.runtime.Tensor],
        argument: float = 0.0,
    ) -> None:
        self._inputs = inputs
        self._argument = argument
        self._plain = relax.VirtualMachine(code, tvm.cpu())["main"]
        self._watched = relax.VirtualMachine(code, tvm.cpu())
        self._times = CallTimes()
        self._watched.set_instrument(self._times)
        self._calls: Counter[str] = Counter()
        self.result: Any = None

    def run(self) -> None:
        """One inference, without a clock in it."""
        self.result = self._plain(*self._inputs)

    def burst(self, count: int) -> list[float]:
        """Seconds of ``count`` whole inferences in a row, after one that is not counted."""
        return list(time_calls(self.run, 1, count).results)

    def trace(self) -> list[TimedCall]:
        """One inference; all its calls in order, Relax's own too."""
        self._times.begin()
        self._watched["main"](*self._inputs)
        return self._times.calls

    def timed(self) -> dict[str, float]:
        """One inference; seconds of all calls of each function, by name, without the clock's.

        None took 0 seconds, whatever is left of them: times are divided by each other.
        """
        seconds: dict[str, float] = defaultdict(float)
        self._calls = Counter()
        trace = self.trace()
        idle = idle_seconds([trace])
        for call in trace:
            if not call.is_builtin:
                clock = idle + self._argument * call.arguments
                seconds[call.name] += max(0.0, call.seconds - clock)
                self._calls[call.name] += 1
        return {name: max(LEAST, total) for name, total in seconds.items()}

    @property
    def calls(self) -> dict[str, int]:
        """How often the last :meth:`timed` inference called each function."""
        return dict(self._calls)


def arrays_of(result: Any) -> list[NDArray[Any]]:
    """What a network computed, a tensor or several, as arrays of its own."""
    several = not isinstance(result, tvm.runtime.Tensor)
    return [np.array(tensor.numpy()) for tensor in (result if several else [result])]
