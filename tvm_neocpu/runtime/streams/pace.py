"""How many of its threads a stream uses: fewer while a neighbour keeps a core busy.

Every parallel loop waits for its slowest thread. Where another process runs on one of two cores,
each loop waits for whole time slices of the kernel, and a run on one thread is faster by far. TVM's
shares are static, so that the number of threads is all there is to change. It is decided from the
times of calls alone.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

# Calls whose median counts, and calls of a trial.
RECENT, TRIAL = 5, 3
# Calls that the best time is looked for in: a machine's speed drifts.
MEMORY = 200
# A call this much slower than the best one means that something has changed.
SLOWER = 1.4
# Two in a row mean it at once, if they are this much slower and lose more seconds than a system's
# daemon takes: calls of 3.5 ms lost two in a row to one of these, and then 20 on one thread.
MUCH_SLOWER, DAEMON_SECONDS = 2.0, 0.04
# Another number of threads must be this much faster.
FASTER = 0.95
# One call of fewer threads that is this much slower ends their trial: no core is taken.
HOPELESS = 1.5
# One of more threads that is this much slower ends theirs: a core is still taken.
STILL_TAKEN = 1.25
# Calls between trials of fewer threads: few at first, for the kernel may need tenths of a second to
# give a thread the core that is free.
MAX_WAIT_WHEN_SLOW = 80
# Calls between trials of more threads, at least. A failed trial costs a call of some three times
# the time, or of a thousand times where a call is shorter than the kernel's time slices: the next
# one waits for 15 times the seconds that the last one lost, so that trials cost 7 % at most.
MIN_WAIT, WORTH = 20, 15


def levels_of(threads: int) -> tuple[int, ...]:
    """The numbers of threads that are worth a trial: ``8 -> (8, 7, 4, 2, 1)``."""
    halves = [threads]
    while halves[-1] > 1:
        halves.append(halves[-1] // 2)
    return tuple(sorted({*halves, max(1, threads - 1)}, reverse=True))


class _Times:
    """The last times of one number of threads; a call reads them in less than 2 us."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=MEMORY)
        self._best = float("inf")

    def add(self, seconds: float) -> None:
        """The oldest one is forgotten for it."""
        forgotten = self._times[0] if len(self._times) == MEMORY else float("inf")
        self._times.append(seconds)
        known = forgotten > self._best
        self._best = min(self._best, seconds) if known else min(self._times)

    def now(self) -> float:
        """The median of the newest."""
        return _middle(self._newest())

    def best(self) -> float:
        """The fastest that is remembered."""
        return self._best

    def mean_of_slow(self) -> float:
        """Of those of the newest that are slow: beside a neighbour calls take once, then five times
        as long, and the others are older than the neighbour.
        """
        slow = [seconds for seconds in self._newest() if seconds > SLOWER * self._best]
        return sum(slow) / len(slow) if slow else self.now()

    def are_slow(self) -> bool:
        """Whether calls take much longer than the best one did."""
        if len(self._times) < RECENT:
            return False
        newest = self._newest()
        return _middle(newest) > SLOWER * self._best or self._lose_much(newest[:2])

    def _lose_much(self, newest: list[float]) -> bool:
        lost = sum(newest) - len(newest) * self._best
        return min(newest) > MUCH_SLOWER * self._best and lost > DAEMON_SECONDS

    def _newest(self) -> list[float]:
        return list(islice(reversed(self._times), RECENT))


class Pace:
    """Chooses the number of threads for the next call from the times of the calls before.

    ``threads`` is what the next call shall run on; `note` takes its time. Not safe from several
    threads at once.
    """

    def __init__(self, threads: int) -> None:
        self._levels = levels_of(threads)
        self._at = 0
        self._trial: int | None = None
        self._deeper = 0  # how many trials of fewer threads have failed in a row
        self._wait_when_slow, self._since = RECENT, 0
        self._seconds_since, self._seconds_to_wait = 0.0, 0.0
        self._times = [_Times() for _ in self._levels]
        self._tried: list[float] = []

    @property
    def threads(self) -> int:
        """What the next call shall run on."""
        return self._levels[self._at if self._trial is None else self._trial]

    def note(self, seconds: float) -> None:
        """The time of the call that ran on ``threads``."""
        if self._trial is not None:
            self._tried.append(seconds)
            fewer = self._trial > self._at
            times = self._times[self._at]
            # Beside a neighbour two threads may share the other core, and take one thread's time:
            # only the best of the fewer threads' times tells that this is no gain.
            usual, allowed = (
                (times.mean_of_slow(), HOPELESS) if fewer else (times.best(), STILL_TAKEN)
            )
            if seconds > allowed * usual:
                self._end_trial(taken=False)
            elif len(self._tried) == TRIAL:
                self._end_trial(taken=_middle(self._tried) < FASTER * usual)
            return
        self._times[self._at].add(seconds)
        self._since += 1
        self._seconds_since += seconds
        self._trial = self._candidate()

    def _candidate(self) -> int | None:
        """Fewer threads where calls have become slow, more where they may be fast again."""
        below = len(self._levels) - 1 - self._at
        if not self._times[self._at].are_slow():
            self._wait_when_slow, self._deeper = RECENT, 0
        elif below and self._since >= self._wait_when_slow:
            return self._at + 1 + self._deeper % below
        waited = self._since >= MIN_WAIT and self._seconds_since >= self._seconds_to_wait
        return self._at - 1 if self._at > 0 and waited else None

    def _end_trial(self, taken: bool) -> None:
        """Go on with the trial's threads where they are ``taken``."""
        assert self._trial is not None, "a trial ends that has begun"
        if taken:
            self._at, self._wait_when_slow, self._seconds_to_wait = self._trial, RECENT, 0.0
            self._deeper = 0
            for seconds in self._tried:
                self._times[self._at].add(seconds)
        elif self._trial < self._at:
            lost = sum(self._tried) - len(self._tried) * self._times[self._at].now()
            self._seconds_to_wait = WORTH * lost
        else:
            self._wait_when_slow = min(2 * self._wait_when_slow, MAX_WAIT_WHEN_SLOW)
            self._deeper += 1
        self._trial, self._tried = None, []
        self._since, self._seconds_since = 0, 0.0


def _middle(times: list[float]) -> float:
    """The median of an odd number; `statistics`, which every session would import, takes 3 ms."""
    return sorted(times)[len(times) // 2]
