"""The warning of commands that measure while other processes are at work."""

from __future__ import annotations

import sys


def warn_of_others(load: float | None, harm: str, verb: str) -> None:
    """Say on stderr what the ``load`` of others does to the result; ``None`` is an idle machine.

    >>> warn_of_others(3.2, "bandwidths will come out too low", "calibrate")
    """
    if load is not None:
        print(
            f"warning: other processes are at work (load {load:.1f}): {harm}; "
            f"{verb} again when the machine is idle",
            file=sys.stderr,
        )
