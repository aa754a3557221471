"""Functions that were scheduled before are not scheduled again.

The networks of a tuning session differ in the layers that have a new config. Scheduling is most of
what such a network takes before LLVM.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.schedule_function import schedule_function

# Functions to remember; a network has at most some 150 that differ.
MOST = 600


class ScheduledBefore:
    """What :func:`schedule_function` made of functions for one CPU, the latest ``most`` of them."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[int, tuple[tirx.PrimFunc, tirx.PrimFunc]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def schedule(self, func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
        """The function scheduled; one that is equal to an earlier one but for names is that one's.

        Raises what :func:`schedule_function` raises, each time.
        """
        key = int(tvm_ffi.structural_hash(func))
        known = self._known.pop(key, None)
        if known is None or not tvm_ffi.structural_equal(known[0], func):
            known = func, schedule_function(func, cpu)
        self._known[key] = known  # the last again
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return known[1]
