"""Silence for what C++ writes to stderr by itself, where it only repeats us."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Send file descriptor 2 to nowhere; Python's exceptions are not affected."""
    sys.stderr.flush()
    saved = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
