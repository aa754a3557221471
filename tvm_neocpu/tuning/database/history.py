"""Which logs a build reads, and what it takes from them.

    with apply_history_best("resnet50.log"):
        lib = relay.build(...)

The order is: logs shipped for the CPU, this user's database, the folders of ``TVM_NEOCPU_LOGS``
(all in :mod:`.places`), logs that the user applies, the innermost last. Later ones take precedence.
Plans come before records: whatever log has a plan for the network, it is taken. What of a log still
holds is said in :mod:`.staleness`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layout import NCHW
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.verdict import Settled, Verdict
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.topi.table import all_implementations
from tvm_neocpu.tuning.database import places, unused_logs
from tvm_neocpu.tuning.database.best_records import (
    UNKNOWN_THREADS,
    BestRecords,
    is_for,
)
from tvm_neocpu.tuning.database.indexed_log import IndexedLog
from tvm_neocpu.tuning.database.lines.plan_lines import PlanKey
from tvm_neocpu.tuning.database.lines.staleness import is_current
from tvm_neocpu.tuning.database.log import PathLike
from tvm_neocpu.tuning.database.log_protocol import Log
from tvm_neocpu.tuning.database.warner import Warner

_APPLIED: ContextVar[tuple[Log, ...]] = ContextVar("applied_logs", default=())


@dataclass(frozen=True)
class History:
    """What logs know for one CPU and thread count; later ones of ``logs`` take precedence.

    ``applied`` are those of ``logs`` that the user named. Each of them is expected to serve the
    network at hand, and :class:`TuningLogWarning` says when none does. Shipped logs serve many
    networks, so that a shipped log without use is no reason to warn.
    """

    cpu: str
    threads: int
    logs: tuple[Log, ...] = ()
    applied: tuple[Log, ...] = ()
    features: str = ""
    warn: Warner = field(default_factory=Warner, init=False, repr=False, compare=False)

    def plan(self, graph: ConvGraph) -> Plan | None:
        """The plan logged for exactly this graph, CPU and thread count.

        Plans come before records: a plan knows the network, a record only a layer that other
        networks have too, and a plan is written only if the network is faster with it. So all logs
        are asked for the plan, the last log first, before anybody looks at a record. A plan that a
        session holds (:data:`~tvm_neocpu.core.network.plan.HELD`) counts where no log has a proven
        one.

        It warns of applied logs that are not used: those that have records of the network's layers
        and no plan, while a log before them has a plan; and, if there is no plan, those whose plans
        are for other graphs only. The network has changed since, or the log is another network's.
        """
        key = PlanKey(graph.hash, self.cpu, self.threads)
        needed = {node.id for node in graph.convs} | graph.joins
        stale: list[tuple[Log, str]] = []
        passed: list[Log] = []
        held: tuple[Plan, Log, list[Log]] | None = None
        for log in reversed(self.logs):
            plan = log.plan(key)
            if plan is not None and needed <= plan.configs.keys() | plan.joins.keys():
                if not plan.held:
                    held = plan, log, passed
                    break
                held = held or (plan, log, list(passed))
            if not any(log is named for named in self.applied):
                continue
            others = self._planned_graphs(log) - {graph.hash}
            stale += [(log, other) for other in sorted(others)]
            if not others and any(record.ok for record in self._answers(log, graph.workloads)):
                passed.append(log)
        if held is not None:
            plan, log, passed = held
            if passed:
                self.warn(unused_logs.only_records(passed, log))
            return plan
        # An applied log with records and no plan asks for a search: no plan of others is missed.
        if needed and stale and not passed:
            self.warn(unused_logs.other_networks(stale, graph.hash))
        return None

    def planned_threads(self, graph: ConvGraph) -> tuple[int, ...]:
        """The thread counts that some log has a plan of this graph for, on this CPU."""
        keys = {key for log in self.logs for key in log.plan_keys}
        return tuple(
            sorted({k.threads for k in keys if (k.graph, k.cpu) == (graph.hash, self.cpu)})
        )

    def verdict(self, graph: ConvGraph) -> Verdict | None:
        """The last verdict on this graph, CPU and thread count; ``None`` if it is stale."""
        last = next(iter(reversed(self._verdicts(graph))), None)
        return last if last is not None and is_current(last) else None

    def gained(self, graph: ConvGraph) -> float:
        """How much faster all sessions together made the network; 1 where none did.

        A session that several logs tell of counts once.
        """
        found = dict.fromkeys(filter(is_current, self._verdicts(graph)))
        return prod(verdict.ratio for verdict in found if not verdict.kept)

    def _verdicts(self, graph: ConvGraph) -> list[Verdict]:
        key = PlanKey(graph.hash, self.cpu, self.threads)
        return [
            verdict
            for log in self.logs
            for verdict in log.verdicts
            if (verdict.graph, verdict.cpu, verdict.threads) == key and self._has_features(verdict)
        ]

    def noise(self, workload: Workload) -> float | None:
        """What one more measurement was expected to save when some network settled a workload.

        It is a share of the workload's time; ``None`` where no network settled it.
        """
        return self._noises.get(workload)

    def hints(self, workload: Workload) -> tuple[Config, ...]:
        """Configs to try first: good ones of stale records and of other thread counts."""
        return self.best_records.hints(workload)

    def schemes(self, workloads: Iterable[Workload]) -> dict[Workload, tuple[Record, ...]]:
        """One record for each layout pair, ascending, of each of the workloads that has any."""
        found = {workload: self.best_records.candidates(workload) for workload in workloads}
        return {workload: records for workload, records in found.items() if records}

    def tried(self, workloads: Iterable[Workload]) -> dict[Workload, tuple[Record, ...]]:
        """Every record of each of the workloads that has any, ascending, the failures last.

        Warns if the applied logs hold nothing for the network of these workloads.
        """
        workloads = tuple(workloads)
        found = {workload: self.best_records.all_of(workload) for workload in workloads}
        self._warn_of_useless(workloads)
        return {workload: records for workload, records in found.items() if records}

    def transforms(self, graph: ConvGraph) -> dict[Workload, tuple[Record, ...]]:
        """The records of timed layout transforms whose tensor has the size of one in the graph."""
        shapes = {edge.shape for edge in graph.edges}
        return self.schemes(
            workload
            for workload in self.best_records.recorded
            if isinstance(workload, TransformWorkload) and workload.in_shape in shapes
        )

    def sweeps(self, graph: ConvGraph) -> dict[Workload, tuple[Record, ...]]:
        """The records of timed sweeps that the graph has, in any layout."""
        known = {
            SweepWorkload.of(sweep, NCHW)
            for node in graph.nodes
            for sweep in (*node.sweeps, *node.read_sweeps)
        }
        return self.schemes(
            workload
            for workload in self.best_records.recorded
            if isinstance(workload, SweepWorkload) and replace(workload, block=0) in known
        )

    @cached_property
    def best_records(self) -> BestRecords:
        """The records of this CPU and thread count; warns once of logs with other CPUs' records."""
        for log in self.logs:
            if unused_logs.foreign_cpus(log, self.cpu):
                self.warn(unused_logs.other_cpus(log, self.cpu))
        return BestRecords.of_sources(self.logs, self.cpu, self.threads, self.features)

    @cached_property
    def _noises(self) -> dict[Workload, float]:
        least: dict[Workload, float] = {}
        for log in self.logs:
            for settled in log.settled:
                here = (settled.cpu, settled.threads) == (self.cpu, self.threads)
                if here and self._has_features(settled) and is_current(settled):
                    before = least.get(settled.workload, settled.noise)
                    least[settled.workload] = min(before, settled.noise)
        return least

    def _has_features(self, line: Verdict | Settled) -> bool:
        return not (line.features and self.features) or line.features == self.features

    def _records_in(self, log: Log, workloads: Iterable[Workload]) -> Iterator[Record]:
        """The log's records of these workloads with this CPU and thread count, stale ones too."""
        for workload in dict.fromkeys(workloads):
            for record in log.of(workload):
                if is_for(record, self.cpu, self.threads, self.features):
                    yield record

    def _answers(self, log: Log, workloads: Iterable[Workload]) -> Iterator[Record]:
        """Those of them that are measurements."""
        return filter(is_current, self._records_in(log, workloads))

    def _planned_graphs(self, log: Log) -> set[str]:
        """Hashes of the graphs that the log has plans for, on this CPU and thread count."""
        return {
            key.graph for key in log.plan_keys if (key.cpu, key.threads) == (self.cpu, self.threads)
        }

    def _warn_of_useless(self, workloads: tuple[Workload, ...]) -> None:
        """Warn if no applied log has a record for the workloads, nor a plan of any network.

        :meth:`plan` warns of plans of other networks, :attr:`best_records` of other CPUs' records.
        """
        if not workloads:
            return
        for log in self.applied:
            if self._planned_graphs(log) or any(self._answers(log, workloads)):
                return
        useless = [log for log in self.applied if not unused_logs.foreign_cpus(log, self.cpu)]
        old = [log for log in useless if self._has_hints(log, workloads)]
        if old:
            self.warn(unused_logs.only_stale(old, self.cpu))
        elif useless:
            self.warn(unused_logs.nothing(useless, self.cpu, self.threads))

    def _has_hints(self, log: Log, workloads: Iterable[Workload]) -> bool:
        """Whether the log has stale records of the workloads that could be of this machine."""
        return any(
            record.cpu == self.cpu and record.threads in (self.threads, UNKNOWN_THREADS)
            for workload in workloads
            for record in log.of(workload)
        )


