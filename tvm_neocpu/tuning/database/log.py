"""The tuning log: an append-only file, safe under several writers, readable after a torn line.

A torn line is one whose writer died in the middle of it. What is read here is read whole; builds
read their part of it (:mod:`.indexed_log`).
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeVar

from tvm_neocpu.core.errors import LineError, LogError
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.verdict import Settled, Verdict
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.storage.file_lock import FileLock
from tvm_neocpu.tuning.database.best_records import RecordTable
from tvm_neocpu.tuning.database.folders.file_lines import (
    append_lines,
    end_lines,
    is_other_file,
    replace_lines,
)
from tvm_neocpu.tuning.database.index.lines import TOO_LONG, read_lines
from tvm_neocpu.tuning.database.lines.plan_lines import (
    PlanAssembler,
    PlanKey,
    encode_plan,
    is_plan_row,
)
from tvm_neocpu.tuning.database.lines.record_lines import encode_record, newer_format, reason_of
from tvm_neocpu.tuning.database.lines.record_reader import RecordReader
from tvm_neocpu.tuning.database.lines.verdict_lines import (
    decode_verdict,
    encode_settled,
    encode_verdict,
)

PathLike = str | os.PathLike[str]
# (where, why): "x.log:3", "not JSON, perhaps torn".
Skipped = tuple[str, str]

# Appending takes microseconds: a process that holds the lock for so long is stopped or dead.
LOCK_SECONDS = 30.0
# Frames that a warning is not blamed on: this room, and what calls it on a caller's behalf.
_OURS = (__name__.rpartition(".")[0], "contextlib", "functools")
# Max number of skipped lines that the one warning for a file names.
MAX_NAMED_LINES = 5


_Line = TypeVar("_Line", Record, Verdict, Settled)


class TuningLogWarning(UserWarning):
    """A part of a tuning log is not used; the text says which part and why."""


@dataclass(frozen=True)
class LogContents:
    """The contents of one or several logs, in order; ``skipped`` lists lines as (where, why).

    ``settled`` has the settled workloads of ``verdicts``, too.
    """

    records: tuple[Record, ...] = ()
    plans: Mapping[PlanKey, Plan] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    paths: tuple[Path, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    settled: tuple[Settled, ...] = ()

    def workloads(self) -> tuple[Workload, ...]:
        """The workloads with any record."""
        return self._table.workloads()

    def of(self, workload: Workload) -> Sequence[Record]:
        """The records of a workload, in order."""
        return self._table.of(workload)

    @cached_property
    def machines(self) -> frozenset[tuple[str, int]]:
        """(CPU, thread count) of the records."""
        return frozenset((record.cpu, record.threads) for record in self.records)

    @property
    def plan_keys(self) -> frozenset[PlanKey]:
        """What there are plans for."""
        return frozenset(self.plans)

    def plan(self, key: PlanKey) -> Plan | None:
        """The newest complete plan of a key."""
        return self.plans.get(key)

    @cached_property
    def _table(self) -> RecordTable:
        return RecordTable(self.records)


class TuningLog:
    """A log file to append to; safe under several writers, processes or threads.

    ``features`` (:attr:`Cpu.features`) are written into what says none itself.
    """

    def __init__(self, path: PathLike, features: str = "") -> None:
        self.path = Path(path)
        self.features = features

    def check_writable(self) -> None:
        """Create the file and its folders; raises LogError now, not after an hour of tuning.

        A file that is no log is refused: lines at its end would damage a model or a photo. So is a
        log of a newer format, of whose lines nothing would be used.
        """
        with self._opened() as handle:
            if is_other_file(handle):
                raise LogError(f"{self.path} is no tuning log: name another file")
            newer = newer_format(end_lines(handle))
        if newer is not None:
            raise LogError(f"{self.path}: {newer}: name another file")

    def append(self, record: Record) -> None:
        """Write one record as one whole line; raises LogError if it cannot.

        A record without a stamp gets today's: this process measured it.
        """
        self._write([encode_record(self._with_features(record))])

    def append_plan(self, plan: Plan, graph: ConvGraph, cpu: str, threads: int) -> None:
        """Write the plan found for the graph; raises PlanError if the plan is for another graph."""
        self._write(encode_plan(plan, graph, cpu, threads, time.time()))

    def append_verdict(self, verdict: Verdict) -> None:
        """Write what the comparison of the whole network said."""
        self._write([encode_verdict(self._with_features(verdict))])

    def append_settled(self, settled: Settled) -> None:
        """Write that a workload needs no more measurements."""
        self._write([encode_settled(self._with_features(settled))])

    def append_lines(self, lines: Sequence[str]) -> None:
        """Write lines of another log as they are."""
        if lines:
            self._write(list(lines))

    def rewrite(self, kept: Callable[[BinaryIO], Iterable[bytes]]) -> None:
        """Replace the log by the lines that ``kept`` yields of it, all or nothing.

        Writers wait meanwhile, readers see the old file or the new one. Raises LogError.
        """
        with self._opened() as handle:
            replace_lines(self.path, handle, kept)

    def load(self) -> LogContents:
        """The log's contents; empty if the file does not exist yet."""
        return load_log(self.path) if self.path.exists() else LogContents()

    def _with_features(self, line: _Line) -> _Line:
        return line if line.features else replace(line, features=self.features)

    def _write(self, lines: list[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        with self._opened() as handle:
            append_lines(handle, data)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        # A hidden file beside the log, so that readers never wait.
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not lock.acquire(LOCK_SECONDS):
                text = f"{self.path} has been locked by another process for {LOCK_SECONDS:.0f} s"
                raise LogError(text)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                yield handle
            finally:
                os.close(handle)
        except OSError as error:
            reason = error.strerror or error
            raise LogError(f"cannot write the tuning log {self.path}: {reason}") from error
        finally:
            lock.release()


def load_log(paths: PathLike | Iterable[PathLike]) -> LogContents:
    """Read one log, or several in the order given.

    Torn and foreign lines are skipped; one TuningLogWarning for each file names them. Raises
    LogError for a file that is missing or cannot be read.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    files = tuple(Path(path) for path in paths)
    reader = _Reader()
    for path in files:
        warn_of_skipped(reader.read(path))
    return LogContents(
        tuple(reader.records),
        reader.plans,
        tuple(reader.skipped),
        files,
        tuple(reader.verdicts),
        tuple(reader.settled),
    )


class _Reader:
    """What was read so far."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.plans: dict[PlanKey, Plan] = {}
        self.verdicts: list[Verdict] = []
        self.settled: list[Settled] = []
        self.skipped: list[Skipped] = []
        self._lines = RecordReader()

    def read(self, path: Path) -> list[Skipped]:
        """Take in a file; returns what it skips of it. Raises LogError."""
        assembler = PlanAssembler()
        try:
            unread = [*self._read_lines(path, assembler), *assembler.torn()]
        except OSError as error:
            reason = error.strerror or error
            raise LogError(f"cannot read the tuning log {path}: {reason}") from error
        found = assembler.plans()
        self.plans |= {k: p for k, p in found.items() if not (p.held and k in self.plans)}
        self.skipped += unread
        return unread

    def _read_lines(self, path: Path, assembler: PlanAssembler) -> Iterator[Skipped]:
        with path.open("rb") as file:
            for number, (line, _) in enumerate(read_lines(file), 1):
                where = f"{path}:{number}"
                try:
                    self._read_line(line, where, assembler)
                except LineError as error:
                    yield where, reason_of(error)

    def _read_line(self, line: bytes, where: str, assembler: PlanAssembler) -> None:
        if not line:
            raise LineError(TOO_LONG)
        found = self._lines.read(line)
        if isinstance(found, Record):
            self.records.append(found)
        elif found is not None and is_plan_row(found):
            assembler.add(found, where)
        elif found is not None:
            verdict, settled = decode_verdict(found)
            self.verdicts += [verdict] if verdict else []
            self.settled += settled


def warn_of_skipped(lines: Sequence[Skipped]) -> None:
    """One TuningLogWarning for skipped lines, blamed on the caller of this package."""
    if not lines:
        return
    named = "; ".join(f"{where}: {why}" for where, why in lines[:MAX_NAMED_LINES])
    more = len(lines) - MAX_NAMED_LINES
    tail = f"; and {more} more" if more > 0 else ""
    warnings.warn(f"skipped {named}{tail}", TuningLogWarning, stacklevel=_level_outside())


def _level_outside() -> int:
    """The stack level, seen from this function's caller, of the first frame outside this room."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(_OURS):
        level, frame = level + 1, frame.f_back
    return level
