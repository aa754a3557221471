"""How many examples a costly test draws."""

from __future__ import annotations

from hypothesis import settings


def examples(nightly: int) -> int:
    """All of them nightly, half in CI, where they are the same at every run."""
    return nightly // 2 if settings().derandomize else nightly
