"""One measured candidate: which config of which template took how long on which machine."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.workload import Workload


@dataclass(frozen=True)
class Record:
    """A candidate's measurement; ``costs`` are seconds per run, empty when it failed.

    ``cpu`` is LLVM's CPU name and ``threads`` the pool's size; with the workload they are the key.
    ``threads == 0`` marks a record of the AutoTVM era, which did not write it down.
    ``error_no`` follows AutoTVM's ``MeasureErrorNo`` (0 is success).
    """

    workload: Workload
    config: Config
    costs: tuple[float, ...]
    cpu: str
    threads: int
    error_no: int = 0
    all_cost: float = 0.0
    timestamp: float = 0.0

    @property
    def ok(self) -> bool:
        return self.error_no == 0 and bool(self.costs)

    @property
    def seconds(self) -> float:
        """Median seconds of one run; infinite for a failed candidate."""
        return median(self.costs) if self.ok else float("inf")

    @property
    def gflops(self) -> float:
        return self.workload.flops / self.seconds / 1e9 if self.ok else 0.0
