"""What a tuning session knows: for each workload of the network its candidates and their ratios.

A candidate counts by its ratio to the incumbent, both timed in turns in the network. The first
ratio of a candidate is what made it look good: the best of many noisy readings is too good to be
true. So it is only the ticket to be measured again, and the later readings alone count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.in_network.ratios import SURE, Ratio, combined
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tuners import Tuner

# A candidate that is this much below the best known is worth a second look.
WORTH_CONFIRMING = 0.005
# Readings after which a candidate is known well enough.
MAX_READINGS = 5
# A log-ratio with a larger error says nothing: other processes had the core. It is taken again;
# what so many such readings say together counts nevertheless (beside a load of 15 on two cores a
# candidate was read at 17 times its true time, +-42 %, and its layer was settled for that).
BLURRED, MOST_BLURRED = 0.05, 3
# A workload is settled when the next candidate is expected to save less than this share of the
# network's time.
SETTLED_SHARE = 0.0005
# Why a candidate is not tried that failed in an earlier session.
FAILED_BEFORE = "failed before"
# A layer is not expected to get faster than by this share: below it nobody looks for candidates.
MOST = 0.15


@dataclass
class Estimate:
    """A candidate's ratios to the incumbent, in the order in which they were taken.

    The first one of a ``resumed`` estimate is what an earlier session found, by ``before``
    readings.
    """

    readings: list[Ratio] = field(default_factory=list)
    resumed: bool = False
    before: int = 2

    @property
    def count(self) -> int:
        """Readings, those of an earlier session included."""
        return len(self.readings) + (self.before - 1 if self.resumed else 0)

    @property
    def confirmed(self) -> bool:
        return self.count > 1

    @property
    def ratio(self) -> Ratio:
        """The readings after the first; the first while it is the only one."""
        first_counts = self.resumed and self.before > 1
        return combined(self.readings[0 if first_counts else 1 :] or self.readings)

    @property
    def settled(self) -> bool:
        """Whether more readings would tell nothing new."""
        known = self.ratio
        clear = known.low > 1 or known.error <= SURE
        return self.confirmed and (clear or len(self.readings) >= MAX_READINGS)


@dataclass
class Seat:
    """One workload in the session.

    ``incumbent`` holds its configs in the network as it is; ``seconds`` is what one of its calls
    takes there, and ``weight`` the share of the network's time that all its calls take. ``hints``
    are configs to try first. ``blurred`` are readings that do not count yet. The search has
    ``asked`` for configs that its plan takes unmeasured.
    A ``closed`` seat was settled in an earlier session, which expected the next measurement to save
    the share ``doubt`` of the layer's time. ``trials`` bounds its candidates; an ``exhaustive`` one
    is not settled before all were measured.
    ``unit`` are the incumbent's seconds as the log has them, in which ratios are written down: an
    earlier session may have run on a slower clock.
    ``calls`` says how often one inference computes the layer. The graph's occurrences, which it is
    by default, count a loop's body once, and branches that are not taken.
    """

    task: Task
    tuner: Tuner
    incumbent: frozenset[Config]
    seconds: float
    weight: float
    estimates: dict[Config, Estimate] = field(default_factory=dict)
    failed: dict[Config, str] = field(default_factory=dict)
    blurred: dict[Config, list[Ratio]] = field(default_factory=dict)
    hints: Sequence[Config] = ()
    asked: list[Config] = field(default_factory=list)
    closed: bool = False
    doubt: float = 0.0
    trials: int | None = None
    exhaustive: bool = False
    unit: float = 0.0
    calls: int = 0

    def __post_init__(self) -> None:
        self.unit = self.unit or self.seconds
        self.calls = self.calls or self.task.occurrences

    @property
    def workload(self) -> Workload:
        return self.task.workload

    @property
    def best(self) -> float:
        """The lowest ratio that is confirmed; 1 for the incumbent, which always is."""
        return min([1.0, *(e.ratio.value for e in self.estimates.values() if e.confirmed)])

    def contender(self) -> Config | None:
        """The most promising config that was measured and deserves another reading."""
        best = self.best
        open_ = {
            config: estimate.ratio.value
            for config, estimate in self.estimates.items()
            if not estimate.settled
            and config not in self.incumbent
            and estimate.ratio.value < best * (1 - WORTH_CONFIRMING * (not estimate.confirmed))
        }
        return min(open_, key=lambda config: open_[config], default=None)

    def hope(self) -> float:
        """Expected saving of the next measurement, as a share of the network's time."""
        if self.asked:
            return self.weight
        if self.exhaustive and self.wishes(1):
            return max(self.weight, SETTLED_SHARE)
        if self.closed:
            return 0.0
        promise = 0.0 if self.curbed else self.tuner.promise()
        return self._of_network(max(promise, self._second_look()))

    def promised(self) -> float:
        """Expected saving of the next measurement, as a share of the layer's own time.

        Neither the layer's weight in this network counts nor the session's limit of candidates.
        """
        if self.closed:
            return self.doubt
        return min(1.0, max(self.tuner.promise(), self._second_look()))

    def _of_network(self, share: float) -> float:
        """A share of the layer's time as one of the network's; 0 for a layer too small to gain."""
        return self.weight * share if self.weight * MOST >= SETTLED_SHARE else 0.0

    def _second_look(self) -> float:
        """What another reading of the contender may show, as a share of the layer's time."""
        contender = self.contender()
        if contender is None:
            return 0.0
        # Half of what the first reading shows is noise, by experience and by selection.
        return (self.best - self.estimates[contender].ratio.value) / 2

    def wishes(self, count: int) -> list[Config]:
        """Configs to measure next, the most wanted first."""
        contender = self.contender()
        tried = self.estimates.keys() | self.failed.keys() | self.incumbent
        first = [*self.asked, *([] if contender is None else [contender])]
        first += [hint for hint in self.hints if hint not in tried]
        if self.trials is not None:
            count = min(count, self.trials - len(self.estimates))
        return list(dict.fromkeys([*first, *self.tuner.propose(count)]))

    def spares(self, fallback: Sequence[Config]) -> list[Config]:
        """Configs for rounds that are not about this workload: known ones before ``fallback``."""
        known = sorted(self.estimates, key=lambda config: self.estimates[config].ratio.value)
        spares = dict.fromkeys([*self.incumbent, *known, *fallback])
        return [config for config in spares if config not in self.failed]

    def hear(self, config: Config, ratio: Ratio) -> bool:
        """Take in a ratio to the incumbent; whether it counts."""
        if ratio.error > BLURRED:
            kept = self.blurred.setdefault(config, [])
            kept.append(ratio)
            if len(kept) < MOST_BLURRED:
                return False
            ratio = combined(self.blurred.pop(config))
        first = config not in self.estimates
        if config in self.asked:
            self.asked.remove(config)
        estimate = self.estimates.setdefault(config, Estimate())
        estimate.readings.append(ratio)
        if first and config not in self.incumbent:
            self.tuner.observe(config, self.seconds * ratio.value)
        return True

    def fail(self, config: Config, why: str) -> None:
        """A config that cannot be built or run, or that computes something else."""
        self.failed[config] = why
        self.asked = [asked for asked in self.asked if asked != config]
        self.estimates.pop(config, None)
        self.tuner.observe(config, math.inf)

    @property
    def settled(self) -> bool:
        return self.hope() < SETTLED_SHARE

    @property
    def curbed(self) -> bool:
        """Whether the session's limit of candidates is reached."""
        return self.trials is not None and len(self.estimates) >= self.trials

    @property
    def settled_for_good(self) -> bool:
        """Settled, and not by the session's limit of candidates alone."""
        return self.settled and self._of_network(self.promised()) < SETTLED_SHARE

    def knows(self, config: Config) -> bool:
        """Whether a config was measured, or is what the network has."""
        return config in self.estimates or config in self.incumbent or config in self.failed

    def leaders(self) -> Mapping[tuple[Layout, Layout], Config]:
        """The best confirmed config of each layout pair."""
        best: dict[tuple[Layout, Layout], Config] = {}
        ordered = sorted(self.estimates.items(), key=lambda item: item[1].ratio.value)
        for config, estimate in ordered:
            if estimate.confirmed or config in self.incumbent:
                best.setdefault(layouts_of(config), config)
        return best


