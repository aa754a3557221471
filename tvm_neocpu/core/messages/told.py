"""Warnings of a build, remembered: whoever takes its result from a cache hears them, too."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENERS: ContextVar[tuple[list[Warning], ...]] = ContextVar("listeners", default=())


def tell_user(warning: Warning, stacklevel: int = 2) -> None:
    """`warnings.warn`, and a note for whoever listens."""
    for heard in _LISTENERS.get():
        heard.append(warning)
    warnings.warn(warning, stacklevel=stacklevel + 1)


@contextmanager
def listening() -> Iterator[list[Warning]]:
    """What `tell_user` says inside, in this thread or task."""
    heard: list[Warning] = []
    token = _LISTENERS.set((*_LISTENERS.get(), heard))
    try:
        yield heard
    finally:
        _LISTENERS.reset(token)
