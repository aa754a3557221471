"""The best of the records: for a workload, and for each of its pairs of layouts."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_neocpu.core.candidate import layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import Workload

# The thread count of AutoTVM's records, which do not state theirs.
UNKNOWN_THREADS = 0

Measurements = dict[Workload, dict[Config, Record]]


def answers_for(record: Record, cpu: str, threads: int) -> bool:
    """Whether a record may be used for code on this CPU with this many threads."""
    return record.cpu == cpu and record.threads in (threads, UNKNOWN_THREADS)


class BestRecords:
    """The records that answer for one CPU and one thread count.

    Records of another CPU or thread count are not used, since their times do not compare. AutoTVM's
    records do not state their thread count: they answer for a workload only if no record of the
    exact count worked, so that their times are never compared with ours. If a config was measured
    several times, its last record counts, since the template may have changed in between.
    """

    def __init__(self, records: Iterable[Record], cpu: str, threads: int) -> None:
        self.cpu = cpu
        self.threads = threads
        self._exact: Measurements = {}
        self._unknown: Measurements = {}
        self._ascending: dict[Workload, tuple[Record, ...]] = {}
        for record in records:
            if not answers_for(record, cpu, threads):
                continue
            known = self._exact if record.threads == threads else self._unknown
            known.setdefault(record.workload, {})[record.config] = record

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The workloads with at least one record that worked."""
        return tuple(workload for workload in self.attempted if self.ascending(workload))

    @property
    def attempted(self) -> tuple[Workload, ...]:
        """The workloads with any record, failures included."""
        return tuple(dict.fromkeys([*self._exact, *self._unknown]))

    def ascending(self, workload: Workload) -> tuple[Record, ...]:
        """The record of every config that worked, the fastest first (NeoCPU, section 3.3.1)."""
        if workload not in self._ascending:
            worked = [record for record in self._answers(workload) if record.ok]
            self._ascending[workload] = tuple(sorted(worked, key=lambda record: record.seconds))
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
        """:meth:`ascending`, then the failures under the exact thread count."""
        failed = (record for record in self.measured(workload).values() if not record.ok)
        return (*self.ascending(workload), *failed)

    def measured(self, workload: Workload) -> dict[Config, Record]:
        """Everything tried under the exact thread count, failures included.

        A session that resumes does not measure these configs again.
        """
        return dict(self._exact.get(workload, {}))

    def _answers(self, workload: Workload) -> list[Record]:
        """The records of one thread count, the exact one if any of its configs worked."""
        exact = self._exact.get(workload, {})
        if any(record.ok for record in exact.values()):
            return list(exact.values())
        # A config that failed here stays failed, whatever an old record says of it.
        unknown = self._unknown.get(workload, {})
        return [record for config, record in unknown.items() if config not in exact]