@contextmanager
def apply_history_best(paths: PathLike | Iterable[PathLike]) -> Iterator[tuple[IndexedLog, ...]]:
    """Builds inside the ``with`` read these logs; an inner ``with`` takes precedence.

    It holds for the current thread or asyncio task. Raises LogError for a file that is missing or
    cannot be read; warns of the lines that it skips.
    """
    files = [paths] if isinstance(paths, str | os.PathLike) else paths
    logs = tuple(IndexedLog(path) for path in files)
    token = _APPLIED.set((*_APPLIED.get(), *logs))
    try:
        yield logs
    finally:
        _APPLIED.reset(token)


def applied_logs() -> tuple[Log, ...]:
    """The logs that the current thread or task applies, the innermost last."""
    return _APPLIED.get()


def current_history(cpu: Cpu) -> History:
    """What a build for this CPU on ``cpu.cores`` threads reads now."""
    shipped, named = places.shipped_logs(cpu.name), places.named_logs(cpu.name)
    found = (*shipped, *_user_logs(cpu.name), *named)
    known = all_implementations()
    logs = tuple(_load_once(path, *_stamp(path), known) for path in found)
    applied = _APPLIED.get()
    return History(cpu.name, cpu.cores, (*logs, *applied), applied, cpu.features)


def _user_logs(cpu_name: str) -> tuple[Path, ...]:
    path = places.find_user_log(cpu_name)
    return (path,) if path is not None and os.access(path, os.R_OK) else ()


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _load_once(
    path: Path, modified: int, size: int, known: tuple[Implementation, ...]
) -> IndexedLog:
    """The log, read again when the file changes or when other implementations can read it."""
    return IndexedLog(path)
