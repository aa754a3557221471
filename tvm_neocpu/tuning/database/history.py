"""Which logs a build reads: those shipped for the CPU, then those that the user applies.

    with apply_history_best("resnet50.log"):
        lib = relay.build(...)

Of several applied logs the innermost takes precedence.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.table import all_implementations
from tvm_neocpu.tuning.database.best_records import (
    UNKNOWN_THREADS,
    BestRecords,
    answers_for,
)
from tvm_neocpu.tuning.database.log import LogContents, PathLike, TuningLogWarning, load_log
from tvm_neocpu.tuning.database.plan_lines import PlanKey

# The variable lists folders, separated as in PATH; each has files <cpu>/*.log, as tuning_logs/ has.
LOGS_VARIABLE = "TVM_NEOCPU_LOGS"

_PACKAGE = Path(__file__).resolve().parents[2]
_APPLIED: ContextVar[tuple[LogContents, ...]] = ContextVar("applied_logs", default=())


@dataclass(frozen=True)
class History:
    """What logs know for one CPU and thread count; later ones of ``logs`` take precedence.

    ``applied`` are those of ``logs`` that the user named. Each of them is expected to serve the
    network at hand, and :class:`TuningLogWarning` says when none does. Shipped logs serve many
    networks, so that a shipped log without use is no reason to warn.
    """

    cpu: str
    threads: int
    logs: tuple[LogContents, ...] = ()
    applied: tuple[LogContents, ...] = ()
    _warned: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def plan(self, graph: ConvGraph) -> Plan | None:
        """The plan logged for exactly this graph, CPU and thread count.

        Plans come before records: a plan knows the network, a record only a layer that other
        networks have too (ResNet-50's log has records of layers of ResNet-18). So all logs are
        asked for the plan, the last log first, with one exception: an applied log that has records
        of the graph's layers and no plan of any network asks for a search over its records. The
        user tuned or measured after the plans of the logs before it, so these do not count.

        If there is no plan, it warns of applied logs whose plans are for other graphs only: the
        network has changed since, or the log is another network's.
        """
        key = PlanKey(graph.hash, self.cpu, self.threads)
        needed = {node.id for node in graph.convs} | graph.joins
        stale: list[tuple[LogContents, str]] = []
        for log in reversed(self.logs):
            plan = log.plans.get(key)
            if plan is not None and needed <= plan.configs.keys() | plan.joins.keys():
                return plan
            if not any(log is named for named in self.applied):
                continue
            others = self._planned_graphs(log) - {graph.hash}
            stale += [(log, other) for other in sorted(others)]
            if not others and any(record.ok for record in self._answers(log, graph.workloads)):
                break
        if needed and stale:
            self._warn_of_stale(stale, graph.hash)
        return None

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
            for workload in self.best_records.attempted
            if isinstance(workload, TransformWorkload) and workload.in_shape in shapes
        )

    @cached_property
    def best_records(self) -> BestRecords:
        """The records of this CPU and thread count; warns once of logs with other CPUs' records."""
        records = (record for log in self.logs for record in log.records)
        best = BestRecords(records, self.cpu, self.threads)
        for log in self.logs:
            self._warn_of_foreign(log)
        return best

    def _answers(self, log: LogContents, workloads: Iterable[Workload]) -> Iterator[Record]:
        """The log's records of these workloads that count for this CPU and thread count."""
        wanted = set(workloads)
        for record in log.records:
            if record.workload in wanted and answers_for(record, self.cpu, self.threads):
                yield record

    def _planned_graphs(self, log: LogContents) -> set[str]:
        """Hashes of the graphs that the log has plans for, on this CPU and thread count."""
        return {
            key.graph for key in log.plans if (key.cpu, key.threads) == (self.cpu, self.threads)
        }

    def _warn_of_stale(self, stale: Iterable[tuple[LogContents, str]], wanted: str) -> None:
        paths = _paths_text(log for log, _ in stale)
        hashes = ", ".join(dict.fromkeys(found for _, found in stale))
        text = f"the log's plan is for another network (hash {hashes}, this one is {wanted})"
        self._warn(f"{paths}: {text}: searching over what is known")

    def _warn_of_useless(self, workloads: tuple[Workload, ...]) -> None:
        """Warn if no applied log has a record for the workloads, nor a plan of any network.

        :meth:`plan` warns of plans of other networks, :meth:`_warn_of_foreign` of other CPUs.
        """
        if not workloads:
            return
        for log in self.applied:
            if self._planned_graphs(log) or any(self._answers(log, workloads)):
                return
        useless = [log for log in self.applied if not self._foreign_cpus(log)]
        if not useless:
            return
        counts = sorted({count for log in useless for count in self._other_thread_counts(log)})
        only = f", only at {', '.join(map(str, counts))}" if counts else ""
        what = f"nothing for this network on {self.cpu} at thread count {self.threads}{only}"
        self._warn(f"{_paths_text(useless)} holds {what}: ignored")

    def _warn_of_foreign(self, log: LogContents) -> None:
        others = self._foreign_cpus(log)
        if not others:
            return
        cpus = ", ".join(cpu or "an unnamed CPU (no -mcpu)" for cpu in others)
        self._warn(
            f"{_paths_text([log])} was measured on {cpus}, this target is {self.cpu}: ignored"
        )

    def _foreign_cpus(self, log: LogContents) -> list[str]:
        return sorted({record.cpu for record in log.records} - {self.cpu})

    def _other_thread_counts(self, log: LogContents) -> set[int]:
        of_records = {record.threads for record in log.records if record.cpu == self.cpu}
        of_plans = {key.threads for key in log.plans if key.cpu == self.cpu}
        return (of_records | of_plans) - {self.threads, UNKNOWN_THREADS}

    def _warn(self, text: str) -> None:
        """Warn once for each text: a build asks a history several times."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, TuningLogWarning, stacklevel=5)


def _paths_text(logs: Iterable[LogContents]) -> str:
    """The logs' files, comma-separated; ``"the log"`` for contents that no file holds."""
    return ", ".join(dict.fromkeys(str(path) for log in logs for path in log.paths)) or "the log"


@contextmanager
def apply_history_best(paths: PathLike | Iterable[PathLike]) -> Iterator[LogContents]:
    """Builds inside the ``with`` read these logs; an inner ``with`` takes precedence.

    It holds for the current thread or asyncio task. Raises LogError for a file that is missing or
    cannot be read; warns of the lines that it skips.
    """
    contents = load_log(paths)
    token = _APPLIED.set((*_APPLIED.get(), contents))
    try:
        yield contents
    finally:
        _APPLIED.reset(token)


def applied_logs() -> tuple[LogContents, ...]:
    """The logs that the current thread or task applies, the innermost last."""
    return _APPLIED.get()


def current_history(cpu: Cpu) -> History:
    """What a build for this CPU on ``cpu.cores`` threads reads now."""
    known = all_implementations()
    shipped = tuple(_load_once(path, *_stamp(path), known) for path in shipped_logs(cpu.name))
    applied = _APPLIED.get()
    return History(cpu.name, cpu.cores, (*shipped, *applied), applied)


def shipped_logs(cpu_name: str) -> tuple[Path, ...]:
    """The logs for a CPU's name: those in the wheel, in a checkout, in ``TVM_NEOCPU_LOGS``.

    Later ones take precedence. Warns of a folder that is not there.
    """
    if cpu_name in ("", "..") or Path(cpu_name).name != cpu_name:
        return ()
    extra = [Path(each) for each in os.environ.get(LOGS_VARIABLE, "").split(os.pathsep) if each]
    for folder in extra:
        if not folder.is_dir():
            text = f"{LOGS_VARIABLE} names {folder}, which is no folder: ignored"
            warnings.warn(text, TuningLogWarning, stacklevel=3)
    roots = [_PACKAGE / "_tuning_logs", _PACKAGE.parent / "tuning_logs", *extra]
    return tuple(path for root in roots for path in sorted((root / cpu_name).glob("*.log")))


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _load_once(
    path: Path, modified: int, size: int, known: tuple[Implementation, ...]
) -> LogContents:
    """The log, read again when the file changes or when other implementations can read it."""
    return load_log(path)
