"""The best of what was measured: per workload, and per pair of layouts for the global search."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tvm_neocpu.core.candidate import layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import Workload


class BestRecords:
    """Records of one CPU, answering for one thread count.

    Times under different thread counts do not compare, so a workload is answered from one count
    alone: the exact one, else the nearest, else records of the AutoTVM era, which did not say (0).
    Of one config's records the last counts: the template may have changed since the others.
    Records of other CPUs are never used.
    """

    def __init__(self, records: Iterable[Record], cpu: str, threads: int) -> None:
        self.cpu = cpu
        self.threads = threads
        self._measured: dict[Workload, dict[int, dict[Config, Record]]] = {}
        self._ascending: dict[Workload, tuple[Record, ...]] = {}
        for record in records:
            if record.cpu != cpu:
                continue
            by_threads = self._measured.setdefault(record.workload, {})
            by_threads.setdefault(record.threads, {})[record.config] = record

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Those with at least one usable record."""
        return tuple(workload for workload in self._measured if self.ascending(workload))

    @property
    def attempted(self) -> tuple[Workload, ...]:
        """Those with any record, failures too."""
        return tuple(self._measured)

    def ascending(self, workload: Workload) -> tuple[Record, ...]:
        """Every config that worked, the fastest first (NeoCPU, section 3.3.1)."""
        if workload not in self._ascending:
            self._ascending[workload] = self._sorted(workload)
        return self._ascending[workload]

    def best(self, workload: Workload) -> Record | None:
        """The fastest record, ``None`` if nothing is known of the workload."""
        ascending = self.ascending(workload)
        return ascending[0] if ascending else None

    def candidates(self, workload: Workload) -> tuple[Record, ...]:
        """The fastest record of every (input, output) layout pair, ascending."""
        best: dict[tuple[Layout, Layout], Record] = {}
        for record in self.ascending(workload):
            best.setdefault(layouts_of(record.config), record)
        return tuple(best.values())

    def all_of(self, workload: Workload) -> tuple[Record, ...]:
        """The records that answer for the workload, ascending; failures, under this very thread
        count, come last."""
        failed = (record for record in self.measured(workload).values() if not record.ok)
        return (*self.ascending(workload), *failed)

    def measured(self, workload: Workload) -> dict[Config, Record]:
        """Everything tried under exactly this thread count, failures too: what resuming skips."""
        return dict(self._measured.get(workload, {}).get(self.threads, {}))

    def _sorted(self, workload: Workload) -> tuple[Record, ...]:
        groups = self._measured.get(workload, {})
        for threads in sorted(groups, key=self._distance):
            working = [record for record in groups[threads].values() if record.ok]
            if working:
                return tuple(sorted(working, key=lambda record: record.seconds))
        return ()

    def _distance(self, threads: int) -> float:
        if threads == self.threads:
            return -1.0
        return abs(math.log(threads / self.threads)) if threads and self.threads else math.inf
