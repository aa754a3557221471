"""Which logs a build consumes: those shipped for the CPU, then those the user applies.

    with apply_history_best("resnet50.log"):
        lib = relay.build(...)

Of several logs the last applied, that is the innermost, takes precedence.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.database.best_records import BestRecords
from tvm_neocpu.tuning.database.log import LogContents, PathLike, TuningLogWarning, load_log
from tvm_neocpu.tuning.database.plan_lines import PlanKey

# Folders laid out as ``tuning_logs/`` is, ``<cpu>/*.log``; separated as ``PATH`` is.
LOGS_VARIABLE = "TVM_NEOCPU_LOGS"

_PACKAGE = Path(__file__).resolve().parents[2]
_APPLIED: ContextVar[tuple[LogContents, ...]] = ContextVar("applied_logs", default=())


@dataclass(frozen=True)
class History:
    """What logs know for one CPU and thread count; of ``logs``, later ones take precedence.

    ``applied`` are those of them that the user named. Shipped logs are of many networks; a log that
    was named is meant for this one, so a plan in it for another graph is worth a warning.
    """

    cpu: str
    threads: int
    logs: tuple[LogContents, ...] = ()
    applied: tuple[LogContents, ...] = ()

    def plan(self, graph: ConvGraph) -> Plan | None:
        """The plan logged for exactly this graph, CPU and thread count, if nothing is newer.

        A log without a plan, but with records of the graph, asks for a search over them: it is
        preferred to the plan of a log before it. Warns of an applied log whose plans are for other
        graphs only (the network changed since), if no plan is found.
        """
        key = PlanKey(graph.hash, self.cpu, self.threads)
        needed = {node.id for node in graph.convs} | graph.joins
        workloads = set(graph.workloads)
        refused: list[LogContents] = []
        for log in reversed(self.logs):
            plan = log.plans.get(key)
            if plan is not None and needed <= plan.configs.keys() | plan.joins.keys():
                return plan
            if plan is None and any(log is named for named in self.applied):
                refused.append(log)
            if any(r.cpu == self.cpu and r.ok and r.workload in workloads for r in log.records):
                break
        if needed:
            self._warn_of_stale(refused, graph.hash)
        return None

    def schemes(self, workloads: Iterable[Workload]) -> dict[Workload, tuple[Record, ...]]:
        """One record per layout pair, ascending, for each of the workloads that has any."""
        found = {workload: self.best_records.candidates(workload) for workload in workloads}
        return {workload: records for workload, records in found.items() if records}

    def tried(self, workloads: Iterable[Workload]) -> dict[Workload, tuple[Record, ...]]:
        """Every record of the workloads that have any, ascending, what failed last."""
        found = {workload: self.best_records.all_of(workload) for workload in workloads}
        return {workload: records for workload, records in found.items() if records}

    def transforms(self, graph: ConvGraph) -> dict[Workload, tuple[Record, ...]]:
        """The records of every timed layout transform of a tensor as large as one of the graph."""
        shapes = {edge.shape for edge in graph.edges}
        return self.schemes(
            workload
            for workload in self.best_records.attempted
            if isinstance(workload, TransformWorkload) and workload.in_shape in shapes
        )

    @cached_property
    def best_records(self) -> BestRecords:
        """All records of this CPU; warns once of those that are not."""
        records = (record for log in self.logs for record in log.records)
        best = BestRecords(records, self.cpu, self.threads)
        for log in self.logs:
            self._warn_of_foreign(log)
        return best

    def _warn_of_stale(self, refused: Iterable[LogContents], wanted: str) -> None:
        mine = (self.cpu, self.threads)
        stale = [(log, k.graph) for log in refused for k in log.plans if (k.cpu, k.threads) == mine]
        if not stale:
            return
        paths = dict.fromkeys(str(path) for log, _ in stale for path in log.paths)
        hashes = ", ".join(dict.fromkeys(found for _, found in stale))
        text = f"the log's plan is for another network (hash {hashes}, this one is {wanted})"
        where = f"{', '.join(paths)}: " if paths else ""
        warnings.warn(f"{where}{text}: using the best records", TuningLogWarning, stacklevel=4)

    def _warn_of_foreign(self, log: LogContents) -> None:
        others = sorted({record.cpu for record in log.records} - {self.cpu})
        if not others:
            return
        cpus = ", ".join(cpu or "an unnamed CPU (no -mcpu)" for cpu in others)
        paths = ", ".join(map(str, log.paths)) or "log"
        text = f"{paths} was measured on {cpus}, this target is {self.cpu}: ignored"
        warnings.warn(text, TuningLogWarning, stacklevel=5)


@contextmanager
def apply_history_best(paths: PathLike | Iterable[PathLike]) -> Iterator[LogContents]:
    """Builds inside consume these logs, in this thread or task; an inner one takes precedence.

    Raises LogError for a file that is missing or cannot be read; warns of lines it skips.
    """
    contents = load_log(paths)
    token = _APPLIED.set((*_APPLIED.get(), contents))
    try:
        yield contents
    finally:
        _APPLIED.reset(token)


def current_history(cpu: Cpu) -> History:
    """What a build for this CPU, on ``cpu.cores`` threads, may consume now."""
    shipped = tuple(_load_once(path, *_stamp(path)) for path in shipped_logs(cpu.name))
    applied = _APPLIED.get()
    return History(cpu.name, cpu.cores, (*shipped, *applied), applied)


def shipped_logs(cpu_name: str) -> tuple[Path, ...]:
    """Logs found by the CPU's name, the least specific first.

    They come with an installed wheel, lie in a source checkout, or in ``TVM_NEOCPU_LOGS``.
    """
    if not cpu_name or Path(cpu_name).name != cpu_name:
        return ()
    extra = os.environ.get(LOGS_VARIABLE, "").split(os.pathsep)
    roots = [_PACKAGE / "_tuning_logs", _PACKAGE.parent / "tuning_logs"]
    roots += [Path(folder) for folder in extra if folder]
    return tuple(path for root in roots for path in sorted((root / cpu_name).glob("*.log")))


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _load_once(path: Path, modified: int, size: int) -> LogContents:
    return load_log(path)
