"""A log that parses what it is asked for: the lines of a workload, of a plan, the verdicts."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import NamedTuple, TypeVar

import numpy as np

from tvm_neocpu.core.errors import LineError, LogError
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.verdict import Settled, Verdict
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.database.index.index_file import index_of
from tvm_neocpu.tuning.database.index.scan import SKIPPED, LogIndex
from tvm_neocpu.tuning.database.lines.plan_lines import PlanAssembler, PlanKey
from tvm_neocpu.tuning.database.lines.record_lines import (
    Row,
    cpu_of,
    list_of,
    ours_of,
    parse_line,
    reason_of,
    template_of,
    threads_of,
)
from tvm_neocpu.tuning.database.lines.record_reader import RecordReader
from tvm_neocpu.tuning.database.lines.task_args import decode_workload
from tvm_neocpu.tuning.database.lines.verdict_lines import decode_verdict
from tvm_neocpu.tuning.database.log import PathLike, Skipped, warn_of_skipped

_Value = TypeVar("_Value")


class _Subject(NamedTuple):
    """What the lines of one text are about, if they are records."""

    workload: Workload
    machine: tuple[str, int]


class IndexedLog:
    """One log as it is now; lines that are appended or replaced later do not count.

    Lines that cannot be read are skipped with a TuningLogWarning: those that the index knows at
    once, others when somebody asks for them. The file stays open, so that a log which is replaced
    meanwhile (``records prune``) reads as it was. Safe in several threads. Raises LogError for a
    file that cannot be read.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.paths = (self.path,)
        self.skipped: list[Skipped] = []
        self._lock = RLock()
        self._reader = RecordReader()
        self._read: dict[Workload, tuple[Record, ...]] = {}
        self._plans: dict[PlanKey, Plan | None] = {}
        # The places in the index's texts of each kind of line.
        self._subjects: dict[int, _Subject] = {}
        self._of_plans: dict[PlanKey, list[int]] = {}
        self._of_verdicts: list[int] = []
        try:
            with self.path.open("rb") as file:
                self._index: LogIndex = index_of(self.path, file)
                self._handle = os.dup(file.fileno())
        except OSError as error:
            reason = error.strerror or error
            raise LogError(f"cannot read the tuning log {self.path}: {reason}") from error
        weakref.finalize(self, os.close, self._handle)
        self._read_texts()

    def workloads(self) -> tuple[Workload, ...]:
        """The workloads with any record."""
        return tuple(self._of_records)

    @cached_property
    def machines(self) -> frozenset[tuple[str, int]]:
        """(CPU, thread count) of its records."""
        return frozenset(subject.machine for subject in self._subjects.values())

    def of(self, workload: Workload) -> tuple[Record, ...]:
        """The records of a workload, in the log's order."""
        with self._lock:
            if workload not in self._read:
                places = self._of_records.get(workload, [])
                found = self._each(places, lambda line, _: self._reader.read(line))
                records = (record for record in found if isinstance(record, Record))
                self._read[workload] = tuple(r for r in records if r.workload == workload)
            return self._read[workload]

    def counts(self) -> dict[tuple[Workload, str, int], int]:
        """(workload, CPU, thread count) -> its lines of records; none of them is parsed."""
        lines = np.bincount(self._index.about, minlength=len(self._index.texts))
        found: dict[tuple[Workload, str, int], int] = {}
        for place, subject in self._subjects.items():
            key = (subject.workload, *subject.machine)
            found[key] = found.get(key, 0) + int(lines[place])
        return found

    @property
    def records(self) -> tuple[Record, ...]:
        """All of them, by workload."""
        return tuple(record for workload in self.workloads() for record in self.of(workload))

    @property
    def plan_keys(self) -> frozenset[PlanKey]:
        """What it has lines of plans for; a plan that lacks lines counts too."""
        return frozenset(self._of_plans)

    def plan(self, key: PlanKey) -> Plan | None:
        """The newest complete plan of a key."""
        with self._lock:
            if key not in self._plans:
                assembler = PlanAssembler()
                self._each(
                    self._of_plans.get(key, []),
                    lambda line, where: assembler.add(_row(line), where),
                )
                self._skip(assembler.torn())
                self._plans[key] = assembler.plans().get(key)
            return self._plans[key]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """In the log's order."""
        return tuple(verdict for verdict, _ in self._judged if verdict is not None)

    @property
    def settled(self) -> tuple[Settled, ...]:
        """Settled workloads, alone and of verdicts, in the log's order."""
        return tuple(each for _, settled in self._judged for each in settled)

    @cached_property
    def _judged(self) -> list[tuple[Verdict | None, tuple[Settled, ...]]]:
        return self._each(self._of_verdicts, lambda line, _: decode_verdict(_row(line)))

    @cached_property
    def _of_records(self) -> dict[Workload, list[int]]:
        found: dict[Workload, list[int]] = {}
        for place, subject in self._subjects.items():
            found.setdefault(subject.workload, []).append(place)
        return found

    def _read_texts(self) -> None:
        """Sort the texts by what they are about; skip the lines of those that cannot be read."""
        unread: dict[int, str] = {}
        for place, text in enumerate(self._index.texts):
            if text.startswith(SKIPPED):
                unread[place] = text.removeprefix(SKIPPED)
            elif text:
                try:
                    self._sort_in(place, json.loads(text))
                except LineError as error:
                    unread[place] = reason_of(error)
        numbers = self._numbers(unread)
        about = self._index.about
        self._skip([(self._where(number), unread[int(about[number])]) for number in numbers])

    def _sort_in(self, place: int, about: Row) -> None:
        if "plan" in about:
            self._of_plans.setdefault(PlanKey(*about["plan"]), []).append(place)
        elif "verdict" in about:
            self._of_verdicts.append(place)
        else:
            target, task, args, _ = list_of(about, "input", 4)
            ours = ours_of(about)
            workload = decode_workload(template_of(task), args, ours)
            machine = (cpu_of(target, ours), threads_of(ours))
            self._subjects[place] = _Subject(workload, machine)

    def _each(self, places: Iterable[int], read: Callable[[bytes, str], _Value]) -> list[_Value]:
        """``read(line, where)`` of each line about these texts, in order; bad lines are skipped."""
        values: list[_Value] = []
        skipped: list[Skipped] = []
        for number in self._numbers(places):
            where = self._where(number)
            try:
                values.append(read(self._line(number), where))
            except LineError as error:
                skipped.append((where, reason_of(error)))
        self._skip(skipped)
        return values

    def _numbers(self, places: Iterable[int]) -> list[int]:
        """The lines, from 0 on, that are about one of these texts."""
        order, starts = self._grouped
        found = [order[starts[place] : starts[place + 1]] for place in places]
        return sorted(np.concatenate(found).tolist()) if found else []

    @cached_property
    def _grouped(self) -> tuple[np.ndarray, np.ndarray]:
        """(lines ordered by text, where each text's lines begin in that order)."""
        about = self._index.about
        order = np.argsort(about, kind="stable")
        return order, np.searchsorted(about[order], np.arange(len(self._index.texts) + 1))

    def _line(self, number: int) -> bytes:
        begin, end = self._index.offsets[number : number + 2].tolist()
        return os.pread(self._handle, end - begin, begin)

    def _where(self, number: int) -> str:
        return f"{self.path}:{number + 1}"

    def _skip(self, lines: list[Skipped]) -> None:
        self.skipped += lines
        warn_of_skipped(lines)


def _row(line: bytes) -> Row:
    row = parse_line(line)
    if row is None:
        raise LineError("it is blank")
    return row
