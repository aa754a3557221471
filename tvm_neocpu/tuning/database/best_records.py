"""The best of the records: for a workload, and for each of its pairs of layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.database.lines.staleness import MEASURED_BY, is_current

# The thread count of AutoTVM's records, which do not state theirs.
UNKNOWN_THREADS = 0


class RecordSource(Protocol):
    """Where records come from; a log may read those of a workload when it is asked for them."""

    def workloads(self) -> Iterable[Workload]:
        """The workloads with any record."""

    def of(self, workload: Workload) -> Sequence[Record]:
        """The records of a workload, in the order in which they were measured."""


class RecordTable:
    """Records in memory, by workload."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_workload: dict[Workload, list[Record]] = {}
        for record in records:
            self._by_workload.setdefault(record.workload, []).append(record)

    def workloads(self) -> tuple[Workload, ...]:
        return tuple(self._by_workload)

    def of(self, workload: Workload) -> Sequence[Record]:
        return self._by_workload.get(workload, [])


def is_for(record: Record, cpu: str, threads: int, features: str = "") -> bool:
    """Whether a record's key is that of code on this CPU with this many threads.

    Features count where both sides state them.
    """
    same = not (features and record.features) or features == record.features
    return record.cpu == cpu and record.threads == threads and same


class BestRecords:
    """The measurements that answer for one CPU and one thread count.

    Records of another CPU or thread count are not used, since their times do not compare, nor are
    stale ones (:mod:`.staleness`): both are :meth:`hints`. If a config was measured several times,
    its last record counts. A workload's times have one protocol: in the network if any such record
    worked, else in isolation; a config that failed under either has failed.
    """

    def __init__(
        self, records: Iterable[Record], cpu: str, threads: int, features: str = ""
    ) -> None:
        self._begin((RecordTable(records),), cpu, threads, features)

    @classmethod
    def of_sources(
        cls, sources: Iterable[RecordSource], cpu: str, threads: int, features: str = ""
    ) -> BestRecords:
        """The measurements in several sources; later ones count more. Reads what is asked for."""
        best = cls.__new__(cls)
        best._begin(tuple(sources), cpu, threads, features)
        return best

    def _begin(
        self, sources: tuple[RecordSource, ...], cpu: str, threads: int, features: str
    ) -> None:
        self.cpu = cpu
        self.threads = threads
        self.features = features
        self._sources = sources
        self._measured: dict[Workload, dict[Config, Record]] = {}
        self._ascending: dict[Workload, tuple[Record, ...]] = {}

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The workloads with at least one record that worked."""
        return tuple(workload for workload in self.attempted if self.ascending(workload))

    @property
    def attempted(self) -> tuple[Workload, ...]:
        """The workloads with any record, failures included."""
        return tuple(workload for workload in self.recorded if self.measured(workload))

    @property
    def recorded(self) -> tuple[Workload, ...]:
        """The workloads with any line, stale ones and those of other machines included."""
        return tuple(dict.fromkeys(w for source in self._sources for w in source.workloads()))

    def ascending(self, workload: Workload) -> tuple[Record, ...]:
        """The record of every config that worked, the fastest first (NeoCPU, section 3.3.1)."""
        if workload not in self._ascending:
            worked = [record for record in self.measured(workload).values() if record.ok]
            protocols = {record.protocol for record in worked}
            counted = next((each for each in MEASURED_BY if each in protocols), None)
            compared = (record for record in worked if record.protocol == counted)
            self._ascending[workload] = tuple(sorted(compared, key=lambda record: record.seconds))
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
        """:meth:`ascending`, then the failures."""
        failed = (record for record in self.measured(workload).values() if not record.ok)
        return (*self.ascending(workload), *failed)

    def measured(self, workload: Workload) -> dict[Config, Record]:
        """Everything tried on this machine by today's code, failures included.

        A session that resumes does not measure these configs again. Of a config that was measured
        by several protocols, the one that is believed most counts.
        """
        if workload not in self._measured:
            by_protocol: dict[int, dict[Config, Record]] = {each: {} for each in MEASURED_BY}
            for record in self._records(workload):
                if is_for(record, self.cpu, self.threads, self.features) and is_current(record):
                    by_protocol[record.protocol][record.config] = record
            found: dict[Config, Record] = {}
            for protocol in reversed(MEASURED_BY):
                for config, record in by_protocol[protocol].items():
                    if config not in found or found[config].ok:
                        found[config] = record
            self._measured[workload] = found
        return dict(self._measured[workload])

    def hints(self, workload: Workload) -> tuple[Config, ...]:
        """Configs worth trying first that were not measured by today's code on this machine.

        They come from stale records and other thread counts of this CPU. Those of this thread count
        come first, the fastest of their time leading.
        """
        known = self.measured(workload)
        best: dict[Config, tuple[bool, float]] = {}
        for record in self._records(workload):
            if record.ok and record.cpu == self.cpu and record.config not in known:
                rank = (record.threads != self.threads, record.seconds)
                best[record.config] = min(rank, best.get(record.config, rank))
        return tuple(sorted(best, key=lambda config: best[config]))

    def _records(self, workload: Workload) -> Iterable[Record]:
        return (record for source in self._sources for record in source.of(workload))
