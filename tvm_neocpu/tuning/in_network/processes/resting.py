"""Waiting until this process has left the cores to others.

TVM's idle threads spin for a while before they sleep, for a third of a second where another process
wants their core. Who is timed next would be slowed by them.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

# As long as they are known to spin, and between two looks.
MOST_SECONDS, LOOK_SECONDS = 0.4, 0.005
_TASKS = Path("/proc/self/task")


def rest(most: float = MOST_SECONDS) -> float:
    """Return once no other thread of this process runs, or after ``most`` seconds; how many.

    Where the system does not say what threads do, it takes ``most`` seconds.
    """
    start = time.monotonic()
    while time.monotonic() - start < most and others_run():
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - start


def others_run() -> bool:
    """Whether a thread of this process runs, or waits for a core, beside the caller's."""
    own = str(threading.get_native_id())
    try:
        others = [task for task in os.listdir(_TASKS) if task != own]
    except OSError:
        return True
    return any(_runs(task) for task in others)


def _runs(task: str) -> bool:
    try:
        # "17 (name) R ...": the name may hold any character.
        return (_TASKS / task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False  # it has ended
