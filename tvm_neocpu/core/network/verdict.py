"""What a tuning session found out beside times: the network compared, workloads that are settled.

Both keep a later session from searching for what is not there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_neocpu.core.network.record import Stamp
from tvm_neocpu.core.network.workload import Workload

# In place of a plan's digest: no new plan was shown to be faster, what was there stays.
KEPT = "kept"


@dataclass(frozen=True)
class Settled:
    """A workload that needed no more measurements in one network.

    ``noise`` is what the next measurement was expected to save, as a share of the workload's own
    time (0.01 is 1 %): a layer that hardly counts in one network may count in another.
    ``candidates`` counts those that were measured. The key is a record's: workload, CPU, features,
    threads. ``stamp`` is a :class:`Stamp` of the operator's whole space; ``None``: this process
    settled it.
    """

    workload: Workload
    cpu: str
    threads: int
    noise: float
    candidates: int = 0
    timestamp: float = 0.0
    features: str = ""
    stamp: Stamp | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Verdict:
    """A network built with a new plan against the network as it was, interleaved.

    ``graph`` is the :class:`ConvGraph`'s hash. ``plan`` is the digest of the plan that won
    (``plan_lines.plan_digest``), or :data:`KEPT`. ``ratio`` is the time before over the time with
    the new plan, above 1 where the new one is faster; ``low`` and ``high`` bound its confidence
    interval, and are 1 if no plan was fast enough to be compared. ``candidates`` counts what was
    measured on the way, ``settled`` are the workloads that need no more; ``complete``: all of the
    network's are settled. ``network`` is its name for people, ``seconds`` the budget that the
    session had (without one, the time that it took).
    ``stamp`` is one of all templates; ``None``: this process made it.
    """

    graph: str
    cpu: str
    threads: int
    plan: str
    ratio: float
    low: float
    high: float
    candidates: int
    settled: tuple[Settled, ...] = ()
    timestamp: float = 0.0
    network: str = ""
    features: str = ""
    seconds: float = 0.0
    complete: bool = False
    stamp: Stamp | None = field(default=None, compare=False)

    @property
    def compared(self) -> bool:
        """Whether there was a plan to compare, so that the ratio was measured."""
        return self.low < self.high

    @property
    def kept(self) -> bool:
        """Whether the network stays as it was."""
        return self.plan == KEPT
