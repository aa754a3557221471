"""Hints from logs of AutoTVM and TopHub: candidates that the search tries first."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record, Stamp
from tvm_neocpu.topi.table import fits
from tvm_neocpu.tuning.database.best_records import UNKNOWN_THREADS, RecordTable
from tvm_neocpu.tuning.database.lines.record_lines import encode_hint
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning, load_log

# Max candidates of a workload: an AutoTVM session leaves a thousand, and the best are alike.
TOP = 16


@dataclass(frozen=True)
class Imported:
    """Candidates added, those that the log had already, those that do not fit here, and lines that
    hold no record of our templates.
    """

    added: int
    known: int
    unfit: int
    skipped: int


def import_hints(log: TuningLog, paths: Sequence[Path], cpu: Cpu, top: int = TOP) -> Imported:
    """Append the fastest ``top`` configs of each workload as hints for this CPU.

    Their times were taken by another template, often on another CPU, so that they count as
    candidates only. Raises LogError for a log that cannot be read or written.
    """
    log.check_writable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)  # most of TopHub's lines are not ours
        found, have = load_log(paths), log.load()
    known = unfit = 0
    lines: list[str] = []
    table = RecordTable(found.records)
    for workload in table.workloads():
        taken = {record.config for record in have.of(workload)}
        for record in _fastest(table.of(workload), top):
            if record.config in taken:
                known += 1
            elif not fits(workload, record.config, cpu):
                unfit += 1
            else:
                lines.append(encode_hint(_hint(record, cpu), record.cpu))
    log.append_lines(lines)
    return Imported(len(lines), known, unfit, len(found.skipped))


def _fastest(records: Sequence[Record], top: int) -> list[Record]:
    """The best record of each of the ``top`` fastest configs, ascending."""
    best: dict[Config, Record] = {}
    for record in sorted((r for r in records if r.ok), key=lambda record: record.seconds):
        best.setdefault(record.config, record)
    return list(best.values())[:top]


def _hint(record: Record, cpu: Cpu) -> Record:
    stamp = Stamp(tvm=record.stamp.tvm if record.stamp else "")
    return replace(record, cpu=cpu.name, threads=UNKNOWN_THREADS, features="", stamp=stamp)
