"""Warnings as a command line shows them: one line, without the line of code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Inside, Python shows each warning as ``warning: text``; the filters stay as they are."""
    before = warnings.formatwarning
    warnings.formatwarning = _one_line
    try:
        yield
    finally:
        warnings.formatwarning = before


def _one_line(message: Warning | str, *_: object, **__: object) -> str:
    return f"warning: {' '.join(str(message).split())}\n"