@dataclass
class Board:
    """All seats of a session, and the network's own time.

    ``beside`` has the last record of each transform and sweep that was timed in the session.
    """

    seats: dict[Workload, Seat]
    network_seconds: float
    beside: dict[Workload, Record] = field(default_factory=dict)

    @property
    def open(self) -> list[Seat]:
        """Seats with something to gain, the most hopeful first."""
        hopeful = [seat for seat in self.seats.values() if not seat.settled]
        return sorted(hopeful, key=lambda seat: -seat.hope())

    @property
    def settled_for_good(self) -> bool:
        """Whether all seats are."""
        return not self.not_settled

    @property
    def not_settled(self) -> int:
        """Seats with something to gain, whether the session may look for it or not."""
        return sum(not seat.settled_for_good for seat in self.seats.values())

    @property
    def promised(self) -> float:
        """What one more candidate of every layer is expected to save, as a share of the network."""
        return min(1.0, sum(seat.weight * seat.promised() for seat in self.seats.values()))

    @property
    def measured(self) -> int:
        """Candidates with at least one reading, incumbents not counted."""
        return sum(
            config not in seat.incumbent
            for seat in self.seats.values()
            for config, estimate in seat.estimates.items()
            if not estimate.resumed
        )

    @property
    def failed(self) -> int:
        """Candidates that failed in this session."""
        reasons = (why for seat in self.seats.values() for why in seat.failed.values())
        return sum(why != FAILED_BEFORE for why in reasons)

    @property
    def gain(self) -> float:
        """Confirmed gain, as a share of the network's time, before layouts are reconciled."""
        return sum(seat.weight * (1 - seat.best) for seat in self.seats.values())
