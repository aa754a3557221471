"""Whether other processes are at work on this machine, by its load average."""

from __future__ import annotations

import os

# The max load average of a machine that counts as idle.
MAX_IDLE_LOAD = 0.5


def load_of_others(count: int) -> float | None:
    """The load average, if it leaves fewer than ``count`` cores idle; else ``None``.

    For a process that has not begun its own work: the average counts the last minute's.
    """
    load = os.getloadavg()[0]
    return load if load + count > (os.cpu_count() or 1) + MAX_IDLE_LOAD else None
