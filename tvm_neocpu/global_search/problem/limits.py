"""Deadlines, and the error of a method that hits a time or size limit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tvm_neocpu.core.errors import InvalidProblemError, NeoCpuError


class SearchLimitError(NeoCpuError):
    """A method gave up at a limit. The text names the limit and says what to do instead."""


@dataclass(frozen=True)
class Deadline:
    """A point in time, in seconds on the monotonic clock."""

    end: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline `seconds` from now; +inf means no deadline.

        Raises InvalidProblemError for a negative number or nan.
        """
        if not seconds >= 0:
            raise InvalidProblemError(f"the time limit must be 0 seconds or more, not {seconds}")
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; 0 after it."""
        return max(0.0, self.end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time remains."""
        return time.monotonic() >= self.end

    def at_most(self, seconds: float) -> Deadline:
        """The earlier of this deadline and the one `seconds` from now."""
        return Deadline(min(self.end, time.monotonic() + seconds))

    def share(self, fraction: float) -> Deadline:
        """The deadline after `fraction` (0 to 1) of the remaining time."""
        return Deadline(time.monotonic() + self.remaining * fraction)
