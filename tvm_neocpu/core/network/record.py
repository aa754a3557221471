"""One measured candidate: which config of which template took how long on which machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload

Kind = TypeVar("Kind", bound=Workload)

# How a time was taken (:attr:`Stamp.protocol`): the kernel alone between flushed caches, or in its
# place in a network. Times of two protocols do not compare.
ISOLATED, IN_NETWORK = 1, 2


@dataclass(frozen=True)
class Stamp:
    """What a time depends on beside the record's key; a record with another stamp is stale.

    ``template`` is a hash of the sources that generated the code, ``tvm`` TVM's version,
    ``protocol`` how the time was taken. The defaults say nothing, as the lines of AutoTVM do.
    """

    template: str = ""
    tvm: str = ""
    protocol: int = 0


@dataclass(frozen=True)
class Record:
    """A candidate's measurement; ``costs`` are seconds per run, empty when it failed.

    ``cpu`` is LLVM's CPU name, ``features`` a hash of its features (:attr:`Cpu.features`, empty if
    the writer did not say) and ``threads`` the pool's size; with the workload they are the key.
    ``threads == 0`` marks a record of the AutoTVM era, which did not write it down.
    ``error_no`` follows AutoTVM's ``MeasureErrorNo`` (0 is success).

    ``stamp`` says whether the time may be believed, not what was measured, so it does not count
    when records are compared. ``None``: this process measured it, in isolation.

    ``readings`` says how often a session read it in the network, 0 if nobody said. A first reading
    made the candidate look good: the best of many is too good to be true.
    """

    workload: Workload
    config: Config
    costs: tuple[float, ...]
    cpu: str
    threads: int
    error_no: int = 0
    all_cost: float = 0.0
    timestamp: float = 0.0
    features: str = ""
    stamp: Stamp | None = field(default=None, compare=False)
    readings: int = 0

    @property
    def protocol(self) -> int:
        """How the time was taken: :data:`ISOLATED` or :data:`IN_NETWORK`, 0 if nobody said."""
        return ISOLATED if self.stamp is None else self.stamp.protocol

    @property
    def ok(self) -> bool:
        return self.error_no == 0 and bool(self.costs)

    @property
    def confirmed(self) -> bool:
        """Whether more was read than what made the candidate look good."""
        return self.readings != 1

    @property
    def seconds(self) -> float:
        """Seconds of one run as one may believe them; infinite for a failed candidate.

        The median, but of a first reading the upper end.
        """
        if not self.ok:
            return float("inf")
        return median(self.costs) if self.confirmed else max(self.costs)

    @property
    def read_seconds(self) -> float:
        """Median seconds of one run as it was read; infinite for a failed candidate."""
        return median(self.costs) if self.ok else float("inf")

    @property
    def gflops(self) -> float:
        return self.workload.flops / self.seconds / 1e9 if self.ok else 0.0


def best_seconds(
    records: Mapping[Workload, Sequence[Record]], kind: type[Kind]
) -> dict[Kind, float]:
    """The time of the first record of each workload of a kind, where it did not fail."""
    return {
        workload: found[0].seconds
        for workload, found in records.items()
        if isinstance(workload, kind) and found and found[0].ok
    }
