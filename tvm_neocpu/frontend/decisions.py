"""What a file decides by its shapes: ``If (N == 1)``, ``Where(N > 8, ..)``.

Such a file is not one network for all batches, though it may be the same at two of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

# The values of truth that folding shapes computes, in its order.
Decisions = list[Any]

_NOTED: ContextVar[Decisions | None] = ContextVar("noted", default=None)


@contextmanager
def noted_decisions() -> Iterator[Decisions]:
    """What is decided inside of the ``with``."""
    noted: Decisions = []
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def note_decision(value: npt.NDArray[Any]) -> None:
    """Note a folded value if it is one of truth."""
    noted = _NOTED.get()
    if noted is not None and value.dtype == np.bool_:
        noted.append(value.tolist())
