"""A log without what no build and no search needs any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from tvm_neocpu.core.errors import LineError, LogError
from tvm_neocpu.tuning.database.index.lines import read_lines
from tvm_neocpu.tuning.database.lines.plan_lines import is_plan_row
from tvm_neocpu.tuning.database.lines.record_lines import decode_record, is_hint_row, parse_line
from tvm_neocpu.tuning.database.lines.staleness import why_stale
from tvm_neocpu.tuning.database.lines.verdict_lines import is_verdict_row
from tvm_neocpu.tuning.database.log import TuningLog

# Why a line goes.
TORN, FAILED, STALE, DUPLICATE = "torn", "failed", "stale", "duplicate"
REASONS = (STALE, DUPLICATE, FAILED, TORN)
# A blank line or a comment, which stays.
SAYS_NOTHING = "says nothing"


@dataclass
class Pruned:
    """How many lines were kept, and how many were dropped for each of :data:`REASONS`."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


def prune_log(log: TuningLog) -> Pruned:
    """Drop stale, duplicate and failed records and torn lines; replace the log as a whole.

    Plans, verdicts, settled workloads, imported hints and comments stay, and so does what may be a
    record of a template that nobody registered here. Of several records of one config on one
    machine the last one stays. Builds and writers never see a part of it. Raises LogError, also for
    a file without any line of a log, which stays as it is.
    """
    found = Pruned()

    def kept(file: BinaryIO) -> Iterator[bytes]:
        judged = [_judge(line) for line, _ in read_lines(file)]
        reasons = {reason for reason, _ in judged}
        if TORN in reasons and reasons <= {TORN, SAYS_NOTHING}:
            raise LogError(f"{log.path} is no tuning log: nothing was changed")
        last = {key: number for number, (_, key) in enumerate(judged) if key is not None}
        file.seek(0)
        for number, (line, _) in enumerate(read_lines(file)):
            reason, key = judged[number]
            if reason is None and key is not None and last[key] != number:
                reason = DUPLICATE
            if reason in REASONS:
                found.dropped[reason] += 1
                continue
            found.kept += 1
            yield line if line.endswith(b"\n") else line + b"\n"

    log.rewrite(kept)
    return found


def _judge(line: bytes) -> tuple[str | None, Hashable]:
    """(why a line goes whatever else is there, the key by which it may be a duplicate).

    The first one is :data:`SAYS_NOTHING` for a line that stays and is no line of a log.
    """
    if not line:
        return TORN, None  # too long for a line of ours
    try:
        row = parse_line(line)
    except LineError:
        return TORN, None
    if row is None:
        return SAYS_NOTHING, None
    try:
        if is_plan_row(row) or is_verdict_row(row):
            return None, None
        record = decode_record(row)
        hint = is_hint_row(row)
    except LineError:
        return None, None
    machine = (record.cpu, record.features, record.threads, record.protocol)
    key = (record.workload, record.config, machine, hint)
    if hint:
        return None, key
    if not record.ok:
        return FAILED, None
    return (None, key) if why_stale(record) is None else (STALE, None)
