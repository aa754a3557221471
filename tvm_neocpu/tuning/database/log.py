"""The tuning log: an append-only file, safe under several writers, readable after a torn line.

A torn line is one whose writer died in the middle of it.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.errors import LineError, LogError
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Record
from tvm_neocpu.tuning.database.plan_lines import PlanAssembler, PlanKey, encode_plan, is_plan_row
from tvm_neocpu.tuning.database.record_lines import decode_record, encode_record, parse_row

PathLike = str | os.PathLike[str]

# Appending takes microseconds: a process that holds the lock for so long is stopped or dead.
LOCK_SECONDS = 30.0
# Max number of skipped lines that the one warning for a file names.
MAX_NAMED_LINES = 5


class TuningLogWarning(UserWarning):
    """A part of a tuning log is not used; the text says which part and why."""


@dataclass(frozen=True)
class LogContents:
    """The contents of one or several logs, in order; ``skipped`` lists lines as (where, why)."""

    records: tuple[Record, ...] = ()
    plans: Mapping[PlanKey, Plan] = field(default_factory=dict)
    skipped: tuple[tuple[str, str], ...] = ()
    paths: tuple[Path, ...] = ()


class TuningLog:
    """A log file to append to; safe under several writers, processes or threads."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        # The lock is a hidden file beside the log, so that readers never wait.
        lock = self.path.with_name(f".{self.path.name}.lock")
        self._lock = FileLock(lock, timeout=LOCK_SECONDS)

    def check_writable(self) -> None:
        """Create the file and its folders; raises LogError now, not after an hour of tuning."""
        with self._opened():
            pass

    def append(self, record: Record) -> None:
        """Write one record as one whole line; raises LogError if it cannot."""
        self._write([encode_record(record)])

    def append_plan(self, plan: Plan, graph: ConvGraph, cpu: str, threads: int) -> None:
        """Write the plan found for the graph; raises PlanError if the plan is for another graph."""
        self._write(encode_plan(plan, graph, cpu, threads, time.time()))

    def load(self) -> LogContents:
        """The log's contents; empty if the file does not exist yet."""
        return load_log(self.path) if self.path.exists() else LogContents()

    def _write(self, lines: list[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        with self._opened() as handle:
            if _is_torn(handle):
                data = b"\n" + data
            # A single write to a file opened for appending: a reader sees all of it or nothing.
            if os.write(handle, data) != len(data):
                raise LogError(f"{self.path}: the disk is full, the last record was cut off")

    @contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock:
                handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
                try:
                    yield handle
                finally:
                    os.close(handle)
        except Timeout:
            text = f"{self.path} has been locked by another process for {LOCK_SECONDS:.0f} s"
            raise LogError(text) from None
        except OSError as error:
            reason = error.strerror or error
            raise LogError(f"cannot write the tuning log {self.path}: {reason}") from error


def load_log(paths: PathLike | Iterable[PathLike]) -> LogContents:
    """Read one log, or several in the order given.

    Torn and foreign lines are skipped; one TuningLogWarning for each file names them. Raises
    LogError for a file that is missing or cannot be read.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    files = tuple(Path(path) for path in paths)
    records: list[Record] = []
    skipped: list[tuple[str, str]] = []
    plans: dict[PlanKey, Plan] = {}
    for path in files:
        assembler = PlanAssembler()
        unread = list(_read_lines(path, records, assembler)) + assembler.torn()
        plans |= assembler.plans()
        skipped += unread
        _warn(unread)
    return LogContents(tuple(records), plans, tuple(skipped), files)


def _read_lines(
    path: Path, records: list[Record], assembler: PlanAssembler
) -> Iterator[tuple[str, str]]:
    """Fill ``records`` and ``assembler``; yield (where, why) for every skipped line."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                where = f"{path}:{number}"
                try:
                    _read_line(line, where, records, assembler)
                except LineError as error:
                    yield where, str(error)
    except OSError as error:
        reason = error.strerror or error
        raise LogError(f"cannot read the tuning log {path}: {reason}") from error


def _read_line(line: bytes, where: str, records: list[Record], assembler: PlanAssembler) -> None:
    line = line.strip()
    if not line or line.startswith(b"#"):
        return
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise LineError("not UTF-8 text") from None
    row = parse_row(text)
    if is_plan_row(row):
        assembler.add(row, where)
    else:
        records.append(decode_record(row))


def _warn(unread: list[tuple[str, str]]) -> None:
    if not unread:
        return
    named = "; ".join(f"{where}: {why}" for where, why in unread[:MAX_NAMED_LINES])
    more = len(unread) - MAX_NAMED_LINES
    tail = f"; and {more} more" if more > 0 else ""
    # stacklevel 3 is the caller of load_log.
    warnings.warn(f"skipped {named}{tail}", TuningLogWarning, stacklevel=3)


def _is_torn(handle: int) -> bool:
    """Whether the last line lacks its end, because its writer died."""
    if os.fstat(handle).st_size == 0:
        return False
    os.lseek(handle, -1, os.SEEK_END)
    return os.read(handle, 1) != b"\n"
