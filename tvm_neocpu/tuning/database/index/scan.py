"""What each line of a log is about, found without parsing most of them.

Lines of one workload, CPU and session begin and end with the same bytes and differ in between:

    {"input": [...], "config": {...}, "result": [...], "version": 0.2, "tvm_version": ..., "neocpu": {...}}
    ^^^^^^^^^^^^^^^^ beginning                                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ end

Each pair of beginning and end is parsed once; a dictionary knows it from then on. Where a line is
not of this form (AutoTVM's, a torn one) all of it is parsed. What a line is *about* is a text:

    {"input": ..., "tvm_version": ..., "neocpu": ...}    a record, without config and result
    {"plan": [graph, cpu, threads]}                      a line of a plan
    {"verdict": null}                                    a verdict, or settled workloads
    !not JSON, perhaps torn                              a line to skip, and why
    (empty)                                              a blank line or a comment

It claims nothing: whoever takes a line parses all of it and believes that alone.
"""  # noqa: E501  (the sketch is one line of a log)

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.tuning.database.index.lines import TOO_LONG, read_lines
from tvm_neocpu.tuning.database.lines.plan_lines import is_plan_row, plan_key
from tvm_neocpu.tuning.database.lines.record_lines import Row, ours_of, parse_line, reason_of
from tvm_neocpu.tuning.database.lines.verdict_lines import is_verdict_row

SKIPPED = "!"
_VERDICT = json.dumps({"verdict": None})


@dataclass(frozen=True)
class LogIndex:
    """``offsets`` are where each line begins, and at the end where the last one ends (bytes).

    ``about[k]`` is the place in ``texts`` of what line ``k`` is about.
    """

    offsets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    about: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    texts: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        """Bytes of the file that it covers."""
        return int(self.offsets[-1])


def scan(file: BinaryIO, known: LogIndex | None = None) -> LogIndex:
    """The index of a file, from the end of what is ``known`` of it."""
    known = known or LogIndex()
    ids = {text: at for at, text in enumerate(known.texts)}
    offsets, about = array("q"), array("i")
    seen: dict[tuple[bytes, bytes], int] = {}
    offset = known.end
    file.seek(offset)
    for line, length in read_lines(file):
        begin, end = line.find(b', "config": '), line.rfind(b', "tvm_version": ')
        ends = (line[:begin], line[end:]) if 0 < begin < end else (line, b"")
        found = seen.get(ends)
        if found is None:
            text = _about(line, ends)
            found = ids.setdefault(text, len(ids))
            if ends[1]:
                seen[ends] = found
        about.append(found)
        offset += length
        offsets.append(offset)
    return LogIndex(
        np.concatenate([known.offsets, np.frombuffer(offsets, np.int64)]),
        np.concatenate([known.about, np.frombuffer(about, np.int32)]),
        tuple(ids),
    )


def _about(line: bytes, ends: tuple[bytes, bytes]) -> str:
    if not line:
        return SKIPPED + TOO_LONG
    try:
        row = _outer(*ends) if ends[1] else None
        if row is None:
            row = parse_line(line)
        return "" if row is None else _describe(row)
    except LineError as error:
        return SKIPPED + reason_of(error)


def _outer(begin: bytes, end: bytes) -> Row | None:
    """A line without its middle, ``None`` if that is no JSON object."""
    try:
        return parse_line(begin + end)
    except LineError:
        return None


def _describe(row: Row) -> str:
    if is_plan_row(row):
        return json.dumps({"plan": list(plan_key(row))})
    if is_verdict_row(row):
        return _VERDICT
    told: dict[str, Any] = {"input": row["input"], "neocpu": ours_of(row)}
    return json.dumps(told | {"tvm_version": row.get("tvm_version", "")})
