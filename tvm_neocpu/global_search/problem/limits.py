"""Time and size limits, and the refusal that names the one that was hit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tvm_neocpu.core.errors import InvalidProblemError, NeoCpuError


class SearchLimitError(NeoCpuError):
    """A method gave up at its size or time limit; the text says which, and what to use instead."""


@dataclass(frozen=True)
class Deadline:
    """A point on the monotonic clock, in seconds."""

    end: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline `seconds` from now; +inf is never. Raises InvalidProblemError below 0."""
        if not seconds >= 0:
            raise InvalidProblemError(f"the time limit must be 0 seconds or more, not {seconds}")
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.end - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.end

    def at_most(self, seconds: float) -> Deadline:
        """This deadline, or the one `seconds` from now if that is earlier."""
        return Deadline(min(self.end, time.monotonic() + seconds))

    def share(self, fraction: float) -> Deadline:
        """An earlier deadline that leaves `fraction` of the time that is left."""
        return Deadline(time.monotonic() + self.remaining * fraction)
