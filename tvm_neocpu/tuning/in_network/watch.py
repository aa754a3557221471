"""The calls of a network, timed in place by an instrument of Relax's virtual machine."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

# Prefix of Relax's own functions, such as allocation: each takes well under a microsecond.
_BUILTIN = "vm.builtin."


class Watch:
    """Called by the machine before and after every call; adds up seconds by function."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._start = 0.0

    def __call__(self, _: Any, name: str, before: bool, *__: Any) -> int:
        if before:
            self._start = time.perf_counter()
            return 0
        seconds = time.perf_counter() - self._start
        if not name.startswith(_BUILTIN):
            self.seconds[name] += seconds
            self.calls[name] += 1
        return 0  # the machine goes on

    def clear(self) -> None:
        """Forget everything: the next run begins."""
        self.seconds.clear()
        self.calls.clear()


class WatchedNetwork:
    """A loaded network: run as it is, or with every function timed inside it."""

    def __init__(self, code: tvm.runtime.Module, inputs: Sequence[tvm.runtime.Tensor]) -> None:
        self._inputs = inputs
        self._plain = relax.VirtualMachine(code, tvm.cpu())["main"]
        self._watched = relax.VirtualMachine(code, tvm.cpu())
        self._watch = Watch()
        self._watched.set_instrument(self._watch)
        self.result: Any = None

    def run(self) -> None:
        """One inference, without a clock in it."""
        self.result = self._plain(*self._inputs)

    def burst(self, count: int) -> list[float]:
        """Seconds of ``count`` whole inferences in a row, after one that is not counted."""
        self.run()
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            self.run()
            seconds.append(time.perf_counter() - start)
        return seconds

    def timed(self) -> dict[str, float]:
        """One inference; seconds of all calls of each function, by name."""
        self._watch.clear()
        self._watched["main"](*self._inputs)
        return dict(self._watch.seconds)

    @property
    def calls(self) -> dict[str, int]:
        """How often the last timed inference called each function."""
        return dict(self._watch.calls)
