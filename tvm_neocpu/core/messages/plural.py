"""Counts in texts."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """``"1 thread"``, ``"2 threads"``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
